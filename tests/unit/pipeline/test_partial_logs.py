"""Logs of which rows are missing: nothing false is told of them, and nothing knowable is missed."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from causalcast.pipeline import check_run, log_view, logs
from causalcast.pipeline.close_look import Knowledge
from causalcast.pipeline.memberships import Memberships, read_memberships
from causalcast.testing.partial_logs import check_seed


@pytest.mark.parametrize(
    "seeds", [range(120), pytest.param(range(1000, 2000), marks=pytest.mark.slow)]
)
def test_what_is_told_of_a_rest_is_true_of_the_whole(seeds: range) -> None:
    seen: Counter[str] = Counter()
    for seed in seeds:
        said, of_log = check_seed(seed, kept_on_disk=seed % 20 == 0)
        assert said == []
        seen += of_log
    assert seen["partial"] > len(seeds) // 2
    for name in ("causal_order", "fifo_order", "reply_order"):
        assert seen[f"{name} told"] > 1, seen
        assert seen[f"{name} told"] < seen[f"{name} in the whole log"], seen


def gap_counted_as_known(patch: pytest.MonkeyPatch) -> None:
    def blind(graph: Any, memberships: Any, whole: bool, *further: Any) -> Knowledge:
        return Knowledge(graph, memberships, True, *further)

    patch.setattr(check_run, "Knowledge", blind)


def tie_ordered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(logs, "_instants", lambda tied, starts: None)


def key_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(check_run, "KeyLists", lambda publications, graph: None)


def share_ignored(patch: pytest.MonkeyPatch) -> None:
    def blind(nodes: Any, members: Any) -> Memberships:
        kept = [name for name in members.column_names if name != "share"]
        return read_memberships(nodes, members.select(kept))

    patch.setattr(check_run, "read_memberships", blind)


def attempt_taken_for_a_first_delivery(patch: pytest.MonkeyPatch) -> None:
    nothing = property(lambda view: np.zeros(len(view.graph.publications), np.bool_))
    patch.setattr(log_view.LogView, "repetition", nothing)


@pytest.mark.parametrize(
    "bug",
    [
        gap_counted_as_known,
        tie_ordered,
        key_ignored,
        share_ignored,
        attempt_taken_for_a_first_delivery,
    ],
)
def test_a_planted_bug_is_noticed(
    monkeypatch: pytest.MonkeyPatch, bug: Callable[[pytest.MonkeyPatch], None]
) -> None:
    bug(monkeypatch)
    assert any(_is_noticed(seed) for seed in range(300)), "nothing noticed it"


def _is_noticed(seed: int) -> bool:
    try:
        return bool(check_seed(seed)[0])
    except AssertionError:  # the kernels contradict themselves
        return True
