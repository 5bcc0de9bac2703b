"""The figure of real nodes: what processes send is what the simulator sends."""

import pytest

from causalcast.reproduce.families import FAMILIES


def test_metadata_of_processes_is_that_of_the_simulator() -> None:
    values = {
        "protocol": "vector_clock_broadcast",
        "nodes": 5,
        "broadcasts": 5,
        "interval_ms": 100,
        "payload_bytes": 32,
    }
    real = FAMILIES["real"]({**values, "processes": True})
    simulated = FAMILIES["real"]({**values, "processes": False})
    for row in (real, simulated):
        # one publication tells everybody to begin
        assert (row["verdict"], row["publications"], row["deliveries"]) == ("ok", 6, 30)
        assert row["reliability"] == row["copies_per_delivery"] == 1.0
    assert real["metadata_mean"] == pytest.approx(simulated["metadata_mean"], rel=0.1)
