"""Real message buses with their real clients, as far as they are installed here."""

from pathlib import Path

import pytest

from causalcast.buses.conditions import CONDITIONS, condition_named
from causalcast.buses.page import order_plot, order_table, speed_table, systems_table
from causalcast.buses.registry import SYSTEMS, system_named
from causalcast.buses.system import System
from causalcast.buses.trial import run_trial
from causalcast.errors import ConfigError


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_a_bus_in_the_set_up_recommended_for_order(system: System, tmp_path: Path) -> None:
    """What is published is delivered to all and judged; one connection keeps a sender's order."""
    lacking = system.lacking()
    if lacking:
        pytest.skip(f"{system.name}: {lacking}")
    setup = list(system.setups)[-1]
    found = run_trial(system, setup, condition_named("moderate"), tmp_path / "trial", 1.0, seed=3)
    assert not found.skipped
    assert found.deliveries > 200 and found.deliveries % 3 == 0
    assert (found.fifo, found.missing, found.duplicates) == (0, 0, 0)
    assert 0 < found.latency_p50_ms < found.latency_p99_ms
    table = order_table([found])
    assert f"{system.name}: {setup}" in table and f"of {found.deliveries:,}" in table
    assert system.version() in systems_table([found])
    assert setup in speed_table([found])
    order_plot([found], tmp_path / "order.svg")
    assert (tmp_path / "order.svg").read_text().count("<path") > 5


def test_names() -> None:
    assert system_named("nats").name == "NATS"
    with pytest.raises(ConfigError, match="there are NATS, Zenoh"):
        system_named("Kafka")
    with pytest.raises(ConfigError, match="there are moderate"):
        condition_named("calm")
    assert len({condition.name for condition in CONDITIONS}) == len(CONDITIONS)
