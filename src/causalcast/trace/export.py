"""Writes runs for other tools: ShiViz, which draws them, and JSON lines, which anybody can read."""

import json
from collections.abc import Iterator
from typing import Any

from causalcast.trace.run_folder import Run, logs_of

SHIVIZ_KINDS = ("publish", "deliver", "crash", "recover", "join", "leave")
# The first line of a ShiViz file is how to read an event, the second separates executions.
SHIVIZ_PARSER = r"(?<host>\S*) (?<clock>{.*})\n(?<event>.*)"


def to_json_lines(run: Run) -> Iterator[str]:
    """One event per line; `causalcast trace import` makes the same events of them again.

    Founding members, who write no row, get a `join` line before their first row.
    """
    rows = run.events.to_pylist()
    joined_at_once = {
        (row["node"], row["group"]) for row in rows if row["kind"] == "join" and row["pos"] == 0
    }
    first = -run.members.num_rows
    for place, member in enumerate(run.members.to_pylist()):
        node, group = member["node"], member["group"]
        if member["from_pos"] == 0 and (node, group) not in joined_at_once:
            founding = {"node": node, "pos": first + place, "kind": "join", "group": group}
            yield json.dumps(founding)
    for row in rows:
        line = {key: value for key, value in row.items() if value is not None}
        if "message" in line:
            line["message"] = message_name(line["message"])
        if line["kind"] == "join":
            line["late"] = True
        yield json.dumps(line)


def message_name(message: int) -> str:
    """A message as origin:number."""
    return f"{message >> 32}.{message & 0xFFFFFFFF}"


def to_shiviz(run: Run) -> Iterator[str]:
    """The run in ShiViz's format, with the full vector clocks that real messages never carried."""
    yield SHIVIZ_PARSER
    yield ""
    hosts = _host_names(run)
    for node, row, clock in _with_clocks(run):
        shown = {hosts[n]: ticks for n, ticks in sorted(clock.items())}
        what = " ".join(
            [row["kind"]]
            + ([message_name(row["message"])] if row["message"] is not None else [])
            + ([f"group {row['group']}"] if row["group"] is not None else [])
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
