"""What somebody did to a run by hand, written into its scenario.

An edited run is so an ordinary scenario: the same text runs with `causalcast simulate`. What
happens at a moment is added as a fault or a publication; a scenario that lists its steps gets
another step.
"""

import re
from typing import Any

from causalcast.errors import ConfigError

ON_NODES = ("crash", "recover", "suspect", "trust", "publish")
ON_LINKS = ("cut", "heal", "delay")
KINDS = ON_NODES + ON_LINKS
SLOWER_MS = 50.0
REST_MS = 20  # of the workload after the last edit, before the calm begins
_STEPS = re.compile(r"^steps\s*=\s*\[[^\]]*\]", re.MULTILINE)
_UNTIL = re.compile(r"^until_ms\s*=\s*([0-9_.]+)", re.MULTILINE)


class Edit:
    """One of them, checked."""

    def __init__(self, given: dict[str, Any]) -> None:
        kind = given.get("kind")
        if kind not in KINDS:
            raise ConfigError(f"edit: kind {kind!r}, expected one of {', '.join(KINDS)}")
        self.kind: str = kind
        self.at_us = _whole(given, "at_us")
        self.step = _whole(given, "step") if "step" in given else 0
        self.nodes: list[int] = []
        if kind in ON_LINKS:
            ends = given.get("link")
            if not isinstance(ends, list) or len(ends) != 2:
                raise ConfigError(f"edit {kind}: link {ends!r}, expected two nodes")
            self.nodes = [_node(end) for end in ends]
        else:
            self.nodes = [_node(given.get("node"))]
        self.by = _node(given["by"]) if given.get("by") is not None else None
        self.group = given.get("group")
        if self.group is not None and not re.fullmatch(r"[\w.-]+", str(self.group)):
            raise ConfigError(f"edit {kind}: {self.group!r} is no name of a group")
        extra = given.get("extra_ms", SLOWER_MS)
        if not isinstance(extra, (int, float)) or not 0 <= extra <= 1e6:
            raise ConfigError(f"edit {kind}: extra_ms {extra!r}, expected a number of milliseconds")
        self.extra_ms = float(extra)

    def table(self) -> str:
        """As a table of a scenario."""
        lines = [f"at_ms = {self.at_us / 1000:.3f}"]
        if self.kind == "publish":
            head = "[[publish]]"
            lines.append(f"node = {self.nodes[0]}")
            if self.group is not None:
                lines.append(f'group = "{self.group}"')
        else:
            head = "[[fault]]"
            lines.append(f'kind = "{self.kind}"')
            if self.kind in ON_LINKS:
                lines.append(f"link = {self.nodes}")
            else:
                lines.append(f"node = {self.nodes[0]}")
            if self.kind == "delay":
                lines.append(f"extra_ms = {self.extra_ms:g}")
            if self.by is not None and self.kind in ("suspect", "trust"):
                lines.append(f"by = {self.by}")
        return "\n".join(["", head, *lines, ""])

    def steps(self, neighbours: dict[int, list[int]], group: str) -> list[str]:
        """As steps of a directed run."""
        first = self.nodes[0]
        if self.kind == "publish":
            return [f"publish {first} {self.group or group}"]
        if self.kind in ("suspect", "trust"):
            watchers = neighbours.get(first, []) if self.by is None else [self.by]
            return [f"{self.kind} {watcher} {first}" for watcher in watchers]
        if self.kind == "delay":
            raise ConfigError("this scenario lists its steps: a message takes as long as they say")
        return [" ".join([self.kind, *map(str, self.nodes)])]


def as_run(text: str, protocol: str, seed: int) -> str:
    """The scenario with the protocol and the seed that were chosen instead of its own."""
    for key, value in (("seed", str(seed)), ("protocol", f'"{protocol}"')):
        line = re.compile(rf"^{key}\s*=\s*(\S+)", re.MULTILINE)
        found = line.search(text)
        if found is None:
            text = f"{key} = {value}\n{text}"
        elif found[1] != value:
            text = line.sub(f"{key} = {value}", text, count=1)
    return text


def with_edits(text: str, edits: list[Edit]) -> str:
    """A scenario with a workload and faults, and these beside them."""
    if not edits:
        return text
    last_ms = max(edit.at_us for edit in edits) / 1000
    found = _UNTIL.search(text)
    if found is not None and float(found[1]) < last_ms + REST_MS:
        text = _UNTIL.sub(f"until_ms = {last_ms + REST_MS:g}", text, count=1)
    return text.rstrip("\n") + "\n" + "".join(edit.table() for edit in edits)


def with_steps(
    text: str, steps: list[str], edits: list[Edit], neighbours: dict[int, list[int]], group: str
) -> str:
    """A scenario with steps, and these among them: each after so many of those there by then."""
    longer = list(steps)
    for edit in edits:
        longer[edit.step : edit.step] = edit.steps(neighbours, group)
    lines = "".join(f'    "{step}",\n' for step in longer)
    return _STEPS.sub(lambda _: f"steps = [\n{lines}]", text, count=1)


def _whole(given: dict[str, Any], key: str) -> int:
    value = given.get(key)
    if type(value) is not int or value < 0:
        raise ConfigError(f"edit: {key} = {value!r}, expected a whole number from 0 on")
    return value


def _node(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ConfigError(f"edit: {value!r} is no node")
    return value
