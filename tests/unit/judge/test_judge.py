"""The judge on runs small enough to judge by eye; expected violations are written by hand."""

import pytest

from causalcast.errors import TraceError
from causalcast.judge import judge
from causalcast.testing.draft_run import DraftRun, message_id

A, B, P, STRANGER = 0, 1, 2, 9
X, Y = 0, 1
QUESTION, ANSWER = message_id(A, 1), message_id(B, 1)


def question_and_answer() -> DraftRun:
    """A publishes a question, B answers it after reading; everybody delivers both."""
    draft = DraftRun()
    draft.found(X, A, B, P)
    draft.add(A, "publish", QUESTION, X)
    draft.add(A, "deliver", QUESTION, X)
    draft.add(B, "deliver", QUESTION, X)
    draft.add(B, "publish", ANSWER, X)
    draft.add(B, "deliver", ANSWER, X)
    draft.add(A, "deliver", ANSWER, X)
    draft.add(P, "deliver", QUESTION, X)
    draft.add(P, "deliver", ANSWER, X)
    return draft


def test_a_correct_run_is_correct() -> None:
    assert judge(question_and_answer().run()).all_broken() == []


def test_an_answer_before_its_question_is_an_inversion_with_its_chain() -> None:
    draft = question_and_answer()
    draft.logs[P].reverse()
    judgement = judge(draft.run())
    assert judgement.all_broken() == ["causal_order"]
    [violation] = judgement.violations["causal_order"]
    assert (violation.node, violation.pos, violation.kind) == (P, 0, "inversion")
    assert violation.chain == (QUESTION, ANSWER)


def test_an_answer_without_its_question_is_a_gap_and_breaks_agreement() -> None:
    draft = question_and_answer()
    del draft.logs[P][0]
    judgement = judge(draft.run())
    assert judgement.all_broken() == ["agreement", "causal_order"]
    assert judgement.violations["causal_order"][0].kind == "gap"
    assert judgement.blamed("agreement") == {P}


def test_a_crash_excuses_what_is_missing_but_not_the_order() -> None:
    draft = question_and_answer()
    draft.logs[P].pop()
    draft.add(P, "crash")
    assert judge(draft.run()).all_broken() == []
    draft.logs[P][0].message = ANSWER
    assert judge(draft.run()).all_broken() == ["causal_order"]


def test_missing_at_the_end_is_pending_in_an_incomplete_run() -> None:
    draft = question_and_answer()
    draft.logs[P].pop()
    assert judge(draft.run()).all_broken() == ["agreement"]
    draft.header.complete = False
    judgement = judge(draft.run())
    assert judgement.all_broken() == []
    assert judgement.blamed("agreement") == {P}


def test_agreement_after_recovery_is_owed_once_nobody_is_down() -> None:
    draft = question_and_answer()
    draft.header.guarantees = ["agreement_after_recovery"]
    draft.logs[P].pop()
    draft.add(A, "crash")
    assert judge(draft.run()).all_broken() == []
    draft.add(A, "recover")
    assert judge(draft.run()).all_broken() == ["agreement"]


@pytest.mark.parametrize(
    ("message", "group", "kind"),
    [(message_id(A, 9), X, "unpublished"), (QUESTION, Y, "wrong_group")],
)
def test_what_was_not_published_there_is_created(message: int, group: int, kind: str) -> None:
    draft = question_and_answer()
    draft.logs[P][0].message, draft.logs[P][0].group = message, group
    found = judge(draft.run()).violations["no_creation"]
    assert [(v.node, v.pos, v.kind) for v in found] == [(P, 0, kind)]


def test_a_stranger_may_not_deliver() -> None:
    draft = question_and_answer()
    draft.add(STRANGER, "deliver", QUESTION, X)
    found = judge(draft.run()).violations["no_creation"]
    assert [(v.node, v.kind) for v in found] == [(STRANGER, "not_a_member")]


def test_who_left_may_not_deliver_and_is_owed_nothing() -> None:
    draft = question_and_answer()
    answer_row = draft.logs[P].pop()
    draft.leave(P, X)
    assert judge(draft.run()).all_broken() == []
    draft.logs[P].append(answer_row)
    found = judge(draft.run()).violations["no_creation"]
    assert [(v.node, v.pos, v.kind) for v in found] == [(P, 2, "not_a_member")]


def test_own_messages_are_delivered_after_they_are_published() -> None:
    draft = question_and_answer()
    draft.logs[A][0], draft.logs[A][1] = draft.logs[A][1], draft.logs[A][0]
    found = judge(draft.run()).violations["no_creation"]
    assert [(v.node, v.kind) for v in found] == [(A, "before_publish")]


def test_two_messages_that_precede_each_other_are_a_cycle() -> None:
    """A delivers B's answer before publishing the question that B answers."""
    draft = question_and_answer()
    draft.logs[A].insert(0, draft.logs[A].pop())
    judgement = judge(draft.run())
    found = judgement.violations["no_creation"]
    assert [(v.node, v.kind) for v in found] == [(A, "cycle"), (B, "cycle")]
    assert judgement.all_broken() == ["no_creation"]


def test_a_repeat_is_excused_only_after_a_recovery_and_only_where_announced() -> None:
    draft = question_and_answer()
    draft.add(P, "crash")
    draft.add(P, "recover")
    draft.add(P, "deliver", QUESTION, X)
    assert judge(draft.run()).all_broken() == ["no_duplication"]
    draft.header.redelivery = "after_recover"
    assert judge(draft.run()).all_broken() == []
    draft.add(P, "deliver", QUESTION, X)
    assert judge(draft.run()).all_broken() == ["no_duplication"]


def test_a_member_delivers_what_it_publishes() -> None:
    draft = question_and_answer()
    del draft.logs[A][1]
    assert judge(draft.run()).all_broken() == ["validity"]


def test_a_publisher_from_outside_delivers_nothing() -> None:
    draft = DraftRun()
    draft.found(X, P)
    draft.add(A, "publish", QUESTION, X)
    draft.add(P, "deliver", QUESTION, X)
    assert judge(draft.run()).all_broken() == []


def test_fifo_order_spans_the_groups_of_an_origin() -> None:
    draft = DraftRun()
    draft.found(X, P)
    draft.found(Y, P)
    draft.add(A, "publish", message_id(A, 1), X)
    draft.add(A, "publish", message_id(A, 2), Y)
    draft.add(P, "deliver", message_id(A, 2), Y)
    draft.add(P, "deliver", message_id(A, 1), X)
    assert judge(draft.run()).all_broken() == ["fifo_order", "causal_order"]


def test_a_late_member_is_owed_what_follows_its_first_message() -> None:
    draft = DraftRun()
    draft.found(X, A)
    for number in range(1, 5):
        draft.add(A, "publish", message_id(A, number), X)
        draft.add(A, "deliver", message_id(A, number), X)
    draft.join(P, X)
    draft.add(P, "deliver", message_id(A, 2), X)
    draft.add(P, "deliver", message_id(A, 4), X)
    judgement = judge(draft.run())
    assert [v.cause for v in judgement.violations["causal_order"]] == [message_id(A, 3)]
    assert [v.message for v in judgement.violations["agreement"]] == [message_id(A, 3)]


def test_a_late_member_is_owed_what_follows_its_own_rows() -> None:
    """P joins and speaks; A hears it and answers twice; P delivers the second answer only."""
    draft = DraftRun()
    draft.found(X, A)
    draft.join(P, X)
    hello = message_id(P, 1)
    draft.add(P, "publish", hello, X)
    draft.add(P, "deliver", hello, X)
    draft.add(A, "deliver", hello, X)
    for number in (1, 2):
        draft.add(A, "publish", message_id(A, number), X)
        draft.add(A, "deliver", message_id(A, number), X)
    draft.add(P, "deliver", message_id(A, 2), X)
    assert judge(draft.run()).all_broken() == ["agreement", "fifo_order", "causal_order"]


def test_it_refuses_a_log_with_a_gap() -> None:
    run = question_and_answer().run()
    run.events = run.events.slice(1)
    with pytest.raises(TraceError, match="node 0 has a gap"):
        judge(run)
