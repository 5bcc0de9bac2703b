"""What comes too late is told while rows come in, whatever their order: as the judge tells it."""

import json
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from causalcast.judge import judge
from causalcast.pipeline.live import arrival_check
from causalcast.pipeline.live.arrival_check import ArrivalCheck, ArrivalRow
from causalcast.pipeline.live.live_foreign import FACTS, LiveForeignCheck
from causalcast.pipeline.live.live_table import GrowingFiles, LiveLines
from causalcast.testing.partial_logs import imported
from causalcast.testing.random_foreign_logs import by_time, leave_out, random_log
from causalcast.trace.export import ForeignNames
from causalcast.trace.foreign_log import Record

ORDERS = ("fifo_order", "causal_order", "reply_order")


@pytest.mark.parametrize(
    "seeds", [range(150), pytest.param(range(2000, 4000), marks=pytest.mark.slow)]
)
def test_it_blames_whom_the_judge_blames(seeds: range) -> None:
    seen: Counter[str] = Counter()
    for seed in seeds:
        random = Random(seed)
        lines, redelivery = random_log(random)
        rest = leave_out(lines, random)
        if random.random() < 0.3:
            rest = by_time(rest, random.choice([1, 2, 3]))
        if not any(line["kind"] != "join" for line in rest):
            continue
        run = imported(rest, redelivery, whole=False)
        names = ForeignNames.of(run)
        live = LiveLines(redelivery)
        found = []
        waiting = {node: [x for x in rest if x["node"] == node] for node in run_nodes(rest)}
        while any(waiting.values()):  # each node goes on at its own pace
            node = random.choice([node for node, log in waiting.items() if log])
            rows = random.randint(1, 4)
            if "at_us" in waiting[node][0]:  # what is of one instant comes together
                rows = len(waiting[node])
            now, waiting[node] = waiting[node][:rows], waiting[node][rows:]
            found += live.take([Record("row", line) for line in now])
        found += live.check.finish()
        judgement = judge(run)
        for name in ORDERS:
            if name not in judgement.violations:  # no causes are declared
                continue
            blamed = {str(names.node(node)) for node in judgement.blamed(name)
                      if judgement.violations[name]}  # fmt: skip
            told = {late.node for late in found if late.guarantee == name}
            assert told <= blamed, f"seed {seed}: {name} {told} {blamed}"
            if not any("causes" in line for line in rest):
                assert told == blamed, f"seed {seed}: {name} {told} {blamed}"
            seen[name] += len(told)
            seen["missed"] += len(blamed - told)
    assert all(seen[name] > len(seeds) // 10 for name in ("fifo_order", "causal_order")), seen
    assert seen["reply_order"] > len(seeds) // 50, seen
    # Causes whose publication is read after that of what declares them.
    assert seen["missed"] <= seen["causal_order"] // 20, seen


def test_a_partial_run_raises_no_false_alarm_while_it_is_watched() -> None:
    """Event files of an imported run, in the order of their rows or not."""
    seen = 0
    for seed in range(80):
        random = Random(seed)
        lines, redelivery = random_log(random)
        rest = leave_out(lines, random)
        if not any(line["kind"] != "join" for line in rest):
            continue
        run = imported(rest, redelivery, whole=False)
        shares = {(row["group"], row["node"]) for row in run.members.to_pylist()
                  if row.get("share") is not None}  # fmt: skip
        check = LiveForeignCheck(redelivery, False, shares)
        rows = run.events.to_pylist()
        random.shuffle(rows)
        found = []
        for row in rows:
            facts = (row["kind"], row["message"], row["group"], *(row.get(f) for f in FACTS))
            check.feed(row["node"], [(row["pos"], *facts)])
        found += check.settle() + check.finish()
        assert check.rows_waiting() == check.pending() == 0
        judgement = judge(run)
        for name in ORDERS:
            told = {finding.node for finding in found if finding.guarantee == name}
            if name not in judgement.violations:
                assert not told
                continue
            assert told <= judgement.blamed(name), f"seed {seed}: {name}"
            if "reply_order" not in judgement.violations:  # else causes may be read too late
                assert told == judgement.blamed(name), f"seed {seed}: {name}"
        seen += len(found)
    assert seen > 20


def run_nodes(lines: list[dict[str, object]]) -> list[object]:
    return list(dict.fromkeys(line["node"] for line in lines))


def late(*rows: tuple[str, ArrivalRow]) -> list[tuple[str, object, object]]:
    """What came too late: by which order, the effect, the cause."""
    check = ArrivalCheck()
    for node, row in rows:
        check.feed(node, [row])
    found = check.settle() + check.finish()
    return [(one.guarantee, one.effect, one.cause) for one in found]


def test_an_answer_before_what_it_answers_is_told() -> None:
    """Also if the node lacks what is between, and if the causes are read after the effect."""
    question, doubt = ArrivalRow("publish", "question"), ("b", ArrivalRow("deliver", "question"))
    remark = ("b", ArrivalRow("publish", "remark", causes=("question",)))
    answer = ("c", ArrivalRow("publish", "answer", causes=("remark",)))
    came = [("d", ArrivalRow("deliver", message)) for message in ("answer", "question", "remark")]
    expected = [("reply_order", "answer", "question"), ("reply_order", "answer", "remark")]
    replies = [one for one in late(("a", question), doubt, remark, answer, *came)
               if one[0] == "reply_order"]  # fmt: skip
    assert replies == expected
    assert late(answer, ("a", question), remark, *came)[-1] == expected[-1]
    in_order = [("d", ArrivalRow("deliver", message)) for message in ("question", "answer")]
    assert late(("a", question), doubt, remark, answer, *in_order) == []
    at_once = [("d", ArrivalRow("deliver", message, instant=1)) for message in ("answer", "remark")]
    assert late(("a", question), doubt, remark, answer, *at_once) == []


def test_of_those_published_at_once_the_one_that_was_seen_is_followed() -> None:
    for crowd in (3, 40):
        sent = [("a", ArrivalRow("publish", n, instant=1)) for n in range(crowd)]
        later = ("a", ArrivalRow("publish", "later", instant=2))
        seen = [("b", ArrivalRow("deliver", 1)), ("b", ArrivalRow("publish", "answer"))]
        came = [("c", ArrivalRow("deliver", message)) for message in ("answer", 0, 2, 1)]
        assert late(*sent, *seen, *came) == [("causal_order", "answer", 1)]
        after = [("c", ArrivalRow("deliver", message)) for message in ("later", crowd - 1)]
        found = late(*sent, later, *after)
        assert ("fifo_order", "later", crowd - 1) in found
        assert ("causal_order", "later", crowd - 1) in found


def test_state_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrival_check, "MOST_PUBLICATIONS", 50)
    monkeypatch.setattr(arrival_check, "MOST_WAITING", 20)
    check = ArrivalCheck()
    for number in range(500):
        check.feed("a", [ArrivalRow("publish", number)])
        check.feed("b", [ArrivalRow("deliver", number), ArrivalRow("deliver", f"ghost {number}")])
        assert check.settle() == []
    assert len(check._publications) == 50
    assert check.rows_waiting() <= 20
    assert check.unchecked > 400
    assert len(check._nodes["b"].delivered) <= 50


def test_files_are_read_as_far_as_lines_are_whole(tmp_path: Path) -> None:
    growing = GrowingFiles(tmp_path)
    assert growing.records() == []
    line = json.dumps({"node": "a", "pos": 0, "kind": "crash"})
    with (tmp_path / "a.jsonl").open("w") as file:
        file.write(line + "\n" + line[:10])
        file.flush()
        assert len(growing.records()) == 1
        file.write(line[10:] + "\n")
        file.flush()
        assert [record.where[-6:] for record in growing.records()] == ["line 2"]
