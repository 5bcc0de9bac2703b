"""A crash after every storage and send action of a reference scenario: none breaks a promise.

The scenario runs once to count what every step of every node does: its durable entry first, then
one effect after the other. Then it runs again for each of these actions, with a crash of that node
right after it (and once before the first); the node comes back a little later.
"""

import pytest

from causalcast.core.effects import Duplicate
from causalcast.core.message import Publication
from causalcast.judge import judge
from causalcast.simulator.scenario_run import ScenarioRun
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.simulator.worlds.sim_node import Entry, SimNode
from causalcast.simulator.worlds.steps import Steps
from causalcast.trace.run_folder import Run

BACK_AFTER_US = 30_000
OVERLAYS = {"locamu": "line", "vector_clock_broadcast": "line", "cbcast": "full_mesh"}

REFERENCE = """
protocol = "{protocol}"
until_ms = 100
seed = 4
[overlay]
kind = "{overlay}"
nodes = 4
[network]
latency_ms = 2
[detector]
kind = "link_loss"
delay_ms = 5
[groups]
all = "*"
ends = [0, 3]
[[publish]]
at_ms = 10
node = 0
group = "all"
[[publish]]
at_ms = 12
node = 2
group = "all"
[[publish]]
at_ms = 16
node = 1
group = "all"
count = 2
interval_ms = 3
[[publish]]
at_ms = 17
node = 3
group = "ends"
[calm]
ms = 1000
recover_all = true
"""


class Rehearsal:
    """One run of the scenario; a crash in the middle of step `at`, after some of its actions."""

    def __init__(self, protocol: str, at: int = -1, after: int = 0) -> None:
        self.actions: list[int] = []  # of every step
        self._at, self._after = at, after
        scenario = Scenario(
            REFERENCE.format(protocol=protocol, overlay=OVERLAYS[protocol]), "reference"
        )
        self._run = ScenarioRun(scenario, "full")
        world = self._run.simulation
        finish = world.steps.finish

        def finish_step(node: SimNode, publication: Publication | None) -> None:
            out = world.out
            entry = bool(out.records) or publication is not None
            visible = [e for e in out.effects if not isinstance(e, Duplicate)]
            if len(self.actions) == self._at:
                node.crash_after = self._after
                back_at = world.now + BACK_AFTER_US
                world.plan(back_at, lambda: world.lives.recover(node.me) and None)
            self.actions.append(entry + len(visible))
            finish(node, publication)

        world.steps.finish = finish_step  # type: ignore[method-assign]

    def play(self) -> Run:
        self._run.run()
        return self._run.result()


def crash_points(protocol: str) -> list[tuple[int, int]]:
    """Every step from the first publication on, and after how many of its actions."""
    rehearsal = Rehearsal(protocol)
    rehearsal.play()
    return [
        (step, after)
        for step, count in enumerate(rehearsal.actions)
        if count
        for after in range(count + 1)
    ]


def broken_after(protocol: str, point: tuple[int, int]) -> list[str]:
    """The promises that a crash at this point breaks; the crash must have happened."""
    run = Rehearsal(protocol, *point).play()
    assert run.header.faults["crash"] == 1, point
    assert run.header.faults["recover"] == 1, point
    return [name for name, rows in judge(run).violations.items() if rows]


@pytest.mark.parametrize("protocol", OVERLAYS)
def test_no_crash_point_breaks_a_promise(protocol: str) -> None:
    points = crash_points(protocol)
    assert len(points) > 100
    assert {point: broken for point in points if (broken := broken_after(protocol, point))} == {}


def test_a_disk_that_keeps_no_records_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same crashes on a disk that only says it is durable."""
    keep = Steps._make_durable

    def forget(self: Steps, node: SimNode, entry: Entry) -> None:
        entry.records = []
        keep(self, node, entry)

    monkeypatch.setattr(Steps, "_make_durable", forget)
    points = crash_points("cbcast")
    assert any(broken_after("cbcast", point) for point in points[:: len(points) // 25])
