"""Every registered protocol keeps every promise of its SPEC under random faults within it."""

import pytest

from causalcast.registry import protocol_names
from causalcast.testing.conformance import Conformance

SEEDS = 300
# What a campaign over these seeds must have seen happen, or it shows nothing.
MUST_FIRE = {
    "vector_clock_broadcast": [
        "crash",
        "crash_in_step",
        "compact",
        "cut",
        "delay",
        "duplication",
        "join_group",
        "leave_group",
        "loss",
        "lost_in_crash",
        "lost_in_cut",
        "note.reliable_sending.repeated",
        "partition",
        "pause",
        "recover",
        "suspect",
    ],
    "naive_flood": ["delay", "join_group", "leave_group", "pause", "suspect"],
}


@pytest.mark.parametrize("protocol", protocol_names())
def test_spec_and_messages(protocol: str) -> None:
    conformance = Conformance(protocol)
    conformance.check_spec()
    conformance.check_messages()


@pytest.mark.parametrize("protocol", protocol_names())
def test_the_same_seed_leaves_the_same_trace(protocol: str) -> None:
    Conformance(protocol).check_determinism(range(10))


@pytest.mark.slow
@pytest.mark.parametrize("protocol", protocol_names())
def test_promises_hold_under_random_faults_and_the_faults_fire(protocol: str) -> None:
    conformance = Conformance(protocol)
    fired: dict[str, int] = {}
    for seed in range(SEEDS):
        for kind, count in conformance.check_seed(seed).header.faults.items():
            fired[kind] = fired.get(kind, 0) + count
    never = [kind for kind in MUST_FIRE[protocol] if not fired.get(kind)]
    assert not never, f"never happened in {SEEDS} seeds: {never}"


@pytest.mark.slow
def test_direct_spreading_keeps_the_promises_too() -> None:
    """Everybody is a neighbour, and only origins send."""
    Conformance("vector_clock_broadcast", {"spread": "direct"}, overlay="mesh").check_promises(
        range(100)
    )


def test_a_small_window_only_slows_down() -> None:
    Conformance("vector_clock_broadcast", {"window": 1}).check_promises(range(30))
