"""S. de Juan-Marín et al., "Scalability approaches for causal multicast: a survey", 2016.

Examples 2 and 3: the first generation's packets (section 3.1, figure 4) and both compactions
(section 3.3, figures 6 and 7). The paper counts processes from 1, nodes here count from 0.
"""

import re

from causalcast.core import NodeId
from causalcast.protocols.compaction_pairwise.changed_entries import ChangedEntries
from causalcast.testing import Stage


class Multicasts:
    """Four processes on a full mesh; p1 is node 0. What a multicast puts on the wire comes back."""

    def __init__(self, protocol: str) -> None:
        self.stage = Stage()
        self.stage.do(f"cluster {protocol} nodes 4 spread=direct")
        self.packets: dict[tuple[str, int], str] = {}

    def multicast(self, process: int, name: str) -> str:
        words = ""
        for line in self.stage.do(f"publish {process - 1} {name}"):
            sent = re.match(r"\d+ -> (\d+)  #(\d+) (.*)", line)
            if sent:
                self.packets[name, int(sent[1]) + 1] = sent[2]
                words = sent[3]
        return words

    def arrives(self, name: str, process: int) -> list[str]:
        return self.stage.do(f"arrive #{self.packets[name, process]}")


def test_example_2_carries_what_was_delivered_and_holds_nothing() -> None:
    """G2: the packets are m1; m1 m2; m1 m2 m3; m2 m3 m4."""
    play = Multicasts("first_generation")
    assert play.multicast(1, "m1") == "Packet(publications=[m1])"
    assert play.arrives("m1", 3) == ["2 delivers m1"]
    assert play.multicast(3, "m2") == "Packet(publications=[m1, m2])"
    assert play.arrives("m2", 2) == ["1 delivers m1", "1 delivers m2"]
    assert play.multicast(2, "m3") == "Packet(publications=[m1, m2, m3])"
    assert play.arrives("m3", 1) == ["0 delivers m2", "0 delivers m3"]
    assert play.multicast(1, "m4") == "Packet(publications=[m2, m3, m4])"
    # p4 gets the last one's causes with it, whatever is late.
    assert play.arrives("m3", 4) == ["3 delivers m1", "3 delivers m2", "3 delivers m3"]
    assert play.arrives("m1", 4) == ["ok"]
    assert play.arrives("m4", 4) == ["3 delivers m4"]


def test_figure_7_sends_only_what_changed_since_the_last_multicast() -> None:
    """G9: {1:1}; {1:1, 3:1}; {1:1, 2:1, 3:1}; {1:2}. A sender's own slot is its number here."""
    play = Multicasts("compaction_multicast")
    assert play.multicast(1, "m1") == "Stamped(m1, needs={})"
    play.arrives("m1", 3)
    assert play.multicast(3, "m2") == "Stamped(m2, needs={0: 1})"
    play.arrives("m1", 2)
    play.arrives("m2", 2)
    assert play.multicast(2, "m3") == "Stamped(m3, needs={0: 1, 2: 1})"
    assert play.multicast(1, "m4") == "Stamped(m4, needs={})"
    assert play.arrives("m2", 4) == ["3 holds m2, waits for m1"]


def test_a_second_multicast_names_only_what_is_new() -> None:
    play = Multicasts("compaction_multicast")
    play.multicast(1, "m1")
    play.arrives("m1", 2)
    assert play.multicast(2, "m2") == "Stamped(m2, needs={0: 1})"
    assert play.multicast(2, "m3") == "Stamped(m3, needs={})"


def test_psync_names_the_leaves_only() -> None:
    """m1 lies behind m2, so whoever waits for m2 has waited for m1."""
    play = Multicasts("psync")
    play.multicast(1, "m1")
    play.arrives("m1", 3)
    play.multicast(3, "m2")
    play.arrives("m1", 2)
    play.arrives("m2", 2)
    assert play.multicast(2, "m3") == "Stamped(m3, needs={2: 1})"


P1, P2, P3, P4 = (NodeId(number) for number in (1, 2, 3, 4))


def test_example_3_of_singhal_and_kshemkalyani_with_all_its_tables() -> None:
    """G3 and G10: p3 from VC (5,2,19,3), LU (17,10,19,8), LS (16,18,-,15), event by event."""
    entries = ChangedEntries()
    entries.clock = {P1: 5, P2: 2, P3: 19, P4: 3}
    entries.last_update = {P1: 17, P2: 10, P3: 19, P4: 8}
    entries.last_sent = {P1: 16, P2: 18, P4: 15}
    entries.turn = 19

    def tick() -> None:
        entries.turn += 1
        entries.put(P3, entries.turn)

    def tables() -> tuple[list[int], list[int], list[int | None]]:
        everybody = (P1, P2, P3, P4)
        return (
            [entries.clock[p] for p in everybody],
            [entries.last_update[p] for p in everybody],
            [entries.last_sent.get(p) for p in everybody],
        )

    tick()
    assert entries.changed_for(P2) == {P3: 20}
    assert tables() == ([5, 2, 20, 3], [17, 10, 20, 8], [16, 20, None, 15])
    tick()  # it delivers a message with {(1, 10), (4, 2)}
    for node, count in ((P1, 10), (P4, 2)):
        entries.put(node, max(count, entries.clock[node]))
    assert tables() == ([10, 2, 21, 3], [21, 10, 21, 8], [16, 20, None, 15])
    tick()
    assert entries.changed_for(P4) == {P1: 10, P3: 22}
    assert tables() == ([10, 2, 22, 3], [21, 10, 22, 8], [16, 20, None, 22])
    tick()
    assert entries.changed_for(P2) == {P1: 10, P3: 23}
    assert tables() == ([10, 2, 23, 3], [21, 10, 23, 8], [16, 23, None, 22])
