"""One line of another system's log: what may stand in it, and what is said of one that is wrong.

    {"node": "a", "pos": 0, "kind": "publish", "message": "hello", "group": "chat", "key": "7"}
    {"node": "b", "time": 1.25, "kind": "deliver", "message": "hello", "group": "chat"}
    {"kind": "header", "whole": false, "redelivery": "any"}

`docs/formats.md` has the meaning of every field. A `header` line speaks of the whole log; it may
stand anywhere.
"""

from dataclasses import dataclass
from typing import Any

from causalcast.errors import TraceError
from causalcast.trace.kinds import KIND_CODE
from causalcast.trace.run_header import REDELIVERY

ONLY_GROUP = "all"
HEADER = "header"
FIGURES = ("peer", "payload_bytes", "metadata_bytes", "value")
TIMES = {"at_ns": 1, "at_us": 1_000, "time": 1_000_000_000}
ABOUT_A_GROUP = ("publish", "deliver", "join")
BELONGS_TO = {
    "causes": ("publish",),
    "key": ("publish",),
    "share": ("deliver", "join"),
    "attempt": ("deliver",),
}
WRONG_CAUSES = "'causes' must be a list of messages"
WRONG_ATTEMPT = "'attempt' must be 1, 2, 3, …"


@dataclass(frozen=True)
class Record:
    """What one line says, before it is checked, and where it stands."""

    where: str
    raw: Any


@dataclass
class Line:
    """One event of another system."""

    where: str
    """File and line, for complaints."""
    number: int
    """Its place in everything that is read: the order of lines that have no clock."""
    node: str | int
    kind: str
    raw: dict[str, Any]
    group: str | int | None
    message: str | None
    key: str | None = None
    causes: tuple[str, ...] = ()
    share: str | None = None
    attempt: int | None = None

    @property
    def at_us(self) -> int:
        """When it happened, as well as the line knows."""
        if self.raw.get("at_ns") is not None:
            return int(self.raw["at_ns"]) // 1000
        if self.raw.get("at_us") is not None:
            return int(self.raw["at_us"])
        if self.raw.get("time") is not None:
            seconds: float = self.raw["time"]
            return round(seconds * 1_000_000)
        return self.number  # no clock at all: the order of the file is good enough for people

    @property
    def instant(self) -> float | None:
        """Nanoseconds, to put lines without `pos` in order; none if there is no clock."""
        for key, nanoseconds in TIMES.items():
            if self.raw.get(key) is not None:
                value = self.raw[key]
                return int(value) * nanoseconds if key != "time" else round(value * nanoseconds)
        return None


@dataclass
class HeaderLine:
    """What a log says of itself."""

    whole: bool | None = None
    redelivery: str | None = None


def line_of(record: Record, number: int) -> Line | HeaderLine:
    """A record, checked; a `TraceError` that names it if something is wrong with it."""
    where, raw = record.where, record.raw
    complaint = _complaint(raw)
    if complaint is not None:
        raise TraceError(f"{where}: {complaint}")
    kind, message, group = raw["kind"], raw.get("message"), raw.get("group")
    if kind == HEADER:
        return HeaderLine(raw.get("whole"), raw.get("redelivery"))
    if kind in ABOUT_A_GROUP and group is None:
        group = ONLY_GROUP
    return Line(
        where, number, raw["node"], kind, raw, group, _text(message), _text(raw.get("key")),
        tuple(str(cause) for cause in raw.get("causes") or ()), _text(raw.get("share")),
        raw.get("attempt"),
    )  # fmt: skip


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _complaint(raw: Any) -> str | None:
    """What is wrong with a line; none if nothing is."""
    if not isinstance(raw, dict):
        return f"expected an object, found {type(raw).__name__}"
    if raw.get("kind") == HEADER:
        return _complaint_about_header(raw)
    for key in ("node", "kind"):
        if key not in raw:
            return f"{key!r} is missing"
    kind = raw["kind"]
    if kind not in KIND_CODE:
        return f"unknown kind {kind!r}"
    for key in ("node", "group", "key", "share"):
        if not _is_name(raw.get(key, "")):
            return f"{key!r} must be a name or a number"
    if kind in ("publish", "deliver") and raw.get("message") is None:
        return f"a {kind} without 'message'"
    if all(raw.get(key) is None for key in ("pos", *TIMES)):
        return "neither 'pos' nor 'time'"
    if not isinstance(raw.get("tied", False), bool):
        return "'tied' must be true or false"
    for key in ("pos", *TIMES, *FIGURES):
        if not isinstance(raw.get(key, 0), int | float | None) or isinstance(raw.get(key), bool):
            return f"{key!r} must be a number"
    return _complaint_about_meaning(raw, kind)


def _complaint_about_header(raw: dict[str, Any]) -> str | None:
    if not isinstance(raw.get("whole", True), bool):
        return "'whole' must be true or false"
    if raw.get("redelivery") not in (None, *REDELIVERY):
        return f"'redelivery' must be one of {', '.join(REDELIVERY)}"
    return None


def _complaint_about_meaning(raw: dict[str, Any], kind: str) -> str | None:
    """Fields that only some kinds of lines may have."""
    for key, kinds in BELONGS_TO.items():
        if raw.get(key) is not None and kind not in kinds:
            return misplaced(key, kind)
    causes = raw.get("causes")
    if causes is not None and not (isinstance(causes, list) and all(map(_is_cause, causes))):
        return WRONG_CAUSES
    attempt = raw.get("attempt")
    if attempt is not None and (not isinstance(attempt, int) or attempt is True or attempt < 1):
        return WRONG_ATTEMPT
    return None


def misplaced(key: str, kind: str) -> str:
    """What is said of a field that a line of this kind does not have."""
    return f"{key!r} belongs to {' and '.join(BELONGS_TO[key])} lines, this is a {kind}"


def _is_name(value: Any) -> bool:
    return isinstance(value, str | int | None) and not isinstance(value, bool)


def _is_cause(value: Any) -> bool:
    return value is not None and _is_name(value)
