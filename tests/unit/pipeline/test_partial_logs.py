"""Logs of which rows are missing: nothing false is told of them, and nothing knowable is missed."""

from collections import Counter

import pytest

from causalcast.testing.partial_logs import check_seed


@pytest.mark.parametrize("first_seed", [0, 1000])
def test_what_is_told_of_a_rest_is_true_of_the_whole(first_seed: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(first_seed, first_seed + 200):
        said, of_log = check_seed(seed, kept_on_disk=seed % 20 == 0)
        assert said == []
        seen += of_log
    assert seen["partial"] > 100
    for name in ("causal_order", "fifo_order", "reply_order"):
        assert seen[f"{name} told"] > 3, seen
        assert seen[f"{name} told"] < seen[f"{name} in the whole log"], seen
