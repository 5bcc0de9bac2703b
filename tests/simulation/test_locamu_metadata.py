"""What LoCaMu puts on the wire stays small, and has nothing to do with the number of nodes."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from causalcast.reproduce.families.sizes import worst_header


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    path = Path(__file__).parent.parent.parent / "benchmarks" / "locamu_metadata.py"
    spec = importlib.util.spec_from_file_location("locamu_metadata", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_largest_header_is_the_same_in_every_large_tree() -> None:
    """At most 540 bytes at degree 3 and f = 1, as S000 has it for 65,535 nodes."""
    small, middle, large = (worst_header(nodes, 1) for nodes in (63, 1023, 65_535))
    assert small["largest_header_bytes"] <= middle["largest_header_bytes"] <= 540
    for fact in ("ball", "past_entries_most"):
        assert small[fact] <= middle[fact] == large[fact]
    # Ids take more bytes where there are more nodes: the publisher's, and, once on a link, those of
    # pairs that only the publisher knows.
    assert large["largest_header_bytes"] - middle["largest_header_bytes"] <= 40
    assert large["largest_header_bytes"] <= 540
    assert large["ball"] == 22


@pytest.mark.slow
def test_most_headers_say_little(benchmark: ModuleType) -> None:
    found = benchmark.measure(63, 1, 10, 3, "compressed")
    dense = benchmark.measure(63, 1, 10, 3, "dense")
    assert found["copy_bytes_average"] <= 36
    assert found["copy_bytes_average"] < 0.75 * dense["copy_bytes_average"]
    assert found["control_bytes_per_delivery"] <= 16


@pytest.mark.slow
def test_on_255_nodes_too(benchmark: ModuleType) -> None:
    """The benchmark does it for 511, which takes four times as long."""
    found = benchmark.measure(255, 1, 10, 1, "compressed")
    assert found["copy_bytes_average"] <= 36
    assert found["control_bytes_per_delivery"] <= 16
