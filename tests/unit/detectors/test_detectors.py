"""What each detector believes, in a simulated cluster with a crash, a cut, and silence."""

import pytest

from causalcast.simulator.runner import simulate
from causalcast.simulator.scenario import Scenario


def beliefs(detector: str, fault: str) -> list[tuple[str, int, int]]:
    """Kind, watcher and peer of every suspicion before the calm, in order of time."""
    text = f"""
    protocol = "vector_clock_broadcast"
    until_ms = 4000
    [overlay]
    kind = "line"
    nodes = 3
    [detector]
    {detector}
    [[fault]]
    at_ms = 1000
    {fault}
    """
    rows = simulate(Scenario(text, "test"), "full").events.to_pylist()
    told = [r for r in rows if r["kind"] in ("suspect", "trust") and r["at_us"] < 4_000_000]
    told.sort(key=lambda row: row["at_us"])
    return [(row["kind"], row["node"], row["peer"]) for row in told]


CRASH = 'kind = "crash"\nnode = 2'
LOUD_CUT = 'kind = "cut"\nlink = [1, 2]\nloud = true'
SILENT_CUT = 'kind = "cut"\nlink = [1, 2]'
BEATS = 'kind = "heartbeat"\ninterval = 100\ntimeout = 350'


def test_link_loss_believes_whoever_has_no_link_to_be_down() -> None:
    assert beliefs('kind = "link_loss"', CRASH) == [("suspect", 1, 2)]
    assert sorted(beliefs('kind = "link_loss"', LOUD_CUT)) == [("suspect", 1, 2), ("suspect", 2, 1)]
    assert beliefs('kind = "link_loss"', SILENT_CUT) == []


def test_perfect_suspects_the_crashed_and_nobody_else() -> None:
    assert beliefs('kind = "perfect"', CRASH) == [("suspect", 1, 2)]
    assert beliefs('kind = "perfect"', LOUD_CUT) == []


def test_heartbeat_hears_silence_and_takes_it_back() -> None:
    assert sorted(beliefs(BEATS, SILENT_CUT)) == [("suspect", 1, 2), ("suspect", 2, 1)]
    healing = SILENT_CUT + '\n[[fault]]\nat_ms = 2000\nkind = "heal"'
    told = beliefs(BEATS, healing)
    assert sorted(told[:2]) == [("suspect", 1, 2), ("suspect", 2, 1)]
    assert sorted(told[2:]) == [("trust", 1, 2), ("trust", 2, 1)]


@pytest.mark.parametrize("detector", ['kind = "link_loss"', 'kind = "perfect"', BEATS])
def test_nobody_is_suspected_without_a_fault(detector: str) -> None:
    assert beliefs(detector, 'kind = "delay"\nlink = [0, 1]\nextra_ms = 20') == []
