"""What was sent is never changed: real nodes keep messages as they are until they leave.

A world that shares objects sees the same as one that decodes bytes, row by row.
"""

from collections.abc import Iterator

import pytest

from causalcast.protocols.vector_clock_broadcast import VectorClockBroadcast
from causalcast.registry import protocol_names
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.campaign import Plan, scenario_of
from causalcast.swarm.trial import try_scenario

SEEDS = (0, 2)


def runs(protocol: str, seed: int) -> Iterator[list[object]]:
    """The rows of a random run, once with bytes, once with shared objects."""
    text = scenario_of(Plan(protocol), seed)
    wire = 'exchange = "wire"'
    assert text.count(wire) == 1
    for exchange in ("wire", "shared"):
        changed = text.replace(wire, f'exchange = "{exchange}"')
        run = try_scenario(Scenario(changed, f"seed {seed}", protocol=protocol), (), "full").run
        assert run is not None
        yield run.events.to_pylist()


@pytest.mark.parametrize("protocol", protocol_names())
def test_objects_and_bytes_tell_the_same(protocol: str) -> None:
    for seed in SEEDS:
        by_bytes, by_objects = runs(protocol, seed)
        assert by_bytes == by_objects, f"a message of {protocol} was changed after it was sent"


def test_a_protocol_that_sends_its_own_clock_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def live(self: VectorClockBroadcast) -> dict[object, int]:
        return self.broadcast.delivery.delivered

    monkeypatch.setattr(VectorClockBroadcast, "_causes_of_next", live)
    differ = 0
    for seed in range(0, 20, 2):
        by_bytes, by_objects = runs("vector_clock_broadcast", seed)
        differ += by_bytes != by_objects
    assert differ
