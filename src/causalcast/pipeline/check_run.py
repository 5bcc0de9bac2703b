"""Checks logs, in whatever process it is called: a Spark task, or `verify --local`.

`check_run` does a whole run. `check_logs` does one piece of it, given the publish graph of all.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

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
from causalcast.pipeline.logs import Bools, Logs, files_hold_whole_logs, logs_of_table, read_logs
from causalcast.pipeline.memberships import Memberships, read_memberships
from causalcast.pipeline.publish_graph import (
    PublishGraph,
    build_graph,
    direct_causes,
    number_publications,
    publish_rows,
)
from causalcast.trace.run_folder import Run, event_files, read_header, read_run, read_small_tables
from causalcast.trace.run_header import RunHeader
from causalcast.trace.schema import EVENTS


@dataclass
class Counts:
    """How much was looked at."""

    nodes: int = 0
    publications: int = 0
    deliveries: int = 0


@dataclass
class Checked:
    """What was found in a whole run."""

    findings: list[Finding]
    counts: Counts
    down: list[int]
    """Nodes that crashed and did not come back."""


@dataclass
class Piece:
    """What was found in some logs of a run."""

    findings: list[Finding] = field(default_factory=list)
    tally: agreement.Tally = field(default_factory=lambda: agreement.Tally.empty(0))
    deliveries: int = 0
    nodes_with_logs: list[int] = field(default_factory=list)
    down: list[int] = field(default_factory=list)


def check_folder(folder: Path) -> Checked:
    """Read and check a whole run in this process."""
    header = read_header(folder)
    small = read_small_tables(folder)
    memberships = read_memberships(small.nodes, small.members)
    files = event_files(folder)
    if files_hold_whole_logs(files):
        logs = [read_logs(path) for path in files]
    else:
        logs = [logs_of_table(read_run(folder).events, str(folder))]
    return _check(header, memberships, logs, str(folder))


def check_run(run: Run) -> Checked:
    """Check a run that is in memory."""
    memberships = read_memberships(run.nodes, run.members)
    return _check(run.header, memberships, [logs_of_table(run.events, "run")], "run")


def _check(
    header: RunHeader, memberships: Memberships, logs: Sequence[Logs], where: str
) -> Checked:
    publications = number_publications([publish_rows(piece, where) for piece in logs])
    causes = [direct_causes(piece, publications) for piece in logs]
    graph = build_graph(publications, causes, memberships)
    redelivery = header.redelivery == "after_recover"
    pieces = [check_logs(piece, graph, memberships, redelivery) for piece in logs]
    tally = agreement.total([piece.tally for piece in pieces], len(publications))
    silent = silent_views(pieces, graph, memberships)
    for log in silent:
        tally.add(log)
    findings = [finding for piece in pieces for finding in piece.findings]
    broken = tally.broken()
    if broken.any():
        for piece in logs:
            findings += name_lacking(views(piece, graph, memberships), broken)
        findings += name_lacking(silent, broken)
    counts = Counts(len(memberships.by_node), len(publications), sum(p.deliveries for p in pieces))
    return Checked(findings, counts, sorted(node for p in pieces for node in p.down))


def check_logs(
    logs: Logs, graph: PublishGraph, memberships: Memberships, redelivery: bool
) -> Piece:
    """Everything that can be said about some logs without the others."""
    piece = Piece(tally=agreement.Tally.empty(len(graph.publications)))
    for log in views(logs, graph, memberships):
        breaks = find_early_deliveries(log)
        piece.findings += no_creation.find(log)
        piece.findings += no_duplication.find(log, redelivery)
        piece.findings += validity.find(log)
        piece.findings += fifo_order.find(log, breaks)
        piece.findings += causal_order.find(log, breaks)
        piece.tally.add(log)
        piece.nodes_with_logs.append(log.node)
        if log.down_at_the_end:
            piece.down.append(log.node)
    piece.deliveries = logs.deliveries()
    return piece


def name_lacking(logs: Iterable[LogView], broken: Bools) -> list[Finding]:
    """The second look for agreement: who lacks what."""
    return [finding for log in logs for finding in agreement.find(log, broken)]


def views(logs: Logs, graph: PublishGraph, memberships: Memberships) -> Iterator[LogView]:
    """Each log with what the checks ask about it."""
    for node, start, end in logs.bounds():
        yield LogView(
            node, logs.kind[start:end], logs.message[start:end], logs.group[start:end],
            memberships.of(node), graph,
        )  # fmt: skip


def silent_views(
    pieces: Sequence[Piece], graph: PublishGraph, memberships: Memberships
) -> list[LogView]:
    """Nodes without a single row: members that have delivered nothing, and are up."""
    spoke = {node for piece in pieces for node in piece.nodes_with_logs}
    empty = logs_of_table(EVENTS.empty_table(), "run")
    return [
        LogView(node, empty.kind, empty.message, empty.group, of_node, graph)
        for node, of_node in memberships.by_node.items()
        if node not in spoke
    ]
