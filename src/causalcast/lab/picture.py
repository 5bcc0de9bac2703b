"""A finished run as plain data, ready to be drawn: everything the page knows of it."""

from typing import Any

from causalcast.lab.verdict import told_verdict
from causalcast.lab.watching import Watch
from causalcast.runview.drawing import (
    MARGIN_US,
    MOST_EVENTS,
    MOST_FRAMES,
    drawn_events,
    drawn_frames,
    name_of,
)
from causalcast.runview.frames import frames_of
from causalcast.simulator.plain_result import plain_result


def picture_of(watch: Watch) -> dict[str, Any]:
    """Nodes, links, messages under way, events, what waits and why, and the verdict."""
    running = watch.running
    world, scenario = running.simulation, running.scenario
    blueprint = scenario.blueprint
    begin = getattr(world, "started_us", 0)
    rows = [row for row in running.recorder.rows() if row[1] >= begin]
    frames, refused = frames_of(rows)
    events = drawn_events(rows)[:MOST_EVENTS]
    end = _end(events, watch, begin)
    shown = [frame for frame in frames if frame.sent <= end]
    groups = blueprint.groups
    members = [sorted(groups.members_of(number)) for number in range(len(groups.names))]  # type: ignore[arg-type]
    return {
        "protocol": blueprint.protocol.name,
        "promises": list(blueprint.protocol.guarantees),
        "seed": scenario.seed,
        "directed": scenario.directed,
        "begin": begin,
        "end": end,
        "whole": world.now,
        "nodes": [node.me for node in world.nodes],
        "groups": dict(zip(groups.names, members, strict=True)),
        "edges": _edges(blueprint.topology.neighbours),
        "links": [[at, a, b, state] for at, a, b, state in watch.links],
        "frames": drawn_frames(shown[:MOST_FRAMES]),
        "frames_left_out": max(0, len(shown) - MOST_FRAMES),
        "refused": [list(one) for one in refused if one[0] <= end],
        "events": [event for event in events if event[0] <= end],
        "waiting": [
            [w.node, name_of(w.message), w.since, w.until, [list(one) for one in w.reasons]]
            for w in watch.waiting
        ],
        "steps": [" ".join(map(str, step)) for step in scenario.steps],
        "step_times": watch.step_times,
        "fired": {kind: count for kind, count in world.fired.items() if "." not in kind},
        "stopped": watch.stopped or ("" if running.is_complete() else "it never came to rest"),
        "verdict": told_verdict(
            plain_result(running),
            blueprint.protocol,
            [node.me for node in world.nodes if node.gone],
        ),
    }


def _edges(neighbours: dict[Any, Any]) -> list[list[int]]:
    return [[a, b] for a, peers in neighbours.items() for b in peers if a < b]


def _end(events: list[list[Any]], watch: Watch, begin: int) -> int:
    """When the last thing happened that people look for; what only repeats goes on for long."""
    times = [event[0] for event in events if event[2] != "duplicate"]
    times += [waiting.until or waiting.since for waiting in watch.waiting]
    times += watch.step_times[-1:]
    return max(times, default=begin) + MARGIN_US
