"""Inversions of a log in JSON lines, straight from the definition: no numbers, no bits, no import.

A second opinion on partial logs that shares nothing with the judge and the pipeline. Only logs of
founding members are understood.
"""

from collections import defaultdict
from typing import Any

JsonLine = dict[str, Any]
SPOKE = ("publish", "deliver")
Inversions = dict[tuple[str, str], set[str]]
"""Process and message that came too early, to the causes that came after it."""


class PlainLog:
    """What precedes what in a log, and what came where in which order."""

    def __init__(self, lines: list[JsonLine], redelivery: str) -> None:
        self.may_repeat = redelivery != "none"
        self.logs: dict[str, list[JsonLine]] = defaultdict(list)
        for line in sorted(lines, key=_instant):
            self.logs[line["node"]].append(line)
        self.publications = {line["message"]: line for line in lines if line["kind"] == "publish"}
        self.direct: dict[str, set[str]] = {}
        self.declared: dict[str, set[str]] = {}
        for log in self.logs.values():
            for line in log:
                if line["kind"] == "publish":
                    name = line["message"]
                    causes = set(line.get("causes", ())) & set(self.publications)
                    earlier = (row for row in log if _instant(row) < _instant(line))
                    seen = {row["message"] for row in earlier if row["kind"] in SPOKE}
                    self.declared[name] = causes - {name}
                    self.direct[name] = (seen & set(self.publications) | causes) - {name}

    def inversions(self, whole: bool, declared: bool = False, fifo: bool = False) -> Inversions:
        """Deliveries that certainly came too early: m before z, though m follows z."""
        past = _closed(self.declared if declared else self.direct)
        cyclic = {m for m, before in _closed(self.direct).items() if m in before}
        found: Inversions = {}
        for process, log in self.logs.items():
            first: dict[str, int] = {}
            for row, line in enumerate(log):
                if line["kind"] in ("publish", "deliver"):
                    first.setdefault(line["message"], row)
            delivered: set[str] = set()
            for line in log:
                message = str(line.get("message"))
                if line["kind"] != "deliver" or message in delivered:
                    continue
                delivered.add(message)
                if message not in self.publications or message in cyclic:
                    continue
                if "share" in line and line.get("attempt", 1) > 1:
                    continue
                late = {
                    cause
                    for cause in past[message] - cyclic
                    if cause in first
                    and _instant(log[first[cause]]) > _instant(line)
                    and self._is_first(log[first[cause]], whole)
                    and (declared or self._ordered(message, cause))
                    and (not fifo or self._is_earlier(cause, message))
                }
                if late:
                    found[process, message] = late
        return found

    def _is_first(self, line: JsonLine, whole: bool) -> bool:
        if "attempt" in line:
            return bool(line["attempt"] == 1)
        return whole or not self.may_repeat

    def _ordered(self, one: str, other: str) -> bool:
        keys = {self.publications[name].get("key") for name in (one, other)}
        return len(keys) == 1 or None in keys

    def _is_earlier(self, cause: str, message: str) -> bool:
        """Whether the same process published `cause` before."""
        one, other = self.publications[cause], self.publications[message]
        return bool(one["node"] == other["node"] and _instant(one) < _instant(other))


def _instant(line: JsonLine) -> int:
    """Lines of one node and one instant are not ordered."""
    return int(line["pos"] if "pos" in line else line["at_us"])


def _closed(direct: dict[str, set[str]]) -> dict[str, set[str]]:
    past: dict[str, set[str]] = {}
    for message, causes in direct.items():
        reached: set[str] = set()
        waiting = list(causes)
        while waiting:
            cause = waiting.pop()
            if cause not in reached:
                reached.add(cause)
                waiting += direct[cause]
        past[message] = reached
    return past
