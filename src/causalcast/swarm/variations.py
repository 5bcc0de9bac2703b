"""Ways to vary a schedule that is worth it: a few steps or events are other ones, or elsewhere.

What comes out may name what is not there: a step that cannot happen is skipped. A scenario with a
clock stays within what it was drawn from: nobody dies for good that did not, and no fault of
another kind comes in unless another kept scenario of the same search has it.
"""

import copy
import random
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from causalcast.simulator.scenarios.director import SHAPES, Step
from causalcast.swarm.smaller import Data

# What ends the life of a node, or begins it again: where dead nodes stay dead, these stay too.
LIVES: Final = ("crash", "recover", "hang", "join", "leave", "order")
MOST_CHANGES: Final = 4
MOST_EVENTS: Final = 60
TIMES_MS: Final = (1, 5, 20, 100, 400)  # by which an event moves


class HasData(Protocol):
    """A kept scenario."""

    data: Data


# Steps


def varied_steps(steps: Sequence[Step], others: Sequence[Step], rng: random.Random) -> list[Step]:
    """The steps with some changes; `others` are those of another schedule."""
    varied = list(steps)
    if rng.random() < 0.25 and others:
        cut, start = rng.randrange(len(varied) + 1), rng.randrange(len(others))
        varied = [*varied[:cut], *others[start:]]
    for _ in range(rng.randint(1, MOST_CHANGES)):
        if not varied:
            return list(others)
        rng.choice(_CHANGES)(varied, others, rng)
    return varied


def _drop(steps: list[Step], others: Sequence[Step], rng: random.Random) -> None:
    start = rng.randrange(len(steps))
    del steps[start : start + rng.choice([1, 1, 1, 2, 4])]


def _double(steps: list[Step], others: Sequence[Step], rng: random.Random) -> None:
    start = rng.randrange(len(steps))
    piece = steps[start : start + rng.choice([1, 1, 2, 4, 8])]
    place = rng.randrange(len(steps) + 1)
    steps[place:place] = piece


def _move(steps: list[Step], others: Sequence[Step], rng: random.Random) -> None:
    start = rng.randrange(len(steps))
    length = rng.choice([1, 1, 1, 2, 4])
    piece = steps[start : start + length]
    del steps[start : start + length]
    place = rng.randrange(len(steps) + 1)
    steps[place:place] = piece


def _bring_in(steps: list[Step], others: Sequence[Step], rng: random.Random) -> None:
    if others:
        start = rng.randrange(len(others))
        place = rng.randrange(len(steps) + 1)
        steps[place:place] = others[start : start + rng.choice([1, 1, 2, 4])]


def _readdress(steps: list[Step], others: Sequence[Step], rng: random.Random) -> None:
    """Another node, or another group, in one step; taken from a step of the same schedule."""
    number = rng.randrange(len(steps))
    step = list(steps[number])
    kinds = SHAPES[str(step[0])].split()
    place = rng.randrange(len(step) - 1)
    kind = kinds[place].strip("[]")
    known = [
        word
        for other in steps
        for word, its in zip(other[1:], SHAPES[str(other[0])].split(), strict=False)
        if its == kinds[place] and (kind in ("node", "group", "share"))
    ]
    if known:
        step[place + 1] = rng.choice(known)
        steps[number] = tuple(step)


_CHANGES: Final[list[Callable[[list[Step], Sequence[Step], random.Random], None]]] = [
    _drop,
    _double,
    _move,
    _move,
    _bring_in,
    _readdress,
]


# Scenarios with a clock


def varied_scenario(data: Data, others: Sequence[HasData], rng: random.Random) -> tuple[str, Data]:
    """The name of a change, and the scenario with it."""
    varied = copy.deepcopy(data)
    if rng.random() < 0.2:
        return "other latencies", varied  # the caller gives it another seed
    names = []
    for _ in range(rng.randint(1, MOST_CHANGES)):
        change = rng.choice(_CLOCK_CHANGES)
        change(varied, rng.choice(others).data, rng)
        names.append(change.__name__.strip("_"))
    return names[0].replace("_", " "), varied


def _events(data: Data, free: bool = False) -> list[tuple[str, int]]:
    """Where its events are; `free`: only those that may be left out or be somebody else's."""
    bound = not data.get("calm", {}).get("recover_all", False)
    return [
        (key, number)
        for key in ("publish", "fault")
        for number, event in enumerate(data.get(key, []))
        if not (free and bound and event.get("kind") in LIVES)
    ]


def _other_time(data: Data, other: Data, rng: random.Random) -> None:
    """An event comes earlier or later, or together with another."""
    events = _events(data, free=True)
    if not events:
        return
    key, number = rng.choice(events)
    near_key, near = rng.choice(_events(data))
    at = data[key][number]["at_ms"] + rng.choice([-1, 1]) * rng.choice(TIMES_MS)
    if rng.random() < 0.5:
        at = data[near_key][near]["at_ms"] + rng.choice([-5, -1, 0, 1, 5])
    data[key][number]["at_ms"] = max(0, min(at, data["until_ms"] - 1))


def _without_one(data: Data, other: Data, rng: random.Random) -> None:
    events = _events(data, free=True)
    publications = len(data.get("publish", []))
    if events:
        key, number = rng.choice(events)
        if key == "fault" or publications > 1:
            del data[key][number]


def _one_twice(data: Data, other: Data, rng: random.Random) -> None:
    events = _events(data, free=True)
    if events and len(events) < MOST_EVENTS:
        key, number = rng.choice(events)
        again = copy.deepcopy(data[key][number])
        again["at_ms"] = rng.randrange(int(data["until_ms"]))
        data[key].append(again)


def _somebody_else(data: Data, other: Data, rng: random.Random) -> None:
    """An event is about another node or another group."""
    events = [
        (key, number)
        for key, number in _events(data, free=True)
        if "node" in data[key][number] and "by" not in data[key][number]
        if data[key][number].get("kind") != "order"
    ]
    if not events:
        return
    key, number = rng.choice(events)
    event = data[key][number]
    if "group" in event and rng.random() < 0.5:
        event["group"] = rng.choice(list(data["groups"]))
    else:
        event["node"] = rng.randrange(data["overlay"]["nodes"])


def _events_of_another(data: Data, other: Data, rng: random.Random) -> None:
    """Faults of another scenario, where they name only what is here too."""
    nodes, groups = data["overlay"]["nodes"], data["groups"]
    fitting = [
        copy.deepcopy(event)
        for event in other.get("fault", [])
        if event["kind"] not in LIVES and _fits(event, nodes, groups, data)
    ]
    if fitting and len(data.get("fault", [])) < MOST_EVENTS:
        data.setdefault("fault", []).append(rng.choice(fitting))


def _fits(event: dict[str, Any], nodes: int, groups: Any, data: Data) -> bool:
    named = [event.get("node", 0), event.get("by", 0), *event.get("link", [])]
    named += [node for side in event.get("sides", []) for node in side]
    edges = data["overlay"].get("edges")
    link = event.get("link")
    linked = link is None or (edges is not None and (link in edges or link[::-1] in edges))
    here = all(isinstance(node, int) and node < nodes for node in named)
    return here and linked and event.get("group", next(iter(groups))) in groups


def _other_network(data: Data, other: Data, rng: random.Random) -> None:
    """Latencies, loss, disk or detector are those of another scenario."""
    table = rng.choice(["network", "disk", "detector"])
    if table in data and table in other:
        fifo = data[table].get("fifo")
        data[table] = copy.deepcopy(other[table])
        if fifo:
            data[table]["fifo"] = True


def _other_stream(data: Data, other: Data, rng: random.Random) -> None:
    stream = rng.choice(data["publish"])
    stream["count"] = rng.choice([1, 2, 5, 20])
    stream["interval_ms"] = rng.choice([1, 10, 60])


_CLOCK_CHANGES: Final[list[Callable[[Data, Data, random.Random], None]]] = [
    _other_time,
    _other_time,
    _without_one,
    _one_twice,
    _somebody_else,
    _events_of_another,
    _other_network,
    _other_stream,
]
