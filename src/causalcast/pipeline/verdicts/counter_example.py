"""A finding for people: one sentence, and for order a small space–time diagram of the chain."""

from dataclasses import dataclass
from pathlib import Path

from causalcast.pipeline.check.checks import (
    agreement,
    causal_order,
    fifo_order,
    no_creation,
    no_duplication,
    reply_order,
    validity,
)
from causalcast.pipeline.check.checks.finding import Finding
from causalcast.pipeline.verdicts.names import Names, rows_about

CHECKS = (no_creation, no_duplication, validity, agreement, fifo_order, causal_order, reply_order)
WORDS = {check.NAME: check.WORDS for check in CHECKS}
ORIGIN_SHIFT = 32


@dataclass(frozen=True)
class Step:
    """One event of a counter-example; `pos` is none if it never happened or was not looked up."""

    node: int
    kind: str
    message: int
    pos: int | None
    remark: str = ""


def sentence(finding: Finding, names: Names) -> str:
    """Who did what, to which message."""
    who = names.node(finding.node)
    words = WORDS[finding.guarantee][finding.kind]
    where = "" if finding.pos is None else f" at pos {names.row(finding.node, finding.pos)}"
    text = f"{who} {words}: {names.message_in_group(finding.message)}{where}"
    if finding.cause is not None:
        relation = "never" if finding.kind == "gap" else "only later"
        text += f", and {relation} its cause {names.message_in_group(finding.cause)}"
    if finding.further:
        text += f" (and {finding.further} more like this)"
    return text


def steps_of(finding: Finding, folder: Path) -> list[Step]:
    """The chain as events in an order that everybody can follow: cause, …, effect, the breach."""
    chain = list(finding.chain)
    if not chain:
        return []
    where = _positions(folder, {m >> ORIGIN_SHIFT for m in chain} | {finding.node}, set(chain))
    steps: list[Step] = []
    for earlier, later in zip([None, *chain], chain, strict=False):
        publisher = later >> ORIGIN_SHIFT
        if earlier is not None and earlier >> ORIGIN_SHIFT != publisher:
            pos = where.get((publisher, "deliver", earlier))
            steps.append(Step(publisher, "deliver", earlier, pos))
        steps.append(Step(publisher, "publish", later, where.get((publisher, "publish", later))))
    cause = chain[0]
    cause_pos = where.get((finding.node, "deliver", cause))
    steps.append(Step(finding.node, "deliver", finding.message, finding.pos, "too early"))
    remark = "too late" if cause_pos is not None else "never"
    steps.append(Step(finding.node, "deliver", cause, cause_pos, remark))
    return steps


def _positions(
    folder: Path, nodes: set[int], messages: set[int]
) -> dict[tuple[int, str, int], int]:
    """First position of each publish and deliver row of these messages at these nodes."""
    result: dict[tuple[int, str, int], int] = {}
    for row in rows_about(folder, sorted(messages)):
        if row["node"] in nodes:
            result.setdefault((row["node"], row["kind"], row["message"]), row["pos"])
    return result


def draw(steps: list[Step], names: Names) -> str:
    """Nodes side by side, time downwards; one event per line."""
    nodes = list(dict.fromkeys(step.node for step in steps))
    labels = [label_of(step, names) for step in steps]
    width = max([len(names.node(node)) for node in nodes] + [len(label) for label in labels]) + 4
    lines = ["".join(names.node(node).ljust(width) for node in nodes).rstrip()]
    for step, label in zip(steps, labels, strict=True):
        cells = [
            (f"{_mark(step)} {label}" if node == step.node else "│").ljust(width) for node in nodes
        ]
        lines.append("".join(cells).rstrip())
    return "\n".join(lines)


def _mark(step: Step) -> str:
    if step.remark:
        return "✗"
    return "●" if step.kind == "publish" else "○"


def label_of(step: Step, names: Names) -> str:
    """What happened, to which message, in which row."""
    what = f"{step.kind} {names.message_in_group(step.message)}"
    if step.pos is not None:
        what += f" @{names.row(step.node, step.pos)}"
    return f"{what} {step.remark}".rstrip()
