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


CONSTANT = 16  # bytes of a clock that do not grow with it: the range of ids, the width of a slot


@pytest.mark.parametrize(
    ("members", "count", "bits"),
    [(100, 255, 8), (200, 65_535, 16), (1_000, 65_535, 16), (200, (1 << 32) - 1, 32)],
)
def test_a_clock_is_b_times_n_bits_and_a_constant(
    benchmark: ModuleType, members: int, count: int, bits: int
) -> None:
    """Section 3.2: b * n / 8 bytes for slots of b bits, such as 800 for 200 processes and 32."""
    found = benchmark.clock(members, count)
    assert found["bytes"] <= bits * members / 8 + CONSTANT
    assert found["bytes"] >= bits * (members - 1) / 8, "the slots are there"


@pytest.mark.slow
def test_compaction_leaves_8_percent_where_few_of_many_talk(benchmark: ModuleType) -> None:
    """Section 3.3, the favourable case: at best 8 % in systems of fewer than 100 processes."""
    found = benchmark.compaction(70, 4)
    assert found["clock_bytes"] >= 70
    assert found["compaction_multicast_share"] <= 0.08
    assert found["compaction_pairwise_share"] <= 0.08


def test_barriers_grow_with_the_square_where_everybody_speaks_at_once(
    benchmark: ModuleType,
) -> None:
    sizes = [benchmark.barriers(members)["bytes"] for members in (8, 16, 32)]
    growth = [larger / smaller for smaller, larger in itertools.pairwise(sizes)]
    assert all(3.5 < factor < 4.5 for factor in growth), sizes
