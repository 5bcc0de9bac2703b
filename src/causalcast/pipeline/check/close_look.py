"""Finds what exactly is wrong with a log: runs every check on the few logs that need it."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

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
from causalcast.pipeline.check.checks.order import KeyLists, find_early_deliveries
from causalcast.pipeline.check.log_view import LogView
from causalcast.pipeline.check.patterns import Patterns, patterns_of
from causalcast.pipeline.kernels.kinds import DELIVER
from causalcast.pipeline.logs.logs import Bools, Logs
from causalcast.pipeline.logs.memberships import Memberships
from causalcast.pipeline.logs.publish_graph import PublishGraph


@dataclass
class CloseLook:
    """What was found in some logs."""

    tally: agreement.Tally
    findings: list[Finding] = field(default_factory=list)
    down: list[int] = field(default_factory=list)
    patterns: Patterns = field(default_factory=Patterns)
    unknown: Counter[str] = field(default_factory=Counter)
    """Per property, of how many rows it cannot be known whether they break it."""
    unseen: set[int] = field(default_factory=set)
    """Messages that were delivered and published by nobody."""
    unseen_deliveries: int = 0


@dataclass
class Knowledge:
    """What a closer look needs to know about the run; sent to the tasks that take one."""

    graph: PublishGraph
    memberships: Memberships
    whole: bool = True
    redelivery: str = "none"
    replies: PublishGraph | None = None
    """By declared causes alone; none if there are none."""
    keys: KeyLists | None = None
    """None if publications have no keys."""


def look_closely(logs: Iterable[LogView], knowledge: Knowledge) -> CloseLook:
    """All findings about some logs that need no other log."""
    look = CloseLook(agreement.Tally.empty(len(knowledge.graph.publications)))
    for log in logs:
        breaks = find_early_deliveries(log, knowledge.replies, knowledge.keys)
        look.findings += no_creation.find(log)
        look.findings += no_duplication.find(log)
        if log.whole:  # of what is missing in a partial log nothing is known
            look.findings += validity.find(log)
        look.findings += fifo_order.find(log, breaks.fifo)
        look.findings += causal_order.find(log, breaks.causal, breaks.fifo)
        if knowledge.replies is not None and breaks.reply is not None:
            look.findings += reply_order.find(log, breaks.reply, breaks.fifo, knowledge.replies)
            look.unknown[reply_order.NAME] += breaks.reply.unknown
        look.patterns.add(patterns_of(log, breaks))
        look.unknown[no_creation.NAME] += no_creation.count_unknown(log)
        look.unknown[no_duplication.NAME] += no_duplication.count_unknown(log)
        look.unknown[fifo_order.NAME] += breaks.fifo.unknown
        look.unknown[causal_order.NAME] += breaks.causal.unknown
        unseen = log.message[(log.kind == DELIVER) & (log.dense < 0)]
        look.unseen.update(unseen.tolist())
        look.unseen_deliveries += len(unseen)
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
                None if logs.attempt is None else logs.attempt[start:end],
                None if logs.instant is None else logs.instant[start:end],
                logs.at_us[start:end] if len(logs.at_us) else None,
                knowledge.whole, knowledge.redelivery,
            )  # fmt: skip


def silent_views(nodes: Iterable[int], knowledge: Knowledge) -> list[LogView]:
    """Nodes without a single row."""
    empty = Logs.empty()
    return [
        LogView(
            node, empty.kind, empty.message, empty.group, knowledge.memberships.of(node),
            knowledge.graph, whole=knowledge.whole, redelivery=knowledge.redelivery,
        )
        for node in nodes
    ]  # fmt: skip
