"""What a node is doing, as a table that people read; `--json` has the same for programs."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from causalcast.printable import printable

WIDTH = 19  # of the names, the longest of which is `certificate_expires`


def status_lines(status: dict[str, Any]) -> list[str]:
    """The status of a node, line by line, under the names that it has everywhere else."""
    told = dict(status)
    lines = [_line("node", _node(told))]
    groups = _groups(told)
    for key, value in told.items():
        if key == "groups":
            lines += [
                _line("groups" if place == 0 else "", row) for place, row in enumerate(groups)
            ]
        elif key.endswith("_bytes"):
            lines.append(_line(key, _size(value)))
        elif key == "traffic":
            rows = [_traffic(peer, numbers) for peer, numbers in value.items()] or ["none"]
            lines += [_line(key if place == 0 else "", row) for place, row in enumerate(rows)]
        elif key in _SPOKEN:
            lines.append(_line(key, _SPOKEN[key](value)))
        else:
            lines.append(_line(key, _words(value)))
    return lines


def _line(key: str, value: str) -> str:
    return f"{key:>{WIDTH}}  {printable(value)}".rstrip()


def _node(told: dict[str, Any]) -> str:
    """Who it is: what a reader looks for first."""
    me, name = told.pop("node", "?"), told.pop("name", "")
    version, build = told.pop("version", ""), told.pop("build", "")
    return f"{me}{f' ({name})' if name else ''}, version {version}, {build}"


def _groups(told: dict[str, Any]) -> list[str]:
    """One row per group that it is in, or has published to."""
    published, delivered = told.pop("published", {}), told.pop("delivered", {})
    here = told.get("groups", [])
    names = [*here, *(name for name in [*published, *delivered] if name not in here)]
    if not names:
        return ["none"]
    shown = {name: printable(name) for name in dict.fromkeys(names)}
    width = max(5, *map(len, shown.values()))
    rows = [f"{'':{width}}  published  delivered"]
    for name, text in shown.items():
        left = "" if name in here else "  (not in it)"
        counts = f"{published.get(name, 0):>9,}  {delivered.get(name, 0):>9,}"
        rows.append(f"{text:{width}}  {counts}{left}")
    return rows


def _journal(numbers: dict[str, float]) -> str:
    syncs = numbers.get("syncs", 0)
    each = numbers.get("sync_seconds", 0.0) / syncs * 1000 if syncs else 0.0
    held = numbers.get("held_bytes", 0)
    waiting = f", {_size(held)} on their way to it" if held else ""
    return f"{_size(numbers.get('bytes', 0))}, {syncs:,} syncs of {each:.1f} ms{waiting}"


def _trace(numbers: dict[str, int]) -> str:
    if not numbers:
        return "not written"
    lost = numbers.get("lost_rows", 0)
    return _size(numbers.get("bytes", 0)) + (f", {lost:,} rows lost" if lost else "")


def _held(numbers: dict[str, Any]) -> str:
    """Messages that wait for causes, and which of them wait longest."""
    if not numbers["messages"]:
        return "none"
    longest = ", ".join(f"{name} for {seconds:.1f} s" for name, seconds in numbers["oldest"][:3])
    return f"{numbers['messages']:,} messages, {_size(numbers['bytes'])}; longest {longest}"


def _traffic(peer: str, numbers: dict[str, int]) -> str:
    sent = f"{numbers['sent_messages']:,} sent ({_size(numbers['sent_bytes'])})"
    received = f"{numbers['received_messages']:,} received ({_size(numbers['received_bytes'])})"
    return f"node {peer}: {sent}, {received}"


def _queues(numbers: dict[str, int]) -> str:
    return ", ".join(f"{peer} {_size(count)}" for peer, count in numbers.items() if count) or "none"


def _took(numbers: dict[str, Any]) -> str:
    """The mean of a histogram; its classes are for programs."""
    if not numbers["count"]:
        return "none"
    mean = numbers["sum"] / numbers["count"] * 1000
    return f"{mean:.1f} ms in the mean of {numbers['count']:,}"


def _loop_lag(numbers: dict[str, Any]) -> str:
    return f"{numbers['last_seconds'] * 1000:.1f} ms now, {_took(numbers['seconds'])}"


def _process(numbers: dict[str, float]) -> str:
    files = f", {numbers['open_files']:.0f} files" if "open_files" in numbers else ""
    return f"{_size(numbers['resident_bytes'])}, {numbers['cpu_seconds']:.1f} s of CPU{files}"


def _nodes(ids: list[int]) -> str:
    """Ids are names: nobody counts to them."""
    return ", ".join(map(str, ids)) or "none"


def _moment(seconds: float | None) -> str:
    return "–" if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


_SPOKEN: Final[dict[str, Callable[[Any], str]]] = {
    "certificate_expires": _moment,
    "links": _nodes,
    "suspected": _nodes,
    "journal": _journal,
    "trace": _trace,
    "held": _held,
    "queues": _queues,
    "delivery_seconds": _took,
    "whole_way_seconds": _took,
    "loop_lag": _loop_lag,
    "process": _process,
}


def _size(count: float) -> str:
    """Bytes as people say them."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"


def _words(value: Any) -> str:
    """Any other value without the marks of Python."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_words(one)}" for key, one in value.items()) or "none"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_words, value)) or "none"
    return f"{value:,}" if isinstance(value, int) else str(value)
