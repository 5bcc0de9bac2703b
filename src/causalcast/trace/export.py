"""Writes runs for other tools: ShiViz, which draws them, and JSON lines, which anybody can read."""

import json
from collections.abc import Iterator
from typing import Any

from causalcast.trace.run_folder import Run, logs_of
from causalcast.trace.schema import FOREIGN_MEMBERS

SHIVIZ_KINDS = ("publish", "deliver", "crash", "recover", "join", "leave")
# The first line of a ShiViz file is how to read an event, the second separates executions.
SHIVIZ_PARSER = r"(?<host>\S*) (?<clock>{.*})\n(?<event>.*)"


def to_json_lines(run: Run) -> Iterator[str]:
    """A line about the log, then one event per line; `causalcast trace import` makes the same
    events of them again.

    Founding members, who write no row, get a `join` line before their first row. What came from
    another system goes out under that system's names, at its positions.
    """
    header = {"kind": "header", "whole": run.header.whole, "redelivery": run.header.redelivery}
    yield json.dumps(header)
    names = ForeignNames.of(run)
    rows = run.events.to_pylist()
    founding = _founding_joins(run, rows)
    share = {(row["group"], row["node"]): row.get(FOREIGN_MEMBERS[0].name)
             for row in run.members.to_pylist()}  # fmt: skip
    first = {node: len(groups) for node, groups in founding.items()}
    for row in reversed(rows):
        if row.get("source") is not None:
            first[row["node"]] = row["source"]
    for node, groups in founding.items():
        for place, group in enumerate(groups):
            pos = first[node] - len(groups) + place
            join = {"node": names.node(node), "pos": pos, "kind": "join"}
            in_group = {"group": names.group(group), **_if_there("share", share[group, node])}
            yield json.dumps(join | in_group)
    for row in rows:
        line = {key: value for key, value in row.items() if value is not None}
        node, group = row["node"], row["group"]
        line["node"] = names.node(node)
        line["pos"] = line.pop("source", row["pos"] + len(founding.get(node, ())))
        if row["message"] is not None:
            line["message"] = names.message(row["message"])
        if row.get("causes"):
            line["causes"] = [names.message(cause) for cause in row["causes"]]
        if group is not None:
            line["group"] = names.group(group)
        if row["kind"] == "deliver":
            line |= _if_there("share", share.get((group, node)))
        if line.get("note") == line.get("message") and "note" in line:
            del line["note"]  # the import notes it again
        if row["kind"] == "join":
            line["late"] = True
        yield json.dumps(line)


def _if_there(key: str, value: Any) -> dict[str, Any]:
    return {} if value is None else {key: value}


def _founding_joins(run: Run, rows: list[dict[str, Any]]) -> dict[int, list[int]]:
    """Groups whose members write no `join` row of their own, by node."""
    joined_at_once = {
        (row["node"], row["group"]) for row in rows if row["kind"] == "join" and row["pos"] == 0
    }
    founding: dict[int, list[int]] = {}
    for member in run.members.to_pylist():
        node, group = member["node"], member["group"]
        if member["from_pos"] == 0 and (node, group) not in joined_at_once:
            founding.setdefault(node, []).append(group)
    return founding


class ForeignNames:
    """How an export calls nodes, groups and messages: by number, or as the system did they came
    from."""

    def __init__(self, nodes: dict[int, str], groups: dict[int, str], messages: dict[int, str]):
        self._nodes = nodes
        self._groups = groups
        self._messages = messages

    @staticmethod
    def of(run: Run) -> "ForeignNames":
        """The names of an imported run; of our own runs numbers are the names."""
        if run.header.world != "imported":
            return ForeignNames({}, {}, {})
        messages = {
            row["message"]: row["note"]
            for row in run.events.select(["kind", "message", "note"]).to_pylist()
            if row["note"] is not None and row["kind"] in ("publish", "deliver")
        }
        return ForeignNames(_names(run.nodes), _names(run.groups), messages)

    def node(self, node: int) -> str | int:
        """A node's name, or its number."""
        return self._nodes.get(node, node)

    def group(self, group: int) -> str | int:
        """A group's name, or its number."""
        return self._groups.get(group, group)

    def message(self, message: int) -> str:
        """A message's name, or `origin.number`."""
        return self._messages.get(message) or message_name(message)


def _names(table: Any) -> dict[int, str]:
    numbers, names = table.column(0).to_pylist(), table["name"].to_pylist()
    if all(str(number) == name for number, name in zip(numbers, names, strict=True)):
        return {}  # numbers were its names
    return dict(zip(numbers, names, strict=True))


def message_name(message: int) -> str:
    """A message as `origin.number`."""
    return f"{message >> 32}.{message & 0xFFFFFFFF}"


def to_shiviz(run: Run) -> Iterator[str]:
    """The run in ShiViz's format, with the full vector clocks that real messages never carried."""
    yield SHIVIZ_PARSER
    yield ""
    hosts = _host_names(run)
    names = ForeignNames.of(run)
    for node, row, clock in _with_clocks(run):
        shown = {hosts[n]: ticks for n, ticks in sorted(clock.items())}
        what = " ".join(
            [row["kind"]]
            + ([names.message(row["message"])] if row["message"] is not None else [])
            + ([f"group {names.group(row['group'])}"] if row["group"] is not None else [])
        )
        yield f"{hosts[node]} {json.dumps(shown)}"
        yield what


def _host_names(run: Run) -> dict[int, str]:
    """Names without blanks; numbers are added where two nodes share one."""
    nodes = run.nodes["node"].to_pylist()
    plain = ["_".join(name.split()) or "node" for name in run.nodes["name"].to_pylist()]
    return {
        node: name if plain.count(name) == 1 else f"{name}-{node}"
        for node, name in zip(nodes, plain, strict=True)
    }


def _with_clocks(run: Run) -> Iterator[tuple[int, dict[str, Any], dict[int, int]]]:
    """Every event after all events it follows; a deliver merges the clock of its publish.

    If nothing can go on although logs are not finished, somebody delivered what did not exist
    yet; that delivery is let through without a clock, so that the run can be looked at.
    """
    logs = {
        node: [row for row in log.to_pylist() if row["kind"] in SHIVIZ_KINDS]
        for node, log in logs_of(run.events)
    }
    expected = {r["message"] for log in logs.values() for r in log if r["kind"] == "publish"}
    clocks: dict[int, dict[int, int]] = {node: {} for node in logs}
    of_message: dict[int, dict[int, int]] = {}
    place = dict.fromkeys(logs, 0)
    while any(place[node] < len(log) for node, log in logs.items()):
        moved = False
        for node, log in logs.items():
            while place[node] < len(log):
                row = log[place[node]]
                message = row["message"]
                if row["kind"] == "deliver" and message in expected:
                    if message not in of_message:
                        break
                    for other, ticks in of_message[message].items():
                        clocks[node][other] = max(ticks, clocks[node].get(other, 0))
                clocks[node][node] = clocks[node].get(node, 0) + 1
                if row["kind"] == "publish":
                    of_message[message] = dict(clocks[node])
                place[node] += 1
                moved = True
                yield node, row, dict(clocks[node])
        if not moved:
            stuck = next(n for n, log in logs.items() if place[n] < len(log))
            expected.discard(logs[stuck][place[stuck]]["message"])
