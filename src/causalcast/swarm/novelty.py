"""What a run reached: which notes, which messages in which states, and what steps did.

The state of a node is seen from far away: for everything that its automaton and the parts of it
keep, whether that is empty, has one entry, two, or many. A branch is known by what it did: the
message, what changed at the node (and, apart, what was empty and is not any more or the other way
round), and what it asked of the world. So a protocol need not say anything, no line is traced, and
the same run reaches the same things on any Python.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final

from causalcast.core.automaton import Automaton
from causalcast.core.effects import Effect, Send
from causalcast.core.ids import NodeId
from causalcast.core.message import Message
from causalcast.simulator.worlds.sim_node import SimNode
from causalcast.simulator.worlds.simulated_world import SimulatedWorld

Thing = tuple[Any, ...]  # something that a run reached
Size = int

MANY: Final = 3
LOOKED_INTO: Final = 6  # of the entries of a collection
ROOMS: Final = ("causalcast.parts.", "causalcast.protocols.", "causalcast.overlays.")
COLLECTIONS: Final = (dict, list, set, tuple, deque, bytes, bytearray)


class Novelty:
    """Watches one run. `reached` has what it reached, in order, and at which move."""

    def __init__(self, world: SimulatedWorld) -> None:
        self.reached: dict[Thing, int] = {}
        self.move = 0  # the number of the director's move that is going on
        self._world = world
        self._looks: dict[NodeId, tuple[Automaton, Callable[[], tuple[Size, ...]]]] = {}
        self._before: dict[NodeId, tuple[Size, ...]] = {}
        self._met: dict[tuple[str, tuple[Size, ...]], None] = {}  # messages in states
        world.steps.observer = self._on_step

    def at_step(self, number: int) -> None:
        """The director's step of that number comes next."""
        self.move = number

    def stop(self) -> None:
        """Watch no longer."""
        self._world.steps.observer = None

    def finish(self) -> dict[Thing, int]:
        """All that was reached, with the faults and notes that happened and how often."""
        self.stop()
        for kind, times in self._world.fired.items():
            self._reach(("fired", kind, times.bit_length()))
        return self.reached

    def _reach(self, thing: Thing) -> None:
        if thing not in self.reached:
            self.reached[thing] = self.move

    def _on_step(self, node: SimNode, message: Message | None, effects: list[Effect]) -> None:
        automaton = node.stack.multicast
        known = self._looks.get(node.me)
        if known is None or known[0] is not automaton:  # it is new, or was reborn
            known = self._looks[node.me] = automaton, look_at(automaton)
            self._before.pop(node.me, None)
        now = known[1]()
        before = self._before.get(node.me, now)
        self._before[node.me] = now
        changes: list[tuple[int, Size, Size]] = []
        if before != now:
            changes = [
                (place, was, size)
                for place, (was, size) in enumerate(zip(before, now, strict=True))
                if was != size
            ]
        began_or_ended = tuple(
            (place, size > 0) for place, was, size in changes if (was > 0) != (size > 0)
        )
        heard = type(message).__name__ if message is not None else ""
        asked = tuple(sorted({_kind(effect) for effect in effects}))
        if message is not None and (heard, before) not in self._met:
            self._met[heard, before] = None
            for place, size in enumerate(before):
                self._reach((heard, place, size))
        self._reach((heard, began_or_ended, asked))
        self._reach((heard, tuple(changes), asked))


def _kind(effect: Effect) -> str:
    if isinstance(effect, Send):
        return type(effect.message).__name__
    return type(effect).__name__


def look_at(automaton: Automaton) -> Callable[[], tuple[Size, ...]]:
    """A function that tells how much there is in each place of an automaton and its parts."""
    places = [
        (owner, name)
        for owner in _with_parts(automaton)
        for name in _names(owner)
        if _may_change(getattr(owner, name, None))
    ]

    def look() -> tuple[Size, ...]:
        return tuple([size_of(getattr(owner, name, None)) for owner, name in places])

    return look


def _with_parts(whole: object) -> Iterator[object]:
    """An automaton and all parts it is made of, each once."""
    found, left = {id(whole)}, [whole]
    while left:
        owner = left.pop(0)
        yield owner
        for name in _names(owner):
            part = getattr(owner, name, None)
            if type(part).__module__.startswith(ROOMS) and id(part) not in found:
                found.add(id(part))
                left.append(part)


def _names(owner: object) -> list[str]:
    slots = [name for one in type(owner).__mro__ for name in getattr(one, "__slots__", ())]
    return [*getattr(owner, "__dict__", {}), *slots]


def _may_change(value: object) -> bool:
    """Numbers are names of nodes, times and counts of what is kept elsewhere."""
    return value is None or isinstance(value, (bool, *COLLECTIONS))


def size_of(value: object) -> Size:
    """How much there is: none, one, two or many; and so for what lies in its entries."""
    if value is None or value is False:
        return 0
    if isinstance(value, int):
        return value if 0 <= value < MANY else MANY
    if isinstance(value, COLLECTIONS):
        outer = len(value)
        if outer == 0:
            return 0
        return min(outer, MANY) + 10 * min(_within(value), MANY)
    return 1


def _within(value: Any) -> int:
    """The size of the largest collection in a collection."""
    entries = value.values() if isinstance(value, dict) else value
    largest = 0
    for number, entry in enumerate(entries):
        if number == LOOKED_INTO or not isinstance(entry, COLLECTIONS):
            break
        largest = max(largest, len(entry))
    return largest
