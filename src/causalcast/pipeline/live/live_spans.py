"""Spans in files that grow, as lines in the order of time, each as soon as it is settled.

Exporters write a span when it has ended, in batches some seconds apart, each process by itself. So
a moment is handed on only when it is older than that: what is still to be written is younger then.
"""

import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from causalcast.errors import TraceError
from causalcast.trace.foreign_line import Record
from causalcast.trace.spans.moments import Moment, moments_of
from causalcast.trace.spans.operations import PROCESS, PUBLISH, RECEIVE, Operation, operation_of
from causalcast.trace.spans.otlp_json import read_otlp_json
from causalcast.trace.spans.rules import SpanRules
from causalcast.trace.spans.span import SPAN_DIGITS

SETTLED_AFTER = 10.0  # seconds; SDKs export every five
FORGOTTEN_AFTER = 600.0  # seconds after which no span of a trace is expected any more

Known = tuple[str, str, str, str, str]


class GrowingSpans:
    """The spans of a folder, read as far as lines are whole."""

    def __init__(
        self, files: Callable[[], list[Path]], rules: SpanRules,
        settled_after: float = SETTLED_AFTER,
    ) -> None:  # fmt: skip
        self.files = files
        self.rules = rules
        self._settled_after = int(settled_after * 1e9)
        self._offsets: dict[Path, int] = defaultdict(int)
        self._numbers: dict[Path, int] = defaultdict(int)
        self._traces: dict[str, list[Operation]] = defaultdict(list)
        self._handed_on: dict[str, set[Known]] = defaultdict(set)
        self._names: dict[str, str] = {}
        self._taken: set[str] = set()
        self._processed: set[tuple[str, str]] = set()
        self._attempts: dict[tuple[str, str], tuple[int, bool]] = {}
        self._readers: dict[str, set[str]] = defaultdict(set)
        self._unsteady: set[str] = set()
        self._retried = False
        self._newest = 0
        self._newest_came = time.monotonic()

    def records(self) -> list[Record]:
        """What has settled since this was asked last."""
        for path in self.files():
            self._read(path)
        waited = int((time.monotonic() - self._newest_came) * 1e9)
        return self._settled(self._newest + waited - self._settled_after)

    def lines_read(self) -> int:
        """How many lines came so far."""
        return sum(self._numbers.values())

    def finish(self) -> list[Record]:
        """Everything else: no more spans will come."""
        return self._settled(None)

    def _read(self, path: Path) -> None:
        with path.open("rb") as file:
            file.seek(self._offsets[path])
            whole, newline, _ = file.read().rpartition(b"\n")
        self._offsets[path] += len(whole) + len(newline)
        for text in whole.splitlines():
            self._numbers[path] += 1
            try:
                for span in read_otlp_json(text, self.rules.wanted) if text.strip() else ():
                    self._take(operation_of(span, self.rules))
            except TraceError as error:
                raise TraceError(f"{path}: line {self._numbers[path]}: {error}") from None

    def _take(self, operation: Operation) -> None:
        self._traces[operation.trace].append(operation)
        if operation.role == PROCESS:
            self._processed.add((operation.process, operation.topic))
        if operation.role == PUBLISH and operation.key not in self._names:
            name = operation.name or operation.key[-SPAN_DIGITS:]
            self._names[operation.key] = operation.key if name in self._taken else name
            self._taken.add(name)
        if operation.end > self._newest:
            self._newest, self._newest_came = operation.end, time.monotonic()

    def _settled(self, until: int | None) -> list[Record]:
        found: list[Moment] = []
        for trace in list(self._traces):
            operations = self._traces[trace]
            for moment in moments_of(operations, self.rules):
                known = (moment.process, moment.role, moment.message, moment.handling, moment.name)
                is_new = known not in self._handed_on[trace]
                if moment.message and is_new and (until is None or moment.at_ns <= until):
                    self._handed_on[trace].add(known)
                    found.append(moment)
            last = max(operation.end for operation in operations)
            if until is not None and last < until - int(FORGOTTEN_AFTER * 1e9):
                del self._traces[trace], self._handed_on[trace]
        found.sort(key=lambda moment: (moment.at_ns, moment.rank))
        return [self._record(moment) for moment in found if self._counts(moment)]

    def _counts(self, moment: Moment) -> bool:
        return moment.role != RECEIVE or (moment.process, moment.topic) not in self._processed

    def _record(self, moment: Moment) -> Record:
        raw: dict[str, Any] = {
            "node": moment.process, "at_ns": moment.at_ns, "message": self._name(moment.message),
            "kind": "publish" if moment.role == PUBLISH else "deliver",
        }  # fmt: skip
        if moment.topic:
            raw["group"] = moment.topic
        if moment.causes:
            raw["causes"] = [self._name(cause) for cause in moment.causes]
        if moment.key:
            raw["key"] = moment.key
        if moment.share:
            raw["share"] = moment.share
        if moment.role != PUBLISH:
            self._number(moment, raw)
        return Record(f"process {moment.process}", raw)

    def _name(self, message: str) -> str:
        return self._names.get(message, message)

    def _number(self, moment: Moment, raw: dict[str, Any]) -> None:
        """Attempts, as `number_attempts` counts them."""
        reader = moment.share or moment.process
        attempt, failed = self._attempts.get((moment.message, reader), (0, False))
        self._readers[moment.process].add(reader)
        if attempt or moment.failed or moment.attempt:
            self._unsteady.add(reader)
        if attempt == 0 or failed or self.rules.retries == "all":
            attempt += 1
        self._attempts[moment.message, reader] = (attempt, moment.failed)
        if moment.attempt or (attempt > 1 and self.rules.retries != "none"):
            self._retried = True
            raw["attempt"] = moment.attempt or attempt
        elif self._retried and not self._readers[moment.process] & self._unsteady:
            raw["attempt"] = 1  # who never fails or repeats gets each message once
