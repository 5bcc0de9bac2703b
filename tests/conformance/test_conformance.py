"""Every registered protocol keeps every promise of its SPEC, and the faults it meets do happen.

A random schedule takes ten times as long as one of the adversary. All planted bugs that take more
than 64 seeds are noticed by the adversary alone (docs/mutants.md), so it has more of them.
"""

import os
from typing import Any

import pytest

from causalcast.registry import find_protocol, protocol_names
from causalcast.swarm.campaign import ENOUGH_SEEDS, Plan, run_campaign
from causalcast.testing.conformance import Conformance

# Where tests run side by side, each keeps to one core.
PROCESSES = 1 if "PYTEST_XDIST_WORKER" in os.environ else os.cpu_count() or 1


def seeds_with(adversary: int, random: int) -> list[int]:
    """So many seeds of the adversary, which are odd, and so many random ones."""
    return sorted([*range(1, 2 * adversary, 2), *range(0, 2 * random, 2)])


@pytest.mark.parametrize("protocol", protocol_names())
def test_spec_and_messages(protocol: str) -> None:
    conformance = Conformance(protocol)
    conformance.check_spec()
    conformance.check_messages()


@pytest.mark.parametrize("protocol", protocol_names())
def test_the_same_seed_leaves_the_same_trace(protocol: str) -> None:
    Conformance(protocol).check_determinism(range(10))


@pytest.mark.parametrize("protocol", protocol_names())
def test_promises_hold_on_a_few_schedules(protocol: str) -> None:
    """The short form of the next test."""
    found = run_campaign(Plan(protocol), seeds_with(adversary=10, random=4), PROCESSES)
    assert not found.failures, found.failures[0]
    assert found.fired


@pytest.mark.slow
@pytest.mark.parametrize("protocol", protocol_names())
def test_promises_hold_on_hundreds_of_schedules_and_the_faults_fire(protocol: str) -> None:
    """All promises, invariants, and rest."""
    causal = "causal_order" in find_protocol(protocol).guarantees
    seeds = seeds_with(adversary=500 if causal else 250, random=250)
    found = run_campaign(Plan(protocol), seeds, PROCESSES)
    assert found.seeds == len(seeds) >= ENOUGH_SEEDS
    assert not found.failures, found.failures[0]
    assert not found.never_fired(), f"never happened in {len(seeds)} seeds"


# Links that break are what it cannot live with (figure 3.2 of the CPTCast thesis).
STATIC_ONLY = "naive_causal"


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [name for name in protocol_names() if name != STATIC_ONLY])
def test_order_and_integrity_hold_beyond_the_promise(protocol: str) -> None:
    found = run_campaign(Plan(protocol, beyond=True), range(100), PROCESSES)
    assert not found.failures, found.failures[0]
    assert found.fired["crash"] > 0


@pytest.mark.slow
def test_where_links_break_naive_causal_broadcast_breaks_too() -> None:
    found = run_campaign(Plan(STATIC_ONLY, beyond=True), range(200), PROCESSES)
    broken = {failure.property for failure in found.failures}
    assert broken & {"no_duplication", "causal_order", "fifo_order"}


# What protocols on safe links offer besides their defaults.
VARIANTS = [
    ("prc_broadcast", {"link_setup": "safe_path"}),
    ("prc_broadcast", {"answer": "skip"}),
    ("prc_broadcast", {"log": 3}),
    ("cptcast", {"order": "queue"}),
    ("cptcast", {"tree": "shared"}),
    ("cptcast", {"tree": "source", "most_origins": 2}),
    ("cptcast", {"tree": "root", "beacon_every": 50}),
    ("cptcast", {"order": "queue", "link_setup": "safe_path"}),
    ("cptcast", {"order": "receiver", "link_setup": "safe_path"}),
    ("cptcast", {"tree": "source", "link_setup": "safe_path"}),
    ("plumtree", {"tree": "source"}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("protocol", "options"), VARIANTS, ids=str)
def test_variants_keep_the_promises_too(protocol: str, options: dict[str, Any]) -> None:
    found = run_campaign(Plan(protocol, options), seeds_with(150, 75), PROCESSES)
    assert not found.failures, found.failures[0]


# What zones offer besides their defaults; on graphs in which all nodes are linked.
ZONES: list[dict[str, Any]] = [
    {"form": "daisy"},
    {"zone_size": 3, "servers": 3, "inside": "first_generation,cbcast,psync,causal_barriers"},
    {"zone_size": 3, "inside": "compaction_pairwise,compaction_multicast"},
]


@pytest.mark.slow
@pytest.mark.parametrize("options", ZONES, ids=str)
def test_zones_of_all_kinds_keep_the_promises_too(options: dict[str, Any]) -> None:
    plan = Plan("causal_separators", options, overlay="mesh")
    found = run_campaign(plan, seeds_with(75, 40), PROCESSES)
    assert not found.failures, found.failures[0]


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["vector_clock_broadcast", "first_generation"])
def test_direct_spreading_keeps_the_promises_too(protocol: str) -> None:
    """Everybody is a neighbour, only origins send; and some of them die for good."""
    plan = Plan(protocol, {"spread": "direct"}, overlay="mesh", for_good=True)
    found = run_campaign(plan, range(60), PROCESSES)
    assert not found.failures, found.failures[0]
    assert found.fired["died_for_good"] > 0
    assert found.fired["note.safe_keeping.handed_over"] > 0


def test_a_small_window_only_slows_down() -> None:
    Conformance("vector_clock_broadcast", {"window": 1}).check_promises(range(30))


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{"f": 2}, {"f": 3}, {"headers": "dense"}, {"window": 2}], ids=str
)
def test_locamu_with_other_options(options: dict[str, object]) -> None:
    found = run_campaign(Plan("locamu", options), seeds_with(75, 40), PROCESSES)
    assert not found.failures, found.failures[0]
    assert found.fired["note.locamu.jump"] > 0


def test_every_causal_protocol_names_rare_branches() -> None:
    for protocol in protocol_names():
        spec = find_protocol(protocol)
        survives = spec.tolerates is not None and "causal_order" in spec.guarantees
        assert spec.rare or not survives
