"""Compares what a run promised with what was found: the summary for people and scripts.

All six properties are always reported, and reply order where causes are declared. The verdict
counts what the run promised and causal order, unless the caller says otherwise.

A partial log has no verdict `ok`: what breaks a property in it is violated, of the rest something
is unknown, and a figure says how much could be judged. A log in which something is delivered before
it was published is itself wrong, so nobody is judged by it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from causalcast.errors import ConfigError
from causalcast.pipeline.check.check_run import Checked, Counts
from causalcast.pipeline.check.checks.finding import Finding
from causalcast.pipeline.logs.places import Place, RunAtHand
from causalcast.pipeline.verdicts.diagnosis import Diagnosis, diagnose
from causalcast.pipeline.verdicts.log_fault import LogFault, find_fault
from causalcast.pipeline.verdicts.names import Names, names_of
from causalcast.trace.kinds import GUARANTEES, REPLY_ORDER, WEAKER_FORMS
from causalcast.trace.run_folder import read_header, read_small_tables
from causalcast.trace.run_header import RunHeader

__all__ = ["Names", "PropertyResult", "Verdict", "parse_promise", "to_json", "verdict_of"]

OK, VIOLATED, INCOMPLETE, PENDING = "ok", "violated", "incomplete", "pending"
UNKNOWN = "unknown"  # of a property: it may hold or not, rows are missing
NO_VIOLATION = "no_violation"  # of a partial log: nothing that is known breaks what counts
FAULTY_LOG = "faulty_log"
WORST_FIRST = (VIOLATED, FAULTY_LOG, INCOMPLETE, NO_VIOLATION, OK)
FINE = (OK, NO_VIOLATION)
ABOUT_THE_END = ("validity", "agreement")  # what is missing may still come if the end has not
EXAMPLES = 50  # of each property; all others are counted


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
    unknown: int = 0
    """What may be a violation, or only a row that is missing."""


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
    diagnosis: Diagnosis
    fault: LogFault | None = None
    silent: list[str] = field(default_factory=list)
    """Members of a partial log without a single row."""
    seconds: float = 0.0
    """How long the check took, of all runs that were judged together."""
    kept_alive: object = field(default=None, repr=False)
    """What must not go before the verdict: a temporary folder in which its rows lie."""

    def to_json(self) -> dict[str, Any]:
        """The same as a dict, as `verify --json` prints it."""
        return to_json([self], self.seconds)

    @property
    def is_fine(self) -> bool:
        """Whether nothing that is known breaks what counts."""
        return self.verdict in FINE


def parse_promise(text: str | None) -> list[str] | None:
    """What `promise` counts: none (promises and causal order), `promised`, or some properties."""
    if text is None or text == "promised":
        return None if text is None else []
    chosen = [name.strip() for name in text.split(",") if name.strip()]
    for name in chosen:
        if name not in (*GUARANTEES, *WEAKER_FORMS, REPLY_ORDER):
            raise ConfigError(
                f"promise: unknown property {name!r}, expected 'promised' or some of"
                f" {', '.join((*GUARANTEES, REPLY_ORDER))}"
            )
    if not chosen:
        raise ConfigError("promise: the list is empty")
    return chosen


def verdict_of(
    run: Path | RunAtHand, checked: Checked, promise: list[str] | None = None
) -> Verdict:
    """The verdict about a run; `promise` as `parse_promise` gives it."""
    place, folder = (run, run) if isinstance(run, Path) else (run.place, run.folder)
    header = read_header(folder)
    small = read_small_tables(folder)
    promised = promise or header.guarantees
    fault = find_fault(header, checked.findings)
    if fault is not None:
        checked = replace(checked, findings=fault.others)
    results = [
        _result(name, checked, header, promised, also_counted=promise is None)
        for name in properties_of(header)
    ]
    if fault is not None:
        results = [_distrusted(result) for result in results]
    spoken_of = [m for result in results for one in result.examples for m in one.messages()]
    names = names_of(folder, header, small, spoken_of)
    if any(r.counted and r.status == VIOLATED for r in results):
        verdict = VIOLATED
    elif fault is not None:
        verdict = FAULTY_LOG
    elif not header.complete or checked.counts.publications == 0:
        verdict = INCOMPLETE
    else:
        verdict = OK if header.whole else NO_VIOLATION
    silent = [] if header.whole else [names.node(node) for node in checked.silent]
    return Verdict(
        place, folder, header, names, verdict, results, checked.counts, checked.down,
        _remarks(header, checked.counts), diagnose(checked.patterns, names, fault is None), fault,
        silent,
    )  # fmt: skip


def properties_of(header: RunHeader) -> tuple[str, ...]:
    """What is judged: the six, and reply order where causes are declared."""
    return (*GUARANTEES, REPLY_ORDER) if REPLY_ORDER in header.guarantees else GUARANTEES


def _distrusted(result: PropertyResult) -> PropertyResult:
    """In a log that is wrong itself, what seemed to follow what proves nothing."""
    if result.name != "causal_order" or result.status == OK:
        return result
    unknown = result.unknown + result.violations
    return replace(result, status=UNKNOWN, unknown=unknown, violations=0, nodes=0, examples=[])


def _remarks(header: RunHeader, counts: Counts) -> list[str]:
    signs = list(header.found_out)
    if not header.whole:
        signs.insert(0, "the log is partial: rows that are missing prove nothing")
    return signs + _remarks_about(counts)


def _remarks_about(counts: Counts) -> list[str]:
    if counts.publications == 0:
        return ["nothing was published, so nothing was checked"]
    if counts.undelivered == 0:
        return []
    were = "publication was" if counts.undelivered == 1 else "publications were"
    return [f"{counts.undelivered:,} {were} delivered by nobody"]


def _result(
    name: str, checked: Checked, header: RunHeader, promised: list[str], also_counted: bool
) -> PropertyResult:
    promised_as = _promised_as(name, promised)
    found = [finding for finding in checked.findings if finding.guarantee == name]
    the_end_has_not_come = name in ABOUT_THE_END and not header.complete
    waits_for_recovery = promised_as == "agreement_after_recovery" and bool(checked.down)
    unknown = checked.unknown[name]
    in_doubt = unknown > 0 or (name in ABOUT_THE_END and not header.whole)
    if not found:
        status = UNKNOWN if in_doubt else OK
    elif the_end_has_not_come or waits_for_recovery:
        status = PENDING
    else:
        status = VIOLATED
    counted = promised_as is not None or (also_counted and name == "causal_order")
    total = sum(1 + finding.further for finding in found)
    nodes = len({finding.node for finding in found})
    best = _best(found)
    return PropertyResult(name, promised_as, counted, status, total, nodes, best, unknown)


def _promised_as(name: str, promised: list[str]) -> str | None:
    """The strongest promise that covers a property."""
    if name in promised:
        return name
    return next((weak for weak in promised if WEAKER_FORMS.get(weak) == name), None)


def examples_of(findings: Sequence[Finding]) -> list[Finding]:
    """All that a verdict shows of some findings."""
    properties = (*GUARANTEES, REPLY_ORDER)
    each = ([f for f in findings if f.guarantee == name] for name in properties)
    return [example for found in each for example in _best(found)]


def _best(found: list[Finding]) -> list[Finding]:
    """The most telling ones: of each mechanism first, those between processes in front; then one
    per node, with the shortest chain, earliest row."""
    ranked = sorted(found, key=_rank)
    chosen: list[Finding] = []
    for mechanism in (True, False):
        chosen += [f for f in ranked if _is_between_processes(f) is mechanism][:1]
    nodes = {finding.node for finding in chosen}
    for finding in ranked:
        if finding.node not in nodes:
            nodes.add(finding.node)
            chosen.append(finding)
    told = set(map(id, chosen))
    return (chosen + [finding for finding in ranked if id(finding) not in told])[:EXAMPLES]


def _is_between_processes(finding: Finding) -> bool | None:
    """Whether cause and effect were published by different nodes; none if it names no cause."""
    if finding.cause is None:
        return None
    return any(m >> 32 != finding.message >> 32 for m in (finding.cause, *finding.chain))


def _rank(finding: Finding) -> tuple[bool, int, int, int]:
    return (not finding.chain, len(finding.chain), finding.pos or 0, finding.node)


def to_json(verdicts: Sequence[Verdict], seconds: float) -> dict[str, Any]:
    """The JSON of `verify`; for several runs the whole, and each of them under `runs`."""
    each = [_one_to_json(verdict) for verdict in verdicts]
    if len(each) == 1:
        return {**each[0], "seconds": round(seconds, 3)}
    worst = next((v for v in WORST_FIRST if any(e["verdict"] == v for e in each)), OK)
    names = [
        *GUARANTEES,
        *([REPLY_ORDER] if any(REPLY_ORDER in e["checked"] for e in each) else []),
    ]
    return {
        "verdict": worst,
        "promised": sorted({name for one in each for name in one["promised"]}),
        "checked": {
            name: _together([one["checked"][name] for one in each if name in one["checked"]])
            for name in names
        },
        **{key: sum(one[key] for one in each) for key in ("deliveries", "publications", "nodes")},
        "seconds": round(seconds, 3),
        "runs": each,
    }


def _together(parts: list[dict[str, Any]]) -> dict[str, Any]:
    statuses = (VIOLATED, PENDING, UNKNOWN)
    worst = next((s for s in statuses if any(p["status"] == s for p in parts)), OK)
    return {
        "ok": worst == OK,
        "status": worst,
        "promised": any(part["promised"] for part in parts),
        "violations": sum(part["violations"] for part in parts),
        "unknown": sum(part["unknown"] for part in parts),
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
                "unknown": result.unknown,
                "nodes": result.nodes,
                "counter_examples": [_example(one, verdict.names) for one in result.examples],
            }
            for result in verdict.results
        },
        "whole": verdict.header.whole,
        "coverage": _coverage(verdict),
        "diagnosis": verdict.diagnosis.to_json(),
        "log_fault": None if verdict.fault is None else verdict.fault.to_json(verdict.names),
        "deliveries": verdict.counts.deliveries,
        "publications": verdict.counts.publications,
        "nodes": verdict.counts.nodes,
        "undelivered": verdict.counts.undelivered,
        "remarks": verdict.remarks,
        "down": verdict.down,
        "complete": verdict.header.complete,
    }


def _coverage(verdict: Verdict) -> dict[str, Any]:
    """How much of a log could be judged."""
    counts = verdict.counts
    return {
        "judged": counts.judged,
        "unknown": counts.unknown,
        "share": round(counts.judged / counts.deliveries, 4) if counts.deliveries else None,
        "publications_never_seen": counts.unseen,
        "processes_never_seen": verdict.silent,
    }


def _example(finding: Finding, names: Names) -> dict[str, Any]:
    place = None if finding.pos is None else names.row(finding.node, finding.pos)
    return {
        "kind": finding.kind,
        "node": finding.node,
        "pos": finding.pos,
        "message": finding.message,
        "cause": finding.cause,
        "chain": list(finding.chain),
        "names": {
            "node": names.node(finding.node),
            "pos": place,
            "message": names.message(finding.message),
            "group": names.group_of(finding.message),
            "cause": None if finding.cause is None else names.message(finding.cause),
            "cause_group": None if finding.cause is None else names.group_of(finding.cause),
            "chain": [names.message(message) for message in finding.chain],
        },
    }
