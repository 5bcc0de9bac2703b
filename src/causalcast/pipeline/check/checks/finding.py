"""A row that breaks a property, and its shape as a table."""

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

EXAMPLES_PER_LOG = 8  # of each property; the rest is counted

FINDINGS = pa.schema(
    [
        pa.field("run", pa.string()),
        pa.field("guarantee", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("node", pa.int32()),
        pa.field("message", pa.int64()),
        pa.field("pos", pa.int64()),
        pa.field("cause", pa.int64()),
        pa.field("chain", pa.list_(pa.int64())),
        pa.field("further", pa.int64()),
    ]
)


@dataclass(frozen=True)
class Finding:
    """One thing that must not be."""

    guarantee: str
    kind: str
    node: int
    message: int
    pos: int | None = None
    cause: int | None = None
    chain: tuple[int, ...] = ()
    """From the cause to the message, each a direct cause of the next."""
    further: int = 0
    """How many more of the same guarantee this node has that are not listed."""

    def messages(self) -> tuple[int, ...]:
        """Every message it speaks of."""
        return (self.message, *(() if self.cause is None else (self.cause,)), *self.chain)


def first_few(found: list[Finding], total: int) -> list[Finding]:
    """At most `EXAMPLES_PER_LOG` of them; the last one says how many more there are."""
    shown = found[:EXAMPLES_PER_LOG]
    if total > len(shown) and shown:
        last = shown[-1]
        shown[-1] = Finding(
            last.guarantee, last.kind, last.node, last.message, last.pos, last.cause, last.chain,
            further=total - len(shown),
        )  # fmt: skip
    return shown


def findings_batch(run: str, findings: Iterable[Finding]) -> pa.RecordBatch:
    """Findings of one run as rows."""
    rows = [
        (run, f.guarantee, f.kind, f.node, f.message, f.pos, f.cause, list(f.chain), f.further)
        for f in findings
    ]
    columns = list(zip(*rows, strict=True)) or [()] * len(FINDINGS)
    arrays = [pa.array(list(c), f.type) for c, f in zip(columns, FINDINGS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=FINDINGS)
