"""Spans become the lines of a log: processes get names, moments an order, repetitions a number."""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from causalcast.errors import TraceError
from causalcast.trace.foreign_log import Record
from causalcast.trace.spans.moments import CHILD, PARENT, Moment, moments_of, spans_in_circles
from causalcast.trace.spans.operations import (
    PROCESS,
    PUBLISH,
    RECEIVE,
    Operation,
    operation_of,
)
from causalcast.trace.spans.rules import SpanRules
from causalcast.trace.spans.span import Span

Process = tuple[str, str]
NO_MESSAGES = (
    "none of the spans publishes or processes a message: spans of kind PRODUCER and CONSUMER, or"
    " with messaging.operation.type, are needed"
)


@dataclass
class SpanCounts:
    """What was found in spans, for people."""

    spans: int = 0
    processes: int = 0
    publications: int = 0
    deliveries: int = 0
    retries: int = 0
    unnamed: int = 0
    equal_times: int = 0
    circular: int = 0
    """Spans that are their own ancestors."""
    circle: str = ""
    """A trace that has such; the first by its id."""

    def told(self) -> list[str]:
        """The figures, and what they mean where something is odd."""
        said = [
            f"{self.spans:,} spans of {self.processes:,} processes:"
            f" {self.publications:,} publications, {self.deliveries:,} deliveries"
        ]
        if self.retries:
            said.append(f"{self.retries:,} deliveries are further attempts")
        if self.equal_times:
            said.append(
                f"{self.equal_times:,} moments have the time of the one before and are not ordered"
            )
        if self.unnamed:
            said.append(
                f"{self.unnamed:,} consumer spans left out: neither a link nor a parent names their"
                " message; instrument the producer, or try --message id"
            )
        if self.circular:
            said.append(self.told_of_circles())
        return said

    def told_of_circles(self) -> str:
        """What is wrong with spans that are their own ancestors."""
        return (
            f"{self.circular:,} spans are their own ancestors (one is in trace {self.circle}), so"
            " the log cannot be true"
        )

    def refusal(self) -> TraceError:
        """What is said where no span is about a message that is known."""
        return TraceError(
            f"{NO_MESSAGES}; {self.told_of_circles()}" if self.circular else NO_MESSAGES
        )


def span_records(spans: Iterable[Span], rules: SpanRules) -> tuple[list[Record], SpanCounts]:
    """The log that some spans describe, process by process."""
    counts = SpanCounts()
    moments = _moments((operation_of(span, rules) for span in spans), rules, counts)
    if not moments:
        raise counts.refusal()
    names = process_names({(moment.service, moment.process) for moment in moments})
    counts.processes = len(names)
    topics = _topics(moments)
    number_attempts(moments, rules, counts)
    logs: dict[str, list[Moment]] = defaultdict(list)
    for moment in moments:
        moment.topic = topics.get(moment.message, moment.topic)
        logs[names[moment.service, moment.process]].append(moment)
    records: list[Record] = []
    for name in sorted(logs):
        log = sorted(logs[name], key=lambda m: (m.at_ns, m.rank, m.handling, m.message))
        tied = ties_of(log)
        counts.equal_times += sum(tied)
        records += _records_of(name, log, tied, rules)
    _count(moments, counts)
    return records, counts


def process_names(processes: Iterable[Process]) -> dict[Process, str]:
    """Short names: the instance alone, unless two services have one of the same name."""
    by_name: dict[str, set[str]] = defaultdict(set)
    for service, process in processes:
        by_name[process].add(service)
    return {
        (service, process): process if len(by_name[process]) == 1 else f"{service}/{process}"
        for service, process in processes
    }


def number_attempts(moments: list[Moment], rules: SpanRules, counts: SpanCounts) -> None:
    """Deliveries of one message to one reader (a process, or all that share) are numbered."""
    unsteady = _unsteady_processes(moments)
    readers: dict[tuple[str, str], list[Moment]] = defaultdict(list)
    for moment in moments:
        if moment.role != PUBLISH and not moment.attempt:
            readers[moment.message, _reader(moment)].append(moment)
    for deliveries in readers.values():
        if len(deliveries) < 2 or rules.retries == "none":
            continue
        deliveries.sort(key=lambda moment: (moment.at_ns, moment.handling))
        attempt = 1
        deliveries[0].attempt = 1
        for before, moment in itertools.pairwise(deliveries):
            if before.failed or rules.retries == "all":
                attempt += 1
                counts.retries += 1
            moment.attempt = attempt
    if rules.retries != "none" and any(moment.attempt for moment in moments):
        for moment in moments:
            steady = (moment.service, moment.process) not in unsteady
            if steady and moment.role != PUBLISH:
                moment.attempt = 1


def _reader(moment: Moment) -> str:
    return moment.share or f"{moment.service}/{moment.process}"


def _unsteady_processes(moments: Iterable[Moment]) -> set[Process]:
    """Who processes something again, or might: it failed, or says so, or shares with such."""
    came: set[tuple[str, str]] = set()
    unsteady: set[str] = set()
    readers: set[tuple[Process, str]] = set()
    for moment in moments:
        if moment.role != PUBLISH:
            reader = _reader(moment)
            if moment.failed or moment.attempt or (moment.message, reader) in came:
                unsteady.add(reader)
            came.add((moment.message, reader))
            readers.add(((moment.service, moment.process), reader))
    return {process for process, reader in readers if reader in unsteady}


def _moments(operations: Iterable[Operation], rules: SpanRules, counts: SpanCounts) -> list[Moment]:
    traces: dict[str, list[Operation]] = defaultdict(list)
    for operation in operations:
        traces[operation.trace].append(operation)
        counts.spans += 1
    found = [moment for trace in traces.values() for moment in moments_of(trace, rules)]
    _count_circles(traces, counts)
    named = [moment for moment in found if moment.message]
    counts.unnamed = sum(not moment.message and moment.role != PUBLISH for moment in found)
    processed = {(m.service, m.process, m.topic) for m in named if m.role == PROCESS}
    return [
        moment
        for moment in named
        if moment.role != RECEIVE or (moment.service, moment.process, moment.topic) not in processed
    ]


def _count_circles(traces: dict[str, list[Operation]], counts: SpanCounts) -> None:
    circles = {trace: spans_in_circles(operations) for trace, operations in traces.items()}
    counts.circular = sum(circles.values())
    counts.circle = min((trace for trace, spans in circles.items() if spans), default="")


def _topics(moments: Iterable[Moment]) -> dict[str, str]:
    """Of each message, the topic to which it was published; the first by name, if to several."""
    topics: dict[str, str] = {}
    for moment in moments:
        if moment.role == PUBLISH:
            known = topics.setdefault(moment.message, moment.topic)
            topics[moment.message] = min(known, moment.topic)
    return topics


def ties_of(log: list[Moment]) -> list[bool]:
    """Of each moment of a sorted log: whether it is not ordered with the one before it.

    Those with one time are not, except what was published while something was processed.
    """
    tied: list[bool] = []
    for _, group in itertools.groupby(log, key=lambda moment: moment.at_ns):
        together = list(group)
        ranks = [moment.rank for moment in together]
        of_one = len({moment.handling for moment in together}) == 1
        answers = of_one and set(ranks) == {PARENT, CHILD}
        tied.append(False)
        tied += [not answers or one == other for one, other in itertools.pairwise(ranks)]
    return tied


def _records_of(
    name: str, log: list[Moment], tied: list[bool], rules: SpanRules
) -> Iterator[Record]:
    where = f"process {name}"
    topics = list(dict.fromkeys(rules.subscriptions.get(name, [])))
    at_us = log[0].at_ns // 1000
    for pos, topic in enumerate(topics, -len(topics)):
        join = {"node": name, "pos": pos, "at_us": at_us, "kind": "join", "group": topic}
        yield Record(where, join)
    for pos, moment in enumerate(log):
        raw = _raw(name, pos, moment)
        if tied[pos]:
            raw["tied"] = True
        yield Record(f"{where}, message {moment.name or moment.message}", raw)


def _raw(name: str, pos: int, moment: Moment) -> dict[str, Any]:
    raw: dict[str, Any] = {
        "node": name, "pos": pos, "at_us": moment.at_ns // 1000, "message": moment.message,
    }  # fmt: skip
    if moment.topic:
        raw["group"] = moment.topic
    if moment.role == PUBLISH:
        raw["kind"] = "publish"
        raw["note"] = moment.name
        if moment.causes:
            raw["causes"] = list(moment.causes)
        if moment.key:
            raw["key"] = moment.key
    else:
        raw["kind"] = "deliver"
        if moment.share:
            raw["share"] = moment.share
        if moment.attempt:
            raw["attempt"] = moment.attempt
    return raw


def _count(moments: list[Moment], counts: SpanCounts) -> None:
    counts.publications = sum(moment.role == PUBLISH for moment in moments)
    counts.deliveries = len(moments) - counts.publications
