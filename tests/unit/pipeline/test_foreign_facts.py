"""Logs of other systems small enough to judge by eye: by the judge and by the kernels."""

from pathlib import Path
from typing import Any

import pytest

from causalcast.judge import judge
from causalcast.pipeline.check.check_run import check_run
from causalcast.pipeline.logs.compaction import compact
from causalcast.testing.comparison import differences
from causalcast.testing.partial_logs import imported
from causalcast.trace.run_folder import read_run, write_run


def log(*rows: str, **facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows such as `a publish m` or `b deliver m t`; `facts` are added to all rows of a message."""
    places: dict[str, int] = {}
    lines = []
    for row in rows:
        node, kind, message, *group = row.split()
        line = {"node": node, "pos": places.get(node, 0), "kind": kind, "message": message}
        places[node] = places.get(node, 0) + 1
        if group:
            line["group"] = group[0]
        lines.append(line | facts.get(f"{kind}_{message}", {}) | facts.get(f"{node}_{kind}", {}))
    return lines


def broken(
    lines: list[dict[str, Any]], redelivery: str | None = None, whole: bool | None = None
) -> list[str]:
    """What judge and kernels agree to be broken of what the log promises."""
    run = imported(lines, redelivery, whole)  # type: ignore[arg-type]
    judgement, checked = judge(run), check_run(run)
    assert differences(run, judgement, checked.findings, checked.unknown) == []
    return sorted({f.guarantee for f in checked.findings if f.guarantee in run.header.guarantees})


INVERSION = ("a publish z", "b deliver z", "b publish m", "c deliver m", "c deliver z")
IN_ORDER = ["causal_order"]


def test_an_inversion_is_one_whatever_else_is_missing() -> None:
    assert broken(log(*INVERSION)) == IN_ORDER
    assert broken(log(*INVERSION, "c deliver nobodys")) == IN_ORDER
    assert broken(log(*INVERSION), whole=False) == IN_ORDER


def test_a_gap_is_one_only_in_a_whole_log() -> None:
    gap = log(*INVERSION[:-1], "c deliver x", "a publish x")
    assert "causal_order" in broken(gap)
    assert broken(gap, whole=False) == []
    run = imported(gap, "none", False)
    assert check_run(run).unknown["causal_order"] == 2, "m and x follow z, which is not there"
    assert check_run(run).counts.judged == 1, "z at b"


def test_keys_order_only_among_themselves() -> None:
    def keyed(cause: str | None, effect: str | None) -> list[str]:
        return broken(log(*INVERSION, publish_z={"key": cause}, publish_m={"key": effect}))

    assert keyed("k", "k") == IN_ORDER
    assert keyed("k", "other") == []
    assert keyed(None, "k") == keyed("k", None) == IN_ORDER, "no key: ordered with all"


def test_who_shares_is_owed_nothing_but_gets_what_comes_in_order() -> None:
    shared = {"c_deliver": {"share": "workers"}, "d_deliver": {"share": "workers"}}
    between = log(*INVERSION[:-1], "d deliver z", **shared)
    assert broken(between) == [], "each message went to one of them"
    assert broken(log(*INVERSION, **shared)) == IN_ORDER


@pytest.mark.parametrize("attempt", [1, 2])
def test_a_numbered_repetition_is_no_first_delivery(attempt: int) -> None:
    lines = log(*INVERSION)
    lines[-1]["attempt"] = attempt
    assert broken(lines, whole=False) == (IN_ORDER if attempt == 1 else [])


def test_what_comes_again_to_another_of_a_share_may_come_in_any_order() -> None:
    """m was tried elsewhere first; here it comes again before z comes for the first time."""
    shared = {"c_deliver": {"share": "workers"}, "d_deliver": {"share": "workers"}}
    lines = log(*INVERSION, **shared)
    lines[-2]["attempt"], lines[-1]["attempt"] = 2, 1
    assert broken(lines) == []
    lines[-2]["attempt"] = 1
    assert broken(lines) == IN_ORDER


def test_repeats_are_excused_by_number_or_by_what_the_header_says() -> None:
    lines = log("a publish z", "b deliver z", "b deliver z")
    assert broken(lines) == ["no_duplication"]
    assert broken(lines, "any") == []
    lines[1]["attempt"], lines[2]["attempt"] = 1, 2
    assert broken(lines) == []
    lines[2]["attempt"] = 1
    assert broken(lines) == ["no_duplication"], "the first attempt twice"


def test_an_inversion_whose_later_row_may_repeat_is_unknown() -> None:
    lines = log(*INVERSION)
    assert broken(lines, "any", whole=False) == []
    assert broken(lines, "any", whole=True) == IN_ORDER
    assert check_run(imported(lines, "any", False)).unknown["causal_order"] == 1


def test_two_verdicts_where_causes_are_declared() -> None:
    answers = log(*INVERSION, publish_m={"causes": ["z"]})
    assert broken(answers) == ["causal_order", "reply_order"]
    other = log("d publish q", "c deliver q", *INVERSION, publish_m={"causes": ["q"]})
    assert broken(other) == ["causal_order"], "nobody answered z, but m was seen after it"


def test_a_declared_cause_is_a_cause_though_nobody_saw_it_come() -> None:
    """b heard of z in another way, and says so."""
    lines = log(*(row for row in INVERSION if row != "b deliver z"), publish_m={"causes": ["z"]})
    assert broken(lines) == ["causal_order", "reply_order"]


def test_equal_times_are_not_ordered() -> None:
    """Neither at the receiver, nor where one may have answered the other."""
    lines = log(*INVERSION)
    for line in lines:
        line["at_us"] = line.pop("pos")
    assert broken(lines) == IN_ORDER
    for tied in (lines[3:], lines[1:3]):
        at_once = [line | {"at_us": 0} if line in tied else line for line in lines]
        assert broken(at_once) == []


def test_a_share_gets_a_message_once_and_once_at_all() -> None:
    shared = {"c_deliver": {"share": "workers"}, "d_deliver": {"share": "workers"}}
    twice = log("a publish z", "c deliver z", "d deliver z", **shared)
    assert broken(twice) == ["no_duplication"]
    assert broken(twice, "any") == []
    assert broken(twice, whole=False) == ["no_duplication"], "both rows are there"
    numbered = [line | {"attempt": n} for n, line in enumerate(twice) if n] + twice[:1]
    assert broken(numbered) == []

    joins: list[dict[str, Any]] = [
        {"node": node, "pos": -1, "kind": "join", **share}
        for node, share in (("b", {}), ("c", {"share": "s"}), ("d", {"share": "s"}))
    ]
    never = [*joins, *log("a publish z", "b deliver z")]
    assert broken(never) == ["agreement"], "b got it, and none of those who share"
    once = [*joins, *log("a publish z", "b deliver z", "d deliver z", d_deliver={"share": "s"})]
    assert broken(once) == []


def test_compacting_loses_nothing_that_other_systems_know(tmp_path: Path) -> None:
    lines = log(*INVERSION, publish_z={"key": "k"}, publish_m={"key": "other", "causes": ["z"]})
    lines[-1]["attempt"] = 1
    run = imported(lines, "none", True)
    write_run(tmp_path / "run", run)
    compact(tmp_path / "run", tmp_path / "compact")
    again = read_run(tmp_path / "compact")
    assert again.events.to_pylist() == run.events.to_pylist()
    assert {"key", "causes", "attempt"} <= set(again.events.column_names)
