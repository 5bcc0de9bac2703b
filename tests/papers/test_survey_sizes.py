"""How much history copies carry, as the codec writes it, beside what the survey says of it.

R. de Juan-Marín et al., "Scalability approaches for causal multicast: a survey", 2016, sections 3.2
and 3.3; the worst case of causal barriers after Santos and Rodrigues, 2019.
"""

import importlib.util
import itertools
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    path = Path(__file__).parent.parent.parent / "benchmarks" / "survey_metadata.py"
    spec = importlib.util.spec_from_file_location("survey_metadata", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("members", "count", "bits"), [(100, 100, 16), (200, 60_000, 40)])
def test_a_clock_is_b_times_n_bits(
    benchmark: ModuleType, members: int, count: int, bits: int
) -> None:
    """An entry is an id and a count, each of one byte or, above 127, of two or three."""
    found = benchmark.clock(members, count)
    assert found["bytes"] <= bits * members / 8 + 2


def test_200_processes_with_slots_of_32_bits_are_at_most_800_bytes(benchmark: ModuleType) -> None:
    """Section 3.2. Small counts take less than 32 bits."""
    assert benchmark.clock(200, 127)["bytes"] <= 800 == 200 * 32 / 8


def test_compaction_leaves_8_percent_where_few_of_many_talk(benchmark: ModuleType) -> None:
    """Section 3.3, the favourable case: at best 8 % in systems of fewer than 100 processes."""
    found = benchmark.compaction(50, 4)
    assert found["clock_bytes"] >= 98
    assert found["compaction_multicast_share"] <= 0.08
    assert found["compaction_pairwise_share"] <= 0.08


def test_barriers_grow_with_the_square_where_everybody_speaks_at_once(
    benchmark: ModuleType,
) -> None:
    sizes = [benchmark.barriers(members)["bytes"] for members in (8, 16, 32)]
    growth = [larger / smaller for smaller, larger in itertools.pairwise(sizes)]
    assert all(3.5 < factor < 4.5 for factor in growth), sizes
