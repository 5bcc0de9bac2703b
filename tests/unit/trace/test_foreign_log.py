"""Foreign logs: what a line means, and what is said about a line that means nothing."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from causalcast.errors import TraceError
from causalcast.judge import judge
from causalcast.testing.random_traces import damage, good_run
from causalcast.trace.export import to_json_lines
from causalcast.trace.foreign_log import import_log
from causalcast.trace.run_folder import Run


def imported(folder: Path, *lines: dict[str, Any] | str, **options: Any) -> Run:
    path = folder / "log.jsonl"
    path.write_text("\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines) + "\n")
    return import_log(path, **options)


def event(node: str, pos: int, kind: str, message: str | None = None, **more: Any) -> Any:
    return {"node": node, "pos": pos, "kind": kind, "message": message, **more}


def test_names_become_numbers_and_order_comes_from_pos(tmp_path: Path) -> None:
    run = imported(
        tmp_path,
        event("berlin", 1, "deliver", "hello", group="chat"),
        event("berlin", 0, "publish", "hello", group="chat"),
        event("paris", 0, "deliver", "hello", group="chat"),
    )
    rows = run.events.select(["node", "pos", "kind", "message", "group"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        (0, 0, "publish", 1, 0),
        (0, 1, "deliver", 1, 0),
        (1, 0, "deliver", 1, 0),
    ]
    assert run.nodes["name"].to_pylist() == ["berlin", "paris"]
    assert judge(run).all_broken() == []


def test_order_may_come_from_time(tmp_path: Path) -> None:
    run = imported(
        tmp_path,
        {"node": 7, "time": 2.5, "kind": "deliver", "message": "m"},
        {"node": 7, "time": 1.0, "kind": "publish", "message": "m"},
    )
    assert run.events["kind"].to_pylist() == ["publish", "deliver"]
    assert run.events["at_us"].to_pylist() == [1_000_000, 2_500_000]
    assert run.events["node"].to_pylist() == [7, 7]


def test_without_joins_the_members_are_those_who_deliver(tmp_path: Path) -> None:
    run = imported(tmp_path, event("a", 0, "publish", "m"), event("b", 0, "deliver", "m"))
    assert [(r["node"], r["from_pos"]) for r in run.members.to_pylist()] == [(1, 0)]
    assert "agreement" not in run.header.guarantees
    assert "causal_order" in run.header.guarantees


def test_early_joins_found_and_later_ones_are_late(tmp_path: Path) -> None:
    run = imported(
        tmp_path,
        event("a", 0, "join"),
        event("a", 1, "publish", "m1"),
        event("a", 2, "leave"),
        event("a", 3, "join"),
        event("b", 0, "join", late=True),
    )
    members = [tuple(row.values()) for row in run.members.to_pylist()]
    assert members == [(0, 0, 0, 1), (0, 0, 2, None), (0, 1, 0, None)]
    assert run.events["kind"].to_pylist() == ["publish", "leave", "join", "join"]
    assert "agreement" in run.header.guarantees


def test_what_nobody_published_is_created(tmp_path: Path) -> None:
    run = imported(tmp_path, event("a", 0, "deliver", "ghost"), whole=True)
    assert judge(run).all_broken() == ["no_creation"]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "line 2: not JSON"),
        ("[1]", "line 2: expected an object, found list"),
        ({"node": "a", "pos": 1}, "line 2: 'kind' is missing"),
        ({"kind": "publish", "pos": 1}, "line 2: 'node' is missing"),
        (event("a", 1, "explode"), "line 2: unknown kind 'explode'"),
        ({"node": "a", "kind": "crash"}, "line 2: neither 'pos' nor 'time'"),
        (event("a", 1, "publish"), "line 2: a publish without 'message'"),
        (event("a", 0, "crash"), "line 2: pos 0 of 'a' repeated"),
        ({"node": "a", "time": 1, "kind": "crash"}, "line 2: some lines of 'a' have 'pos'"),
        (event("b", 0, "publish", "m"), "line 2: message 'm' is published twice"),
        (event("b", 0, "leave", group="all"), "line 2: 'b' leaves 'all' and is no member"),
        (event("b", 0, "deliver", "m", key="k"), "line 2: 'key' belongs to publish lines"),
        (event("b", 0, "publish", "n", causes="m"), "line 2: 'causes' must be a list"),
        (event("b", 0, "deliver", "m", causes=["m"]), "line 2: 'causes' belongs to publish lines"),
        (event("b", 0, "publish", "n", share="s"), "line 2: 'share' belongs to deliver and join"),
        (event("b", 0, "deliver", "m", share=[]), "line 2: 'share' must be a name or a number"),
        (event("b", 0, "deliver", "m", attempt=0), "line 2: 'attempt' must be 1, 2, 3"),
        (event("b", 0, "deliver", "m", attempt=1.5), "line 2: 'attempt' must be 1, 2, 3"),
        ({"kind": "header", "whole": 1}, "line 2: 'whole' must be true or false"),
        ({"kind": "header", "redelivery": "often"}, "line 2: 'redelivery' must be one of none"),
        ({"node": "a", "pos": "1", "kind": "crash"}, "line 2: 'pos' must be a number"),
        ({"node": [], "pos": 1, "kind": "crash"}, "line 2: 'node' must be a name or a number"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: Any, complaint: str) -> None:
    with pytest.raises(TraceError) as caught:
        imported(tmp_path, event("a", 0, "publish", "m"), line)
    assert complaint in str(caught.value)


def test_an_empty_log_and_a_missing_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no events"):
        imported(tmp_path, "")
    with pytest.raises(TraceError, match="cannot be read"):
        import_log(tmp_path / "nowhere.jsonl")


def test_exported_runs_come_back_as_they_were(tmp_path: Path) -> None:
    """Events, verdicts and blamed nodes survive export and import."""
    path = tmp_path / "log.jsonl"
    for seed in range(120):
        random = Random(seed)
        draft = good_run(random)
        damage(draft, random)
        run = draft.run()
        if run.events.num_rows == 0:
            continue
        path.write_text("\n".join(to_json_lines(run)))
        again = import_log(path)
        again.header.complete = run.header.complete
        assert again.header.redelivery == run.header.redelivery, f"seed {seed}"
        rows = again.events.select(run.events.column_names)
        assert rows.to_pylist() == run.events.to_pylist(), f"seed {seed}"
        before, after = judge(run), judge(again)
        for guarantee in ("no_duplication", "fifo_order", "causal_order"):
            assert before.blamed(guarantee) == after.blamed(guarantee), f"seed {seed}"


def test_a_log_that_is_not_whole_shows(tmp_path: Path) -> None:
    """Positions that skip, a beginning that is gone, publications that nobody wrote down."""
    whole = [event("a", 0, "publish", "m"), event("a", 1, "deliver", "m")]
    assert imported(tmp_path, *whole).header.whole
    assert imported(tmp_path, *whole).header.schema == 1
    for line, sign in (
        (event("a", 3, "publish", "n"), "'pos' skips 1 rows, at a"),
        (event("b", 7, "deliver", "m"), "'pos' skips 7 rows, at b"),
        (event("b", 0, "deliver", "x"), "1 message was published by nobody in this log: x"),
        (event("b", 0, "publish", "n", causes=["x"]), "published by nobody in this log: x"),
    ):
        run = imported(tmp_path, *whole, line)
        assert not run.header.whole
        assert run.header.schema == 2, "an older reader would raise false alarms"
        assert [sign in said for said in run.header.found_out] == [True]
        assert imported(tmp_path, *whole, line, whole=True).header.whole
        assert imported(tmp_path, *whole, line, {"kind": "header", "whole": True}).header.whole
    assert not imported(tmp_path, *whole, {"kind": "header", "whole": False}).header.whole
    assert not imported(tmp_path, *whole, whole=False).header.whole


def test_keys_causes_shares_and_attempts_stand_in_the_trace(tmp_path: Path) -> None:
    run = imported(
        tmp_path,
        event("a", 0, "publish", "m", key="k", group="g"),
        event("a", 1, "publish", "n", key=7, causes=["m"], group="g"),
        event("b", 0, "deliver", "n", share="workers", attempt=1, group="g"),
        event("b", 1, "deliver", "m", share="workers", attempt=2, group="g"),
    )
    columns = {name: run.events[name].to_pylist() for name in ("key", "causes", "attempt")}
    assert columns == {
        "key": ["k", "7", None, None],
        "causes": [None, [1], None, None],
        "attempt": [None, None, 1, 2],
    }
    assert [(r["node"], r["share"]) for r in run.members.to_pylist()] == [(1, "workers")]
    assert (run.header.redelivery, run.header.schema) == ("any", 2)
    assert "reply_order" in run.header.guarantees
    with pytest.raises(TraceError, match="line 2: 'b' delivers 'all' under two names of a share"):
        imported(
            tmp_path,
            event("b", 0, "deliver", "m", share="workers"),
            event("b", 1, "deliver", "n"),
        )


def test_positions_are_those_of_the_other_log(tmp_path: Path) -> None:
    """Founding joins leave no row; what follows keeps its place all the same."""
    run = imported(
        tmp_path,
        event("a", 0, "join"),
        event("a", 1, "publish", "m"),
        event("a", 2, "deliver", "m"),
    )
    assert run.events["pos"].to_pylist() == [0, 1]
    assert run.events["source"].to_pylist() == [1, 2]


def test_a_dead_letter_is_a_publication_with_a_cause(tmp_path: Path) -> None:
    """The same id in another group, by somebody who had delivered it."""
    run = imported(
        tmp_path,
        event("a", 0, "publish", "order-1", group="orders"),
        event("b", 0, "deliver", "order-1", group="orders"),
        event("b", 1, "publish", "order-1", group="orders.dlq"),
        event("c", 0, "deliver", "order-1", group="orders.dlq"),
        event("d", 0, "publish", "order-1", group="elsewhere"),
    )
    first, letter, stranger = 1, (1 << 32) + 1, (3 << 32) + 1
    assert run.events["message"].to_pylist() == [first, first, letter, letter, stranger]
    assert run.events["causes"].to_pylist() == [None, None, [first], None, None]
    assert judge(run).all_broken() == []


def test_a_retry_is_no_publication_of_its_own(tmp_path: Path) -> None:
    run = imported(
        tmp_path,
        event("a", 0, "publish", "order-1"),
        event("a", 1, "publish", "order-1"),
        event("b", 0, "deliver", "order-1"),
        event("b", 1, "deliver", "order-1"),
    )
    assert run.events["kind"].to_pylist() == ["publish", "note", "deliver", "deliver"]
    assert run.header.redelivery == "any"
    assert "published again" in run.header.found_out[0]
