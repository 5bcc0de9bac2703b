"""The live check says what the judge says, whatever the order in which rows come in."""

from collections import Counter
from random import Random

import pytest

from causalcast.errors import TraceError
from causalcast.judge import judge
from causalcast.pipeline.live import live_check
from causalcast.pipeline.live.live_check import LiveCheck
from causalcast.testing.draft_run import DraftRun, message_id
from causalcast.testing.many_random_runs import run_of_seed
from causalcast.trace.run_folder import Run
from causalcast.trace.schema import GUARANTEES

SAFETY = ("no_creation", "no_duplication", "fifo_order", "causal_order")
AT_THE_END = ("validity", "agreement")  # until then what is missing is only overdue
A, B, P = 0, 1, 2


def founders(run: Run) -> dict[int, set[int]]:
    """Who is in which group from the start, as a live run knows it."""
    joined = {(row["node"], row["group"]) for row in run.events.to_pylist()
              if row["kind"] == "join" and row["pos"] == 0}  # fmt: skip
    members: dict[int, set[int]] = {}
    for row in run.members.to_pylist():
        if row["from_pos"] == 0 and (row["node"], row["group"]) not in joined:
            members.setdefault(row["group"], set()).add(row["node"])
    return members


def check_live(run: Run, random: Random) -> dict[str, set[int]]:
    """Feed the logs in random pieces, in random order; who was blamed for what."""
    check = LiveCheck(founders(run), run.header.redelivery == "after_recover")
    pieces = []
    for row in run.events.to_pylist():
        pieces.append((row["node"], (row["pos"], row["kind"], row["message"], row["group"])))
    random.shuffle(pieces)
    found = []
    for node, row in pieces:
        check.feed(node, [row])
        if random.random() < 0.3:
            found += check.settle()
    found += check.finish()
    assert check.rows_waiting() == 0
    found += check.late(grace=0)
    return {name: {f.node for f in found if f.guarantee == name} for name in GUARANTEES}


@pytest.mark.parametrize("first_seed", range(50_000, 53_000, 500))
def test_it_agrees_with_the_judge(first_seed: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(first_seed, first_seed + 500):
        run = run_of_seed(seed)
        judgement = judge(run)
        live = check_live(run, Random(seed))
        kinds = {violation.kind for violation in judgement.violations["no_creation"]}
        if kinds & {"cycle", "before_publish"}:
            # Rows of an impossible run cannot be put in order; it must be called one all the same.
            assert live["no_creation"], f"seed {seed}"
            seen["impossible"] += 1
            continue
        late = any(row["kind"] in ("join", "leave") for row in run.events.to_pylist())
        for name in GUARANTEES:
            blamed = judgement.blamed(name)
            if name == "no_duplication":  # a stranger's repeat of what was forgotten: blamed anyway
                blamed -= live["no_creation"] - live[name]
            if late:  # what a later row makes owed is left to verify; a false alarm is not allowed
                assert live[name] <= blamed, f"seed {seed}: {name} {live[name]} {blamed}"
                seen["seen at late members"] += len(live[name])
                seen["left to verify"] += len(blamed - live[name])
            else:
                assert live[name] == blamed, f"seed {seed}: {name} {live[name]} {blamed}"
            seen[name] += bool(live[name])
    assert seen["left to verify"] <= seen["seen at late members"] / 10
    assert all(seen[name] > 5 for name in (*SAFETY, *AT_THE_END, "impossible")), seen


def three_nodes() -> LiveCheck:
    return LiveCheck({0: {A, B, P}})


def test_a_gap_is_waited_for() -> None:
    check = three_nodes()
    check.feed(A, [(1, "deliver", message_id(A, 1), 0)])
    assert check.settle() == []
    assert check.rows_waiting() == 1
    check.feed(A, [(0, "publish", message_id(A, 1), 0)])
    check.settle()
    assert check.rows_waiting() == 0


def test_what_everybody_has_is_forgotten() -> None:
    check = three_nodes()
    for number in range(1, 101):
        message = message_id(A, number)
        rows = [(2 * number - 2, "publish", message, 0), (2 * number - 1, "deliver", message, 0)]
        check.feed(A, rows)
        for node in (B, P):
            check.feed(node, [(number - 1, "deliver", message, 0)])
        assert check.settle() == []
        assert len(check.in_flight) == 0
    assert all(not node.has and len(node.since_recovery) == 0 for node in check.nodes.values())


def test_the_dead_are_struck_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """B is down: its share is kept for a while, then nobody waits for it; P left, and is owed
    nothing."""
    monkeypatch.setattr(live_check, "MOST_IN_FLIGHT", 10)
    check = three_nodes()
    check.feed(B, [(0, "crash", None, None)])
    check.feed(P, [(0, "leave", None, 0)])
    for number in range(1, 31):
        message = message_id(A, number)
        rows = [(2 * number - 2, "publish", message, 0), (2 * number - 1, "deliver", message, 0)]
        check.feed(A, rows)
        check.settle()
        assert len(check.in_flight) <= 10
    check.feed(B, [(1, "recover", None, None), (2, "deliver", message_id(A, 1), 0)])
    assert check.settle() == []
    assert check.unchecked == 1


def test_a_published_message_that_never_comes_is_pending() -> None:
    check = three_nodes()
    check.feed(A, [(0, "publish", message_id(A, 1), 0)])
    check.settle()
    assert check.pending() == 1


def test_an_inversion_names_both_messages() -> None:
    draft = DraftRun()
    check = three_nodes()
    first, second = message_id(A, 1), message_id(B, 1)
    check.feed(A, [(0, "publish", first, 0), (1, "deliver", first, 0)])
    check.feed(B, [(0, "deliver", first, 0), (1, "publish", second, 0)])
    check.feed(P, [(0, "deliver", second, 0)])
    [finding] = check.settle()
    assert (finding.guarantee, finding.node, finding.pos) == ("causal_order", P, 0)
    assert (finding.message, finding.cause) == (second, first)
    assert draft.logs == {}


def test_what_is_owed_for_too_long_is_told_once_and_when_it_came() -> None:
    """Not before its time, not of those who are down, not of those who left."""
    check = LiveCheck({0: {A, B, P, 3}})
    message = message_id(A, 1)
    check.feed(A, [(0, "publish", message, 0)])
    check.feed(B, [(0, "deliver", message, 0)])
    check.feed(3, [(0, "leave", None, 0)])
    check.settle()
    check.seconds += 9
    assert check.late(10) == []
    check.seconds += 2
    late = {(f.guarantee, f.node, f.message) for f in check.late(10)}
    assert late == {("validity", A, message), ("agreement", P, message)}
    assert (check.overdue, check.late(10)) == (2, [])
    check.feed(A, [(1, "deliver", message, 0)])
    check.feed(P, [(0, "crash", None, None)])
    check.settle()
    assert [(f.guarantee, f.node) for f in check.caught_up()] == [("validity", A)]
    assert check.overdue == 1, "P may come back and is still told to lack it"
    check.feed(P, [(1, "recover", None, None), (2, "deliver", message, 0)])
    check.settle()
    assert [(f.guarantee, f.node) for f in check.caught_up()] == [("agreement", P)]
    assert (check.overdue, len(check.in_flight)) == (0, 0)


def test_what_only_a_crashed_node_delivered_is_owed_to_nobody() -> None:
    check = three_nodes()
    message = message_id(A, 1)
    check.feed(
        A, [(0, "publish", message, 0), (1, "deliver", message, 0), (2, "crash", None, None)]
    )
    check.settle()
    assert check.late(0) == []


@pytest.mark.parametrize(("limit", "value"), [("MOST_IN_FLIGHT", 10), ("MOST_HAD", 20)])
def test_a_silent_node_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    """P was killed and cannot say so; when it comes back, what it delivers raises no alarm."""
    monkeypatch.setattr(live_check, limit, value)
    check = three_nodes()
    for number in range(1, 101):
        message = message_id(A, number)
        rows = [(2 * number - 2, "publish", message, 0), (2 * number - 1, "deliver", message, 0)]
        check.feed(A, rows)
        check.feed(B, [(number - 1, "deliver", message, 0)])
        assert check.settle() == []
        assert len(check.in_flight) <= 10
    assert check.struck_off == {P}
    rows = [(n - 1, "deliver", message_id(A, n), 0) for n in range(1, 101)]
    check.feed(P, rows)
    assert check.settle() == []
    assert check.unchecked >= 90
    assert (len(check.in_flight), check.rows_waiting(), check.overdue) == (0, 0, 0)


def test_rows_do_not_wait_for_ever_for_a_log_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """B delivers a message of A, whose log comes much later; nothing is wrong in the end."""
    monkeypatch.setattr(live_check, "MOST_ROWS_WAITING", 10)
    check = three_nodes()
    check.feed(B, [(0, "deliver", message_id(A, 1), 0)])
    for number in range(1, 31):
        rows = [("publish", message_id(B, number)), ("deliver", message_id(B, number))]
        check.feed(B, [(2 * number - 1 + i, kind, m, 0) for i, (kind, m) in enumerate(rows)])
        assert check.settle() == []
    assert (check.unchecked, check.rows_waiting()) == (1, 0)
    check.feed(A, [(0, "publish", message_id(A, 1), 0), (1, "deliver", message_id(A, 1), 0)])
    assert check.settle() == []
    assert {f.node for f in check.late(0) if f.message == message_id(A, 1)} == {P}


def test_a_gap_that_never_closes_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_check, "MOST_ROWS_WAITING", 10)
    check = three_nodes()
    check.feed(A, [(pos, "crash", None, None) for pos in range(1, 13)])
    with pytest.raises(TraceError, match="node 0 has a gap at pos 0"):
        check.settle()


def test_who_was_stopped_and_started_again_is_a_member() -> None:
    """What it was handed over then is no creation, whether others remember it or not."""
    check = LiveCheck({0: {A, B}})
    first, second, third = (message_id(A, number) for number in (1, 2, 3))
    check.feed(A, [(0, "publish", first, 0), (1, "deliver", first, 0)])
    check.feed(B, [(0, "deliver", first, 0), (1, "leave", None, None)])
    check.feed(A, [(2, "publish", second, 0), (3, "deliver", second, 0)])
    assert check.settle() == []
    check.feed(B, [(2, "recover", None, None), (3, "deliver", second, 0)])
    check.feed(A, [(4, "publish", third, 0), (5, "deliver", third, 0)])
    check.feed(B, [(4, "deliver", third, 0)])
    assert check.settle() == []
    check.feed(B, [(5, "deliver", third, 0), (6, "leave", None, 0)])
    fourth = message_id(A, 4)
    check.feed(A, [(6, "publish", fourth, 0)])
    check.feed(B, [(7, "deliver", fourth, 0)])
    assert {found.kind for found in check.settle()} == {"not_a_member"}
