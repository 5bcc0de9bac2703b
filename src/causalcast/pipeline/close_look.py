"""What exactly is wrong with a log: every check in turn, for the few logs that need it."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from causalcast.pipeline.checks import (
    agreement,
    causal_order,
    fifo_order,
    no_creation,
    no_duplication,
    validity,
)
from causalcast.pipeline.checks.finding import Finding
from causalcast.pipeline.checks.order import find_early_deliveries
from causalcast.pipeline.log_view import LogView
from causalcast.pipeline.logs import Bools, Logs
from causalcast.pipeline.memberships import Memberships
from causalcast.pipeline.publish_graph import PublishGraph


@dataclass
class CloseLook:
    """What was found in some logs."""

    tally: agreement.Tally
    findings: list[Finding] = field(default_factory=list)
    down: list[int] = field(default_factory=list)


@dataclass
class Knowledge:
    """What a closer look needs to know about the run; sent to the tasks that take one."""

    graph: PublishGraph
    memberships: Memberships
    redelivery: bool
    """Whether a recovery excuses a repeated delivery."""


def look_closely(logs: Iterable[LogView], knowledge: Knowledge) -> CloseLook:
    """Everything that can be said about some logs without the others."""
    look = CloseLook(agreement.Tally.empty(len(knowledge.graph.publications)))
    for log in logs:
        breaks = find_early_deliveries(log)
        look.findings += no_creation.find(log)
        look.findings += no_duplication.find(log, knowledge.redelivery)
        look.findings += validity.find(log)
        look.findings += fifo_order.find(log, breaks)
        look.findings += causal_order.find(log, breaks)
        look.tally.add_log(log)
        if log.down_at_the_end:
            look.down.append(log.node)
    return look


def name_lacking(logs: Iterable[LogView], broken: Bools) -> list[Finding]:
    """The last look for agreement: who lacks what."""
    return [finding for log in logs for finding in agreement.find(log, broken)]


def views(
    logs: Logs, knowledge: Knowledge, nodes: Collection[int] | None = None
) -> Iterator[LogView]:
    """Each log, or those of some nodes, with what the checks ask about it."""
    for node, start, end in logs.bounds():
        if nodes is None or node in nodes:
            yield LogView(
                node, logs.kind[start:end], logs.message[start:end], logs.group[start:end],
                knowledge.memberships.of(node), knowledge.graph,
            )  # fmt: skip


def silent_views(nodes: Iterable[int], knowledge: Knowledge) -> list[LogView]:
    """Nodes without a single row."""
    empty = Logs.empty()
    return [
        LogView(
            node, empty.kind, empty.message, empty.group, knowledge.memberships.of(node),
            knowledge.graph,
        )
        for node in nodes
    ]  # fmt: skip
