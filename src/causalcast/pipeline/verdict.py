"""What a run promised against what was found: the summary people and scripts read.

All six properties are always reported. The verdict counts what the run promised and causal order,
unless the caller says otherwise.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from causalcast.errors import ConfigError
from causalcast.pipeline.check_run import Checked, Counts
from causalcast.pipeline.checks.finding import Finding
from causalcast.pipeline.places import Place, RunAtHand
from causalcast.trace.export import message_name
from causalcast.trace.run_folder import event_files, read_header, read_small_tables
from causalcast.trace.run_header import RunHeader
from causalcast.trace.schema import GUARANTEES, WEAKER_FORMS

OK, VIOLATED, INCOMPLETE, PENDING = "ok", "violated", "incomplete", "pending"
ABOUT_THE_END = ("validity", "agreement")  # what is missing may still come if the end has not
EXAMPLES = 50  # of each property; all others are counted


@dataclass
class Names:
    """How people call nodes and messages."""

    nodes: dict[int, str]
    messages: dict[int, str] = field(default_factory=dict)
    """Names that another system gave its messages, as far as they are spoken of."""

    def node(self, node: int) -> str:
        """The name of a node, or its number."""
        return self.nodes.get(node) or f"node {node}"

    def message(self, message: int) -> str:
        """The name of a message, or origin:number."""
        return self.messages.get(message) or message_name(message)


@dataclass
class PropertyResult:
    """One of the six properties in one run."""

    name: str
    promised_as: str | None
    """The guarantee that promises it: its name, a weaker form, or none."""
    counted: bool
    status: str
    violations: int
    nodes: int
    examples: list[Finding]


@dataclass
class Verdict:
    """What is to be said about one run."""

    place: Place
    """What people call the run."""
    folder: Path
    """Where its small tables are, and the rows of its counter-examples."""
    header: RunHeader
    names: Names
    verdict: str
    results: list[PropertyResult]
    counts: Counts
    down: list[int]
    remarks: list[str]
    """What breaks no property and should be known all the same."""


def parse_promise(text: str | None) -> list[str] | None:
    """`--promise`: none (promises and causal order), `promised`, or a list of properties."""
    if text is None or text == "promised":
        return None if text is None else []
    chosen = [name.strip() for name in text.split(",") if name.strip()]
    for name in chosen:
        if name not in GUARANTEES and name not in WEAKER_FORMS:
            raise ConfigError(
                f"--promise: unknown property {name!r}, expected 'promised' or some of"
                f" {', '.join(GUARANTEES)}"
            )
    if not chosen:
        raise ConfigError("--promise: the list is empty")
    return chosen


def verdict_of(
    run: Path | RunAtHand, checked: Checked, promise: list[str] | None = None
) -> Verdict:
    """The verdict about a run; `promise` as `parse_promise` gives it."""
    place, folder = (run, run) if isinstance(run, Path) else (run.place, run.folder)
    header = read_header(folder)
    small = read_small_tables(folder)
    nodes = zip(small.nodes["node"].to_pylist(), small.nodes["name"].to_pylist(), strict=True)
    names = Names(dict(nodes))
    promised = promise or header.guarantees
    results = [
        _result(name, checked, header, promised, also_counted=promise is None)
        for name in GUARANTEES
    ]
    if header.world == "imported":
        names.messages = _foreign_names(folder, results)
    if any(r.counted and r.status == VIOLATED for r in results):
        verdict = VIOLATED
    elif not header.complete or checked.counts.publications == 0:
        verdict = INCOMPLETE
    else:
        verdict = OK
    remarks = _remarks(checked.counts)
    return Verdict(
        place, folder, header, names, verdict, results, checked.counts, checked.down, remarks
    )


def _remarks(counts: Counts) -> list[str]:
    if counts.publications == 0:
        return ["nothing was published, so nothing was checked"]
    if counts.undelivered == 0:
        return []
    were = "publication was" if counts.undelivered == 1 else "publications were"
    return [f"{counts.undelivered:,} {were} delivered by nobody"]


def _foreign_names(folder: Path, results: list[PropertyResult]) -> dict[int, str]:
    """What the other system called the messages of the examples: the note of their first row."""
    spoken_of: set[int] = set()
    for finding in (finding for result in results for finding in result.examples):
        spoken_of.update(finding.messages())
    if not spoken_of:
        return {}
    import pyarrow.dataset as ds  # loads pandas, which most verdicts do without

    events = ds.dataset([str(path) for path in event_files(folder)], format="parquet")
    wanted = ds.field("message").isin(sorted(spoken_of)) & ~ds.field("note").is_null()
    rows = events.to_table(columns=["message", "note"], filter=wanted)
    return dict(zip(rows["message"].to_pylist(), rows["note"].to_pylist(), strict=True))


def _result(
    name: str, checked: Checked, header: RunHeader, promised: list[str], also_counted: bool
) -> PropertyResult:
    promised_as = _promised_as(name, promised)
    found = [finding for finding in checked.findings if finding.guarantee == name]
    the_end_has_not_come = name in ABOUT_THE_END and not header.complete
    waits_for_recovery = promised_as == "agreement_after_recovery" and bool(checked.down)
    if not found:
        status = OK
    elif the_end_has_not_come or waits_for_recovery:
        status = PENDING
    else:
        status = VIOLATED
    counted = promised_as is not None or (also_counted and name == "causal_order")
    total = sum(1 + finding.further for finding in found)
    nodes = len({finding.node for finding in found})
    return PropertyResult(name, promised_as, counted, status, total, nodes, _best(found))


def _promised_as(name: str, promised: list[str]) -> str | None:
    """The strongest promise that covers a property."""
    if name in promised:
        return name
    return next((weak for weak in promised if WEAKER_FORMS.get(weak) == name), None)


def examples_of(findings: Sequence[Finding]) -> list[Finding]:
    """All that a verdict shows of some findings."""
    each = ([f for f in findings if f.guarantee == name] for name in GUARANTEES)
    return [example for found in each for example in _best(found)]


def _best(found: list[Finding]) -> list[Finding]:
    """The most telling ones: one per node first, with the shortest chain, earliest row."""
    first: dict[int, Finding] = {}
    further = [f for f in found if first.setdefault(f.node, f) is not f]
    ranked = sorted(first.values(), key=_rank) + sorted(further, key=_rank)
    return ranked[:EXAMPLES]


def _rank(finding: Finding) -> tuple[bool, int, int, int]:
    return (not finding.chain, len(finding.chain), finding.pos or 0, finding.node)


def to_json(verdicts: Sequence[Verdict], seconds: float) -> dict[str, Any]:
    """The JSON of `verify`; for several runs the whole, and each of them under `runs`."""
    each = [_one_to_json(verdict) for verdict in verdicts]
    if len(each) == 1:
        return {**each[0], "seconds": round(seconds, 3)}
    worst = next((v for v in (VIOLATED, INCOMPLETE) if any(e["verdict"] == v for e in each)), OK)
    return {
        "verdict": worst,
        "promised": sorted({name for one in each for name in one["promised"]}),
        "checked": {name: _together([one["checked"][name] for one in each]) for name in GUARANTEES},
        **{key: sum(one[key] for one in each) for key in ("deliveries", "publications", "nodes")},
        "seconds": round(seconds, 3),
        "runs": each,
    }


def _together(parts: list[dict[str, Any]]) -> dict[str, Any]:
    worst = next((s for s in (VIOLATED, PENDING) if any(p["status"] == s for p in parts)), OK)
    return {
        "ok": worst == OK,
        "status": worst,
        "promised": any(part["promised"] for part in parts),
        "violations": sum(part["violations"] for part in parts),
        "counter_examples": [e for part in parts for e in part["counter_examples"]][:EXAMPLES],
    }


def _one_to_json(verdict: Verdict) -> dict[str, Any]:
    return {
        "run": str(verdict.place),
        "run_id": verdict.header.run_id,
        "protocol": verdict.header.protocol,
        "verdict": verdict.verdict,
        "promised": list(verdict.header.guarantees),
        "checked": {
            result.name: {
                "ok": result.status == OK,
                "status": result.status,
                "promised": result.promised_as is not None,
                "counted": result.counted,
                "violations": result.violations,
                "nodes": result.nodes,
                "counter_examples": [_example(finding) for finding in result.examples],
            }
            for result in verdict.results
        },
        "deliveries": verdict.counts.deliveries,
        "publications": verdict.counts.publications,
        "nodes": verdict.counts.nodes,
        "undelivered": verdict.counts.undelivered,
        "remarks": verdict.remarks,
        "down": verdict.down,
        "complete": verdict.header.complete,
    }


def _example(finding: Finding) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "node": finding.node,
        "pos": finding.pos,
        "message": finding.message,
        "cause": finding.cause,
        "chain": list(finding.chain),
    }
