"""S. de Juan-Marín et al., "Scalability approaches for causal multicast: a survey", 2016.

Example 1 (figures 2 and 5, section 3.2): four processes; p1 multicasts m1; p3 multicasts m2 after
it delivered m1; p2 multicasts m3 after m2; p1 multicasts m4 before it delivers m2. The paper counts
processes from 1, nodes here count from 0: p1 is node 0.
"""

import re

from causalcast.core import NodeId
from causalcast.parts.broadcast.stamped_broadcast import Stamped
from causalcast.parts.vector_clock import VectorClock, concurrent, precedes
from causalcast.protocols.vector_clock_broadcast import VectorClockBroadcast, clock_of
from causalcast.testing import Stage


class Example1:
    """The stage after each multicast of the example, and the clocks that went out."""

    def __init__(self) -> None:
        self.stage = Stage()
        self.clocks: dict[str, list[int]] = {}
        self.packets: dict[tuple[str, int], str] = {}
        self.stage.do("cluster vector_clock_broadcast nodes 4 spread=direct")

    def multicast(self, process: int, name: str) -> None:
        """Process (counted from 1) multicasts a message of that name."""
        for line in self.stage.do(f"publish {process - 1} {name}"):
            sent = re.match(r"\d+ -> (\d+)  #(\d+)", line)
            if sent:
                self.packets[name, int(sent[1]) + 1] = sent[2]
        packet = self.stage._packets[int(self.packets[name, 1 if process != 1 else 2])]
        stamped = self.stage._codec.decode(packet.data)[1]
        assert isinstance(stamped, Stamped)
        self.clocks[name] = vector(clock_of(stamped))

    def arrives(self, name: str, process: int) -> list[str]:
        """The copy of `name` arrives at a process; what happens there comes back."""
        return self.stage.do(f"arrive #{self.packets[name, process]}")

    def delivered_at(self, process: int) -> list[int]:
        multicast = self.stage.stacks[NodeId(process - 1)].multicast
        assert isinstance(multicast, VectorClockBroadcast)
        return vector(multicast.broadcast.delivery.delivered)


def vector(clock: VectorClock) -> list[int]:
    return [clock.get(NodeId(node), 0) for node in range(4)]


def sparse(clock: list[int]) -> VectorClock:
    return {NodeId(node): count for node, count in enumerate(clock) if count}


def test_example_1_has_the_clocks_of_the_paper_and_the_same_messages_wait() -> None:
    play = Example1()
    play.multicast(1, "m1")
    assert play.arrives("m1", 3) == ["2 delivers m1"]
    play.multicast(3, "m2")
    assert play.arrives("m1", 2) == ["1 delivers m1"]
    assert play.arrives("m2", 2) == ["1 delivers m2"]
    play.multicast(2, "m3")
    play.multicast(1, "m4")

    assert play.clocks == {
        "m1": [1, 0, 0, 0],
        "m2": [1, 0, 1, 0],
        "m3": [1, 1, 1, 0],
        "m4": [2, 0, 0, 0],
    }
    clocks = {name: sparse(clock) for name, clock in play.clocks.items()}
    assert precedes(clocks["m1"], clocks["m2"]) and precedes(clocks["m2"], clocks["m3"])
    assert concurrent(clocks["m2"], clocks["m4"]) and concurrent(clocks["m3"], clocks["m4"])

    # p4 gets m2 before m1 and holds it; p1 gets m3 before m2 and holds it.
    assert play.arrives("m2", 4) == ["3 holds m2, waits for m1"]
    assert play.arrives("m1", 4) == ["3 delivers m1", "3 delivers m2"]
    assert play.arrives("m3", 1) == ["0 holds m3, waits for m2"]
    assert play.arrives("m2", 1) == ["0 delivers m2", "0 delivers m3"]

    for name, process in (("m3", 3), ("m3", 4), ("m4", 2), ("m4", 3), ("m4", 4)):
        assert play.arrives(name, process) == [f"{process - 1} delivers {name}"]
    assert [play.delivered_at(process) for process in (1, 2, 3, 4)] == [[2, 1, 1, 0]] * 4
