"""Faults as planned events: what happens to which node or link, and when."""

import random
from collections.abc import Callable
from typing import Final, final

from causalcast.core.ids import GroupId, NodeId
from causalcast.simulator.worlds.simulation import Simulation

NODE_FAULTS: Final = (
    "crash",
    "hang",  # a crash that only detectors notice: the links to the node stay
    "recover",
    "compact",  # no fault: the node's records are replaced by a snapshot
    "suspect",
    "trust",
    "join",
    "leave",
    "pause",
    "resume",
    "gone",
    "order",  # no fault: an operator orders something
)
LINK_FAULTS: Final = ("cut", "delay")
OTHER_FAULTS: Final = ("heal", "partition")
KINDS: Final = NODE_FAULTS + LINK_FAULTS + OTHER_FAULTS


@final
class Fault:
    """One planned fault; which fields matter depends on its kind."""

    def __init__(self, at_us: int, kind: str) -> None:
        assert kind in KINDS
        self.at_us = at_us
        self.kind = kind
        self.node = NodeId(-1)
        self.link: tuple[NodeId, NodeId] | None = None
        self.sides: list[list[NodeId]] = []
        self.keep: float | None = None  # None: drawn
        self.after_effects: int | None = None
        self.by: NodeId | None = None
        self.via: NodeId | None = None
        self.group: GroupId | None = None
        self.order = ""
        self.loud = False
        self.extra_us = 0


@final
class FaultPlan:
    """Lets planned faults happen in a simulation.

    A node that was reborn goes on under its new id: a fault that names the old one means the node
    that has its place now.
    """

    def __init__(self, simulation: Simulation, rng: random.Random) -> None:
        self._simulation = simulation
        self._rng = rng
        self._now_called: dict[NodeId, NodeId] = {}

    def add(self, fault: Fault) -> None:
        """Plan one fault."""
        at = self._simulation.started_us + fault.at_us
        self._simulation.plan(at, lambda: self._happen(fault))

    def recover_all(self) -> None:
        """Bring back everybody that is down and did not leave."""
        for node in list(self._simulation.nodes):
            if not node.up and not node.left and not node.gone:
                self._simulation.lives.recover(node.me)
        self._simulation.lives.repeat_orders()
        self._simulation.lives.join_again()

    def _happen(self, fault: Fault) -> None:
        if fault.kind in LINK_FAULTS:
            self._happen_to_link(fault)
        elif fault.kind == "partition":
            sides = [[self._current(node) for node in side] for side in fault.sides]
            self._simulation.link_faults.partition(sides, fault.loud)
        elif fault.kind == "heal":
            if fault.link is None:
                self._simulation.link_faults.heal(None, None)
            else:
                self._simulation.link_faults.heal(
                    self._current(fault.link[0]), self._current(fault.link[1])
                )
        else:
            self._happen_to_node(fault, self._current(fault.node))

    def _happen_to_link(self, fault: Fault) -> None:
        assert fault.link is not None
        a, b = self._current(fault.link[0]), self._current(fault.link[1])
        if fault.kind == "cut":
            self._simulation.link_faults.cut(a, b, fault.loud)
        else:
            self._simulation.link_faults.delay(a, b, fault.extra_us)

    def _happen_to_node(self, fault: Fault, node: NodeId) -> None:
        simulation = self._simulation
        by = None if fault.by is None else self._current(fault.by)
        if fault.kind == "crash":
            self._crash(fault, node)
        elif fault.kind == "hang":
            simulation.doubts.hang(node, self._keep(fault))
        elif fault.kind == "recover":
            self._recover(fault.node)
        elif fault.kind == "compact":
            simulation.lives.compact(node)
        elif fault.kind == "suspect":
            simulation.doubts.suspect(node, by)
        elif fault.kind == "trust":
            simulation.doubts.trust(node, by)
        elif fault.kind == "pause":
            simulation.pause(node)
        elif fault.kind == "resume":
            simulation.resume(node)
        elif fault.kind == "gone":
            assert by is not None
            simulation.lives.command(by, f"gone {node}")
        elif fault.kind == "order":
            simulation.lives.command(node, fault.order)
        elif fault.kind == "join":
            self._join(fault, node)
        elif fault.group is not None:
            simulation.lives.leave_group(node, fault.group)
        else:
            assert fault.kind == "leave"
            simulation.lives.leave(node)

    def _crash(self, fault: Fault, node: NodeId) -> None:
        if fault.after_effects is not None:
            self._simulation.lives.crash_in_next_step(node, fault.after_effects)
        else:
            self._simulation.lives.crash(node, self._keep(fault))

    def _keep(self, fault: Fault) -> float:
        return self._rng.random() if fault.keep is None else fault.keep

    def _recover(self, named: NodeId) -> None:
        node = self._current(named)
        self._now_called[named] = self._simulation.lives.recover(node)

    def _join(self, fault: Fault, node: NodeId) -> None:
        if fault.group is not None:
            self._simulation.lives.join_group(node, fault.group)
        else:
            self._simulation.lives.enter(node, fault.via)

    def _current(self, named: NodeId) -> NodeId:
        return self._now_called.get(named, named)


def random_crashes(
    crashes: int,
    downtime_us: tuple[int, int],
    nodes: int,
    until_us: int,
    allowed: Callable[[list[NodeId]], bool],
    rng: random.Random,
) -> list[Fault]:
    """Crashes at random times, each followed by a recovery, never more at once than `allowed`."""
    away: list[tuple[int, int, NodeId]] = []  # from, to, who
    faults: list[Fault] = []
    for _ in range(crashes):
        for _ in range(100):  # tries to find a crash that is allowed
            node = NodeId(rng.randrange(nodes))
            start = rng.randrange(max(1, until_us))
            end = min(until_us, start + rng.randint(*downtime_us))
            overlapping = [who for a, b, who in away if a <= end and start <= b]
            if node not in overlapping and allowed([*overlapping, node]):
                away.append((start, end, node))
                crash, recovery = Fault(start, "crash"), Fault(end, "recover")
                crash.node = recovery.node = node
                faults += [crash, recovery]
                break
    return faults
