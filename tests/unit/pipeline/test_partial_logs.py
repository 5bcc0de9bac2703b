"""Logs of which rows are missing: nothing false is told of them, and nothing knowable is missed."""

import json
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

from causalcast.judge import Judgement, judge
from causalcast.pipeline.check import check_run, log_view
from causalcast.pipeline.check.checks import order
from causalcast.pipeline.check.close_look import Knowledge
from causalcast.pipeline.logs import logs
from causalcast.pipeline.logs.memberships import Memberships, read_memberships
from causalcast.testing.comparison import differences
from causalcast.testing.many_random_runs import run_of_seed
from causalcast.testing.partial_logs import check_seed, imported
from causalcast.testing.random_foreign_logs import by_time, random_log
from causalcast.trace.export import ForeignNames, to_json_lines
from causalcast.trace.run_folder import Run


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


@pytest.mark.parametrize("seed", [113883, 7, 53, 64, 320, 396])
def test_past_failures(seed: int) -> None:
    """Equal times: in overlapping groups requirement lists passed a log that was not in order; with
    keys only the first of an instant was followed."""
    assert check_seed(seed)[0] == []


AT_ONCE = """
a 0 publish m1 k
a 0 publish m2 k
a 0 publish m3 l
b 1 deliver m2
b 1 deliver m3
b 2 publish answer k
c 1 deliver answer
c 2 deliver m3
c 3 deliver m2
c 4 deliver m1
"""


def at_once() -> list[dict[str, Any]]:
    fields = ("node", "time", "kind", "message", "key")
    rows = [dict(zip(fields, line.split(), strict=False)) for line in AT_ONCE.split("\n") if line]
    return [{**row, "time": int(row["time"])} for row in rows]


@pytest.mark.parametrize(("room", "late"), [(1 << 26, ["m2"]), (1, [])])
def test_of_those_published_at_once_the_one_that_was_seen_is_followed(
    monkeypatch: pytest.MonkeyPatch, room: int, late: list[str]
) -> None:
    """The answer follows m2, not m1, and m3 has another key. Without room nothing false is told."""
    monkeypatch.setattr(order, "MOST_PASTS", room)
    run = imported(at_once(), "none", whole=False)
    names = ForeignNames.of(run)
    found = [f for f in check_run.check_run(run).findings if f.guarantee == "causal_order"]
    assert [names.message(f.cause) for f in found if f.cause is not None] == late


def test_with_little_room_nothing_false_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "MOST_PASTS", 1)
    missed = 0
    for seed in range(600):
        lines, redelivery = random_log(Random(seed))
        if not any("key" in line for line in lines):
            continue
        run = imported(by_time(lines, 3), redelivery, whole=False)
        judged, checked = judge(run), check_run.check_run(run)
        for name in ("fifo_order", "causal_order"):
            told = sum(1 + f.further for f in checked.findings if f.guarantee == name)
            assert told <= len(judged.violations[name]), f"seed {seed}"
            missed += len(judged.violations[name]) - told
    assert missed  # so that there was something to get wrong


def told(run: Run, judgement: Judgement, name: str) -> set[tuple[str | int, str]]:
    names = ForeignNames.of(run)
    return {(names.node(v.node), names.message(v.message)) for v in judgement.violations[name]}


@pytest.mark.parametrize(
    "seeds", [range(100), pytest.param(range(5000, 6000), marks=pytest.mark.slow)]
)
def test_members_who_come_and_go(seeds: range) -> None:
    """Joins, leaves and crashes are there; some of what was published and delivered is not."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        random = Random(seed)
        whole = run_of_seed(seed)
        lines = [json.loads(line) for line in to_json_lines(whole)][1:]
        kept = random.choice([0.95, 0.8, 0.5])
        sampled = ("publish", "deliver")
        rest = [line for line in lines if line["kind"] not in sampled or random.random() < kept]
        if not rest:
            continue
        judged = judge(whole)
        repeats = whole.header.redelivery != "none" or judged.violations["no_duplication"]
        part = imported(rest, "any" if repeats else "none", whole=False)
        judgement, checked = judge(part), check_run.check_run(part)
        said = differences(part, judgement, checked.findings, checked.unknown)
        assert said == [], f"seed {seed}"
        cyclic = any(v.kind == "cycle" for v in judged.violations["no_creation"])
        for name in ("fifo_order", "causal_order"):
            if not cyclic:  # what is on a cycle takes no part in the order of the whole
                here, there = told(part, judgement, name), told(whole, judged, name)
                assert here <= there, f"seed {seed}: {name} {here - there}"
            seen[name] += len(judgement.violations[name])
    assert seen.total() >= len(seeds) // 50, seen


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
