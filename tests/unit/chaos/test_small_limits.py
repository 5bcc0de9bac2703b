"""Limits of real nodes for a round: sizes and counts, told to a process by a file."""

import json
from pathlib import Path

import pytest

from causalcast.chaos.small_limits import FILE, small_limits, take_limits, write_limits
from causalcast.limits import limits_of, set_to
from causalcast.runtime.node_config import COMPACT_BYTES


def test_a_seed_draws_the_same_and_no_times() -> None:
    drawn = [small_limits(seed) for seed in range(12)]
    assert drawn == [small_limits(seed) for seed in range(12)]
    names = {name for one in drawn for name in one}
    assert "runtime.node_config.compact_bytes" in names and len(names) > 20
    every = limits_of("core", "parts", "wire", "runtime", "protocols")
    assert {every[name].unit for name in names} & {"s", "ms", "us"} == set()
    assert "wire.codec.body_bytes" not in names


def test_a_process_takes_what_was_written_for_it(tmp_path: Path) -> None:
    take_limits(tmp_path)  # nothing was
    usual = COMPACT_BYTES.value
    write_limits(tmp_path, {"runtime.node_config.compact_bytes": 7})
    with set_to({"runtime.node_config.compact_bytes": usual}):  # puts it back
        take_limits(tmp_path)
        assert COMPACT_BYTES.value == 7
    assert COMPACT_BYTES.value == usual


def test_what_is_no_limit_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(json.dumps({"runtime.nothing": 1}))
    with pytest.raises(ValueError, match="no limit"):
        take_limits(tmp_path)
