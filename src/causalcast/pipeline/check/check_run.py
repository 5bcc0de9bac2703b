"""Checks a run in five passes over its logs, in this process or in Spark tasks.

    publish_rows    what was published                      every file
    direct_causes   what each publication followed          every file
    scan_logs       is anything wrong with a log?           every file
    look_closely    what exactly?                           files with suspicious logs
    name_lacking    who lacks what others delivered?        every file, if anybody lacks anything

In between, small results are joined here into the publish graph and the requirement lists.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np

from causalcast.pipeline.check.checks import shares
from causalcast.pipeline.check.checks.agreement import Tally
from causalcast.pipeline.check.checks.finding import Finding
from causalcast.pipeline.check.checks.order import KeyLists
from causalcast.pipeline.check.close_look import (
    CloseLook,
    Knowledge,
    look_closely,
    name_lacking,
    silent_views,
    views,
)
from causalcast.pipeline.check.patterns import Patterns
from causalcast.pipeline.check.scan import Rules, Scan, scan_logs, scan_silent
from causalcast.pipeline.logs.bits import unpacked
from causalcast.pipeline.logs.logs import Logs, bundles, logs_of_table, read_logs
from causalcast.pipeline.logs.memberships import Memberships, read_memberships
from causalcast.pipeline.logs.publications import number_publications, publish_rows
from causalcast.pipeline.logs.publish_graph import build_graph, direct_causes, reply_graph
from causalcast.pipeline.logs.requirements import requirement_lists
from causalcast.trace.run_folder import Run, event_files, read_header, read_small_tables
from causalcast.trace.run_header import RunHeader

Result = TypeVar("Result")


@dataclass
class Counts:
    """How much was looked at."""

    nodes: int = 0
    publications: int = 0
    deliveries: int = 0
    undelivered: int = 0
    """Publications that no node delivered, its publisher included."""
    unseen: int = 0
    """Messages that were delivered and published by nobody."""
    unknown: int = 0
    """Deliveries whose order cannot be known: rows about them or their causes are missing."""

    @property
    def judged(self) -> int:
        """Deliveries that could be judged: the log shows whether they keep the order."""
        return self.deliveries - self.unknown


@dataclass
class Checked:
    """What was found in a whole run."""

    findings: list[Finding]
    counts: Counts
    down: list[int]
    """Nodes that crashed and did not come back."""
    patterns: Patterns = field(default_factory=Patterns)
    unknown: Counter[str] = field(default_factory=Counter)
    """Per property, what may be a violation or only a row that is missing."""
    silent: list[int] = field(default_factory=list)
    """Members without a single row."""


class Pieces(Protocol):
    """The logs of a run in pieces, each of which holds whole logs."""

    def each(
        self,
        work: Callable[[Logs], Result],
        places: Sequence[int] | None = None,
        with_times: bool = False,
    ) -> list[Result]:
        """Do `work` on every piece, or on those at `places`; results in that order.

        Only `with_times` are times sure to be there: they are left unread where nobody asks.
        """
        ...


class PiecesInMemory:
    """Logs that are here."""

    def __init__(self, logs: Sequence[Logs]) -> None:
        self.logs = logs

    def each(
        self,
        work: Callable[[Logs], Result],
        places: Sequence[int] | None = None,
        with_times: bool = False,
    ) -> list[Result]:
        """Do `work` here, one piece after the other."""
        return [work(self.logs[p]) for p in (range(len(self.logs)) if places is None else places)]


def check_folder(folder: Path) -> Checked:
    """Read and check a whole run in this process."""
    header = read_header(folder)
    small = read_small_tables(folder)
    memberships = read_memberships(small.nodes, small.members)
    return check_files(header, memberships, event_files(folder))


def check_files(header: RunHeader, memberships: Memberships, files: Sequence[Path]) -> Checked:
    """Read and check all event files of a run in this process."""
    logs = [read_logs(paths) for paths in bundles(files)]
    return check_pieces(header, memberships, PiecesInMemory(logs or [Logs.empty()]))


def check_run(run: Run) -> Checked:
    """Check a run that is in memory."""
    memberships = read_memberships(run.nodes, run.members)
    return check_pieces(run.header, memberships, PiecesInMemory([logs_of_table(run.events, "run")]))


def check_pieces(header: RunHeader, memberships: Memberships, pieces: Pieces) -> Checked:
    """Check a run, wherever its pieces are."""
    publications = number_publications(pieces.each(publish_rows, with_times=True))
    graph = build_graph(publications, pieces.each(lambda logs: direct_causes(logs, publications)))
    # Lists rely on every publication of an origin following the ones before it; ties do not.
    listed = not graph.cyclic.any() and publications.tied is None
    lists = requirement_lists(graph, memberships) if listed else None
    rules = Rules(publications, lists, memberships)
    scans = pieces.each(lambda logs: scan_logs(logs, rules))
    spoke = {node for scan in scans for node in scan.nodes}
    silent = [node for node in memberships.by_node if node not in spoke]
    of_silent = scan_silent(silent, rules)

    knowledge = Knowledge(
        graph, memberships, header.whole, header.redelivery, reply_graph(publications),
        None if publications.key is None else KeyLists(publications, graph),
    )  # fmt: skip
    looks = _look_at_suspicious(pieces, scans, knowledge)
    looks.append(look_closely(silent_views(of_silent.suspicious, knowledge), knowledge))
    findings = [finding for look in looks for finding in look.findings]
    tallies = [scan.tally for scan in (*scans, of_silent)] + [look.tally for look in looks]
    total = Tally.empty(len(publications))
    for tally in tallies:
        total.add(tally)
    if header.whole:
        findings += _agreement(pieces, scans, total, silent, knowledge)
    if memberships.has_shares:
        found = pieces.each(lambda logs: shares.portions(views(logs, knowledge)))
        found.append(shares.portions(silent_views(silent, knowledge)))
        parts = [part for some in found for part in some]
        findings += shares.find(parts, publications, total.delivered, header.whole)
    unknown, patterns, unseen = Counter[str](), Patterns(), set[int]()
    for look in looks:
        unknown.update(look.unknown)
        patterns.add(look.patterns)
        unseen |= look.unseen
    down = [n for scan in scans for n in scan.down] + [n for look in looks for n in look.down]
    counts = Counts(
        len(memberships.by_node),
        len(publications),
        sum(scan.deliveries for scan in scans),
        len(publications) - int(np.count_nonzero(unpacked(total.anywhere, len(publications)))),
        len(unseen),
        unknown["causal_order"] + sum(look.unseen_deliveries for look in looks),
    )
    return Checked(findings, counts, sorted(down), patterns, unknown, silent)


def _look_at_suspicious(
    pieces: Pieces, scans: Sequence[Scan], knowledge: Knowledge
) -> list[CloseLook]:
    nodes = {node for scan in scans for node in scan.suspicious}
    places = [place for place, scan in enumerate(scans) if scan.suspicious]
    if nodes:  # made here once, not by every task
        knowledge.graph.short  # noqa: B018
        if knowledge.replies is not None:
            knowledge.replies.short  # noqa: B018
        if knowledge.keys is not None:
            knowledge.keys.past  # noqa: B018
    return pieces.each(
        lambda logs: look_closely(views(logs, knowledge, nodes), knowledge), places, with_times=True
    )


def _agreement(
    pieces: Pieces,
    scans: Sequence[Scan],
    total: Tally,
    silent: list[int],
    knowledge: Knowledge,
) -> list[Finding]:
    """Lists the nodes that lack a message that others delivered. Most runs have none."""
    if not total.broken().any():
        return []
    places = [
        place
        for place, scan in enumerate(scans)
        if scan.suspicious or (scan.tally.lacking & total.broken()).any()
    ]
    broken = unpacked(total.broken(), len(knowledge.graph.publications))
    named = pieces.each(lambda logs: name_lacking(views(logs, knowledge), broken), places)
    named.append(name_lacking(silent_views(silent, knowledge), broken))
    return [finding for found in named for finding in found]
