"""Late and departed members: where shortened lists of causes would go wrong."""

from causalcast.judge import judge
from causalcast.pipeline.check.check_run import check_run
from causalcast.testing.comparison import differences
from causalcast.testing.draft_run import DraftRun, message_id

A, P = 0, 1
G, H = 0, 1
Z, X, M = (message_id(A, number) for number in (1, 2, 3))


def broken(draft: DraftRun) -> list[str]:
    """What both checkers say; they must agree."""
    run = draft.run()
    judgement = judge(run)
    assert differences(run, judgement, check_run(run).findings) == []
    return judgement.all_broken()


def three_messages() -> DraftRun:
    """A publishes z to h, then x and m to g; P is a founder of h."""
    draft = DraftRun()
    draft.found(G, A)
    draft.found(H, A, P)
    for message, group in ((Z, H), (X, G), (M, G)):
        draft.add(A, "publish", message, group)
        draft.add(A, "deliver", message, group)
    return draft


def test_the_cause_behind_an_excused_one_still_counts() -> None:
    """P joins g after x and is excused from x, but z, which x requires, was owed all along."""
    draft = three_messages()
    draft.join(P, G)
    draft.add(P, "deliver", M, G)
    draft.add(P, "deliver", Z, H)
    assert broken(draft) == ["fifo_order", "causal_order"]


def test_who_left_is_no_longer_owed_the_cause() -> None:
    draft = three_messages()
    draft.join(P, G)
    draft.leave(P, H)
    draft.add(P, "deliver", M, G)
    assert broken(draft) == []


def test_a_repeat_is_not_judged_anew() -> None:
    """P delivers x before it belongs to h, and again after a restart, when it does."""
    draft = DraftRun()
    draft.header.redelivery = "after_recover"
    draft.found(G, A, P)
    draft.found(H, A)
    draft.add(A, "publish", Z, H)
    draft.add(A, "deliver", Z, H)
    draft.add(A, "publish", X, G)
    draft.add(A, "deliver", X, G)
    draft.add(P, "deliver", X, G)
    draft.join(P, H)
    draft.add(P, "crash")
    draft.add(P, "recover")
    draft.add(P, "deliver", X, G)
    draft.add(P, "deliver", Z, H)
    assert broken(draft) == []


def test_a_silent_member_breaks_agreement() -> None:
    """A node without a single row is up, a member, and has delivered nothing."""
    draft = DraftRun()
    draft.found(G, A, P)
    draft.add(A, "publish", Z, G)
    draft.add(A, "deliver", Z, G)
    assert draft.logs[P] == []
    assert broken(draft) == ["agreement"]


def test_a_join_in_the_very_first_row_makes_late() -> None:
    draft = DraftRun()
    draft.found(G, A)
    draft.add(A, "publish", Z, G)
    draft.add(A, "deliver", Z, G)
    draft.add(A, "publish", X, G)
    draft.add(A, "deliver", X, G)
    draft.join(P, G)
    draft.add(P, "deliver", X, G)
    assert broken(draft) == []
