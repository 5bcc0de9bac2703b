"""Random schedules in which a zone dies and is dropped, and in half of them comes back.

Those that live agree and go on. What a dropped zone had published and nobody had fetched is lost,
as the operator is told: it is neither delivered later, nor does anything wait for it.
"""

from random import Random
from typing import Any

import pytest
from zone_runs import rows_of

from causalcast.core.ids import MessageId, origin_of
from causalcast.judge import judge
from causalcast.judge.judgement import Violation
from causalcast.simulator.runner import simulate
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.generate import toml_text
from causalcast.trace.run_folder import Run

Table = dict[str, Any]
DROPPED_MS = 1500  # at last
AFTERWARDS_MS = 1700
BACK_MS = 1900
TOGETHER_MS = 3300
END_MS = 4000


class Story:
    """Zones in a row, of which the last one dies."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = Random(seed)
        self.size = self.rng.choice([2, 3])
        self.zones = self.rng.choice([2, 3, 4])
        self.nodes = range(self.size * self.zones)
        self.lost = self.nodes[-self.size :]
        self.living = self.nodes[: -self.size]
        self.next_to_it = self.living[-self.size :]
        self.joint = f"{self.zones - 2} {self.zones - 1}"
        self.publish: list[Table] = []
        self.faults: list[Table] = []

    def run(self, comes_back: bool) -> Run:
        self.talk()
        self.die()
        self.drop()
        self.speak_at(AFTERWARDS_MS, self.living)
        if comes_back:
            self.come_back()
        return self.simulated(comes_back)

    def talk(self) -> None:
        for node in self.nodes:
            if self.rng.random() < 0.7:
                count, pause = self.rng.randrange(5, 50), self.rng.choice([5, 10, 20])
                at = self.rng.randrange(60, 120)
                self.publish.append(
                    {"at_ms": at, "node": node, "count": count, "interval_ms": pause}
                )

    def die(self) -> None:
        """All of the last zone for good, some of the others for a while."""
        self.died = self.rng.randrange(150, 400)
        for node in self.lost:
            self.crash(self.died + self.rng.choice([0, 0, self.rng.randrange(60)]), node)
        for node in self.living:
            if self.rng.random() < 0.25:
                at = self.rng.randrange(120, 600)
                self.crash(at, node)
                self.happens(at + self.rng.randrange(20, 200), "recover", node)

    def crash(self, at_ms: int, node: int) -> None:
        self.happens(at_ms, "crash", node, keep=self.rng.choice([0.0, 0.5, 1.0]))

    def drop(self) -> None:
        """At any node next to it, perhaps at two; at one at least when all is quiet."""
        begin = self.died + self.rng.randrange(60, 300)
        for _ in range(self.rng.choice([1, 1, 2])):
            at = begin + self.rng.randrange(200)
            self.order(at, self.rng.choice(self.next_to_it), "drop")
        self.order(DROPPED_MS, self.next_to_it[0], "drop")

    def come_back(self) -> None:
        for node in self.lost:
            self.happens(BACK_MS + self.rng.randrange(50), "recover", node)
            self.happens(BACK_MS + 400 + self.rng.randrange(50), "leave", node, group="all")
            self.happens(BACK_MS + 1100 + self.rng.randrange(100), "join", node, group="all")
        self.order(BACK_MS + 700, self.rng.choice(self.lost), "join")
        self.speak_at(TOGETHER_MS, self.nodes)

    def speak_at(self, at_ms: int, nodes: range) -> None:
        self.publish.append({"at_ms": at_ms, "node": list(nodes), "count": 3, "interval_ms": 10})

    def order(self, at_ms: int, node: int, verb: str) -> None:
        self.happens(at_ms, "order", node, order=f"{verb} {self.joint}")

    def happens(self, at_ms: int, kind: str, node: int, **more: Any) -> None:
        self.faults.append({"at_ms": at_ms, "kind": kind, "node": node, **more})

    def simulated(self, recover_all: bool) -> Run:
        size, latency = self.size, self.rng.choice([1.0, 1.0, 10.0])
        edges = [
            [a, b] for a in self.nodes for b in self.nodes[a + 1 :] if b // size - a // size < 2
        ]
        zones = "; ".join(f"{first}-{first + size - 1}" for first in self.nodes[::size])
        tables: list[tuple[str, Table]] = [
            ("options", {"zones": zones, "servers": self.rng.choice([1, 2])}),
            ("overlay", {"kind": "edges", "nodes": len(self.nodes), "edges": edges}),
            ("network", {"latency_ms": {"kind": "uniform", "low": 0.5, "high": latency}}),
            ("groups", {"all": "*"}),
            *[("[publish]", {**stream, "group": "all"}) for stream in self.publish],
            *[("[fault]", fault) for fault in self.faults],
            ("calm", {"ms": 20_000, "recover_all": recover_all}),
        ]
        text = toml_text(
            {"protocol": "causal_separators", "until_ms": END_MS, "seed": self.seed}, tables
        )
        return simulate(Scenario(text, "test"), "full")

    def was_lost(self, violation: Violation) -> bool:
        """Whether it is about something that the zone had published when it was dropped."""
        missing = {"missing": violation.message, "gap": violation.cause}.get(violation.kind)
        return missing is not None and origin_of(MessageId(missing)) in self.lost


def violations_of(run: Run) -> list[Violation]:
    assert run.header.complete
    return [violation for several in judge(run).violations.values() for violation in several]


def heard_after(run: Run, at_ms: int) -> set[int]:
    return {row["node"] for row in rows_of(run, "deliver") if row["at_us"] > at_ms * 1000}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(16))
def test_those_that_live_agree_and_go_on(seed: int) -> None:
    story = Story(seed)
    run = story.run(comes_back=False)
    assert run.header.faults["order"] >= 1
    assert not violations_of(run)
    assert heard_after(run, AFTERWARDS_MS) == set(story.living)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(16))
def test_a_zone_that_comes_back_brings_nothing_old(seed: int) -> None:
    story = Story(seed)
    run = story.run(comes_back=True)
    assert run.header.faults["order"] >= 2
    assert not [found for found in violations_of(run) if not story.was_lost(found)]
    assert heard_after(run, TOGETHER_MS) == set(story.nodes)
