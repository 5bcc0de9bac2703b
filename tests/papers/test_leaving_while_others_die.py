"""Random schedules around a leave: the swarm seldom comes across what can go wrong there.

Somebody says something to a group, which not all get; another one that got it says something else
to all, while a third leaves the group or joins it again. Then the first two die for good. Those
that live must agree on what was published to all.
"""

from random import Random

import pytest

from causalcast.core import GroupId, NodeId, Outbox
from causalcast.protocols.cbcast.farewells import Farewell, Farewells
from causalcast.protocols.cbcast.protocol import Cbcast
from causalcast.testing import Cluster

SEEDS = range(200)


class Story:
    """One schedule; `tell` says whether those that live agree."""

    def __init__(self, seed: int, protocol: str) -> None:
        self.rng = Random(seed)
        nodes = self.rng.choice([4, 5, 6])
        club = sorted(self.rng.sample(range(nodes), self.rng.randint(3, nodes)))
        groups = {"club": club, "all": list(range(nodes))}
        latency = (0.5, self.rng.choice([1.0, 5.0, 20.0]))
        self.cluster = Cluster(nodes, protocol, groups=groups, seed=seed, latency_ms=latency)
        self.nodes = self.rng.sample(range(nodes), nodes)
        self.first, self.second, self.third = self.nodes[:3]

    def tell(self) -> bool:
        self.cluster.run_ms(50)
        self.cut_some()
        self.publish(self.first, "club")
        self.cluster.run_ms(self.rng.choice([2, 5, 20]))
        for _ in range(self.rng.randint(3, 8)):
            self.go_on()
        self.cluster.run_ms(self.rng.choice([0.5, 1, 1, 2, 5]))
        dead = [node for node in (self.first, self.second) if self.rng.random() < 0.85]
        for node in dead:
            self.cluster.crash(node, keep=self.rng.choice([0, 0.5, 1]))
        return self.agree([node for node in self.nodes if node not in dead])

    def cut_some(self) -> None:
        """Most links of these three, but seldom the one on which an effect reaches the leaver."""
        for one in (self.first, self.second, self.third):
            for other in self.nodes[2:]:
                chance = 0.1 if (one, other) == (self.second, self.third) else 0.75
                if one != other and self.rng.random() < chance:
                    self.cluster.cut(one, other)

    def go_on(self) -> None:
        kind = self.rng.random()
        if kind < 0.25:
            self.leave_or_return()
        elif kind < 0.6:
            self.publish(self.second, self.rng.choice(["all", "all", "club"]))
        elif kind < 0.7:
            self.publish(self.rng.choice(self.nodes), self.rng.choice(["all", "club"]))
        elif kind < 0.75:
            self.publish(self.first, "club")
        else:
            self.cluster.run_ms(self.rng.choice([0.3, 0.5, 1, 2]))

    def leave_or_return(self) -> None:
        is_in = self.cluster.group_id("club") in self.cluster.groups_of(self.third)
        (self.cluster.leave if is_in else self.cluster.join)(self.third, "club")

    def publish(self, node: int, group: str) -> None:
        self.cluster.publish(node, b"%d" % self.rng.getrandbits(30), group)

    def agree(self, alive: list[int]) -> bool:
        self.cluster.heal()
        self.cluster.run_ms(200)
        for node in alive:
            self.publish(node, "all")
        self.cluster.run_ms(8_000)
        return len({frozenset(self.cluster.delivered(node, "all")) for node in alive}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["cbcast", "causal_barriers"])
def test_those_that_live_agree(protocol: str) -> None:
    disagree = [seed for seed in SEEDS if not Story(seed, protocol).tell()]
    assert not disagree


def farewell_without_copies(
    self: Cbcast, member: NodeId, group: GroupId, number: int, out: Outbox
) -> None:
    counts = dict(self.past.get(group, {}))
    self.sending.tell([member], Farewell(group, number, counts), out)


@pytest.mark.parametrize("broken", ["nothing is waited for", "farewells bring nothing"])
def test_without_farewells_they_do_not(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if broken == "nothing is waited for":
        monkeypatch.setattr(Farewells, "lacks", lambda *_: iter(()))
    else:
        monkeypatch.setattr(Cbcast, "_say_farewell", farewell_without_copies)
    assert not all(Story(seed, "cbcast").tell() for seed in SEEDS)
