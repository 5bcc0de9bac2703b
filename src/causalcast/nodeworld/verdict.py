"""Judges a world: by the traces of its nodes, and by what applications were told.

Where nodes leave no trace the ledgers of the applications are all there is: they become a log as of
any other system, and are judged like one.
"""

import hashlib
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from causalcast.core.made_groups import FIRST_MADE
from causalcast.errors import CausalcastError, TraceError
from causalcast.judge.judge import judge
from causalcast.judge.judgement import Violation
from causalcast.nodeworld.application import Ledger
from causalcast.nodeworld.disk import is_trace
from causalcast.nodeworld.newcomers import GROUP, told
from causalcast.nodeworld.plan import Plan
from causalcast.nodeworld.process import SimProcess
from causalcast.nodeworld.what_it_costs import too_much
from causalcast.trace.foreign_line import Record
from causalcast.trace.foreign_log import import_records
from causalcast.trace.gather import gather
from causalcast.trace.run_folder import Run

MOST_TOLD = 3  # of one kind


@dataclass
class Outcome:
    """What came of a plan."""

    seed: int
    problems: list[str] = field(default_factory=list)
    fired: dict[str, int] = field(default_factory=dict)
    limits: list[str] = field(default_factory=list)  # that were not what they are shipped with
    digest: str = ""  # of everything that happened: the same for the same seed
    callbacks: int = 0
    seconds: float = 0.0  # of virtual time
    publications: int = 0


def judge_world(
    guarantees: list[str],
    processes: Mapping[int, SimProcess],
    plan: Plan,
    has_bad_trace: bool,
    outcome: Outcome,
) -> None:
    """Everything that is wrong, written into the outcome, with a digest of what happened.

    Where nodes join, what one of them published last may die with it. Who was given an old disk has
    lost what it said, and nobody can be blamed for that: the others must not be misled by it.
    """
    every = {node: (p, ledger) for p in processes.values() for node, ledger in p.ledgers.items()}
    is_joined = plan.is_joined
    learners = {m: p.learner for m, p in processes.items() if p.learner is not None}
    digest = hashlib.sha256()
    digest.update(repr(told(learners)).encode() if learners else b"")
    for node, (_, ledger) in every.items():
        digest.update(repr((node, ledger.log, sorted(ledger.done))).encode())
        outcome.publications += len(ledger.published)
    is_misled = any(process.has_old_disk for process in processes.values())
    judged = {node: both for node, both in every.items() if not both[0].has_old_disk}
    ledgers = {node: ledger for node, (_, ledger) in judged.items()}
    for node, ledger in ledgers.items():
        outcome.problems += [f"node {node}: {text}" for text in ledger.wrong[:MOST_TOLD]]
    outcome.problems += _wrong_bodies(ledgers)
    # Who came later, or was removed, does not get all.
    partly = is_joined or plan.is_open or plan.may_be_removed
    if not is_joined:
        outcome.problems += _of_named_readers(ledgers, gets_all=not (is_misled or partly))
    for ledger in ledgers.values():
        for reading in ledger.readings or []:
            outcome.fired["reader"] = outcome.fired.get("reader", 0) + 1
            ended = outcome.fired.get("reader_ended", 0) + reading.times_ended
            outcome.fired["reader_ended"] = ended
    outcome.problems += too_much(plan, processes)
    run = None
    try:
        run = _gathered(processes, digest)
    except CausalcastError as error:
        if not is_misled and not has_bad_trace:
            outcome.problems.append(f"its trace cannot be gathered: {error}")
    outcome.digest = digest.hexdigest()[:16]
    if run is not None and not is_misled and not has_bad_trace:
        outcome.problems += _violations(run, guarantees)
        outcome.problems += _held_against(run, ledgers, is_joined, _groups_of_others(processes))
    if all(ledger.has_one_order for ledger in ledgers.values()):
        lines = list(_lines_of(judged))
        if lines:
            whole = False if partly or is_misled else None
            run = import_records(iter(lines), "ledgers", whole=whole)
            found = _violations(run, guarantees)
            outcome.problems += [f"told to applications: {problem}" for problem in found]


def _of_named_readers(ledgers: Mapping[int, Ledger], gets_all: bool) -> list[str]:
    """`gets_all`: there is a rest in which everybody is up; not where somebody has an old disk."""
    said = [one for ledger in ledgers.values() for one in ledger.said]
    problems = []
    for node, ledger in ledgers.items():
        for reading in ledger.readings or []:
            plain = {m: b for m, b in ledger.handed.items() if ledger.group_of[m] == reading.group}
            problems += [
                f"reader {reading.name!r} of {reading.group!r} at node {node}: {text}"
                for text in reading.verdict(said, plain, ledger.handed_at, gets_all)
            ]
    return problems


def _gathered(processes: Mapping[int, SimProcess], digest: Any) -> Run | None:
    """The run that the nodes left; None if they left no trace."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        is_there = False
        for process in processes.values():
            for path, content in process.disk.files().items():
                if is_trace(path) and "aside" not in path.name:
                    (folder / path.name).write_bytes(content)
                    digest.update(content)
                    is_there = True
        return gather([folder], folder / "run") if is_there else None


def _violations(run: Run, guarantees: list[str]) -> list[str]:
    try:
        found = judge(run)
    except TraceError as error:  # nodes that do as they promise never write such a trace
        return [f"it cannot be judged: {error}"]
    problems = []
    for guarantee in guarantees:
        name = "agreement" if guarantee == "agreement_after_recovery" else guarantee
        for violation in found.violations.get(name, [])[:MOST_TOLD]:
            problems.append(f"{name}: {_in_words(violation)}")
    return problems


def _in_words(violation: Violation) -> str:
    cause = "" if violation.cause is None else f", before or without {_named(violation.cause)}"
    return f"{violation.kind} at node {violation.node}: {_named(violation.message)}{cause}"


def _named(message: int) -> str:
    return f"{message >> 32}.{message & 0xFFFFFFFF}"


def _groups_of_others(processes: Mapping[int, SimProcess]) -> set[int]:
    """Groups that doors read, or those who learn; the usual applications do not."""
    some = next(iter(processes.values()))
    config = some.config
    names = [] if config.clients is None else list(config.clients.groups)
    if some.learner is not None:
        names.append(GROUP)
    return {int(config.blueprint.groups.id_of(name)) for name in names}


def _held_against(
    run: Run, ledgers: Mapping[int, Ledger], is_joined: bool, elsewhere: set[int]
) -> list[str]:
    """What applications were told, beside what the trace says; groups `elsewhere` are not theirs,
    and those that were made have ledgers of their own.

    Nodes that keep nothing die with what waits for their applications, and with rows that are not
    written yet.
    """
    columns = run.events.select(["node", "kind", "message", "group"]).to_pydict()
    published: set[int] = set()
    delivered: dict[int, set[int]] = {}
    for node, kind, message, group in zip(*columns.values(), strict=True):
        if kind == "publish":
            published.add(message)
        elif kind == "deliver" and group not in elsewhere and group < FIRST_MADE:
            delivered.setdefault(node, set()).add(message)
    problems: list[str] = []
    if is_joined:
        return problems
    for node, ledger in ledgers.items():
        for message in list(ledger.published.keys() - published)[:MOST_TOLD]:
            named = _named(message)
            problems.append(f"receipt lost: {named} was acknowledged, and no trace has it")
        missing = delivered.get(node, set()) - ledger.handed.keys()
        if missing:
            problems.append(f"node {node} delivered {len(missing)} that its application never got")
    return problems


def _wrong_bodies(ledgers: Mapping[int, Ledger]) -> list[str]:
    bodies = {message: body for one in ledgers.values() for message, body in one.published.items()}
    return [
        f"node {node}: {message} came with another body than it was published with"
        for node, ledger in ledgers.items()
        for message, body in ledger.handed.items()
        if bodies.get(message, body) != body
    ][:MOST_TOLD]


def _lines_of(judged: Mapping[int, tuple[SimProcess, Ledger]]) -> Iterator[Record]:
    """The ledgers as a log of another system.

    What was begun and never acknowledged may have been lost with a crash: it counts only if
    somebody got it.
    """
    ledgers = [ledger for _, ledger in judged.values()]
    sure = {body for ledger in ledgers for body in ledger.published.values()}
    sure |= {body for ledger in ledgers for body in ledger.handed.values()}
    for node, (process, ledger) in judged.items():
        groups = process.config.blueprint.groups
        joins = [groups.names[group] for group in groups.groups_of(process.config.node)]
        rows: list[dict[str, Any]] = [{"kind": "join", "group": name} for name in joins]
        rows += [
            {"kind": kind, "group": group, "message": body.hex()}
            for kind, group, body in ledger.log
            if body in sure
        ]
        for pos, row in enumerate(rows):
            yield Record(f"ledger {node}:{pos}", {"node": node, "pos": pos, **row})
