"""Three traces that a published checker gets wrong; ours must not.

It is kept in `causalcast.testing.algorithm_16`, as printed, and in a form adapted to groups.

Algorithm 16 of P. Dias, "Tree-based Decentralized and Robust Causal Dissemination", 2020, remembers
what an origin delivered since its previous broadcast and trusts every node to have everything. It
misses what was published but not delivered, and what runs through other groups.
"""

import pytest

from causalcast.judge import judge
from causalcast.pipeline.check.check_run import check_run
from causalcast.testing.algorithm_16 import (
    deliveries_of,
    says_in_order,
    says_in_order_for_members,
)
from causalcast.testing.draft_run import DraftRun, message_id

A, P = 0, 1
X, Y = 0, 1


def published_but_not_delivered() -> DraftRun:
    draft = DraftRun()
    draft.found(X, A, P)
    draft.add(A, "publish", message_id(A, 1), X)
    draft.add(A, "deliver", message_id(A, 1), X)
    draft.add(A, "publish", message_id(A, 2), X)
    draft.add(A, "crash")
    draft.add(P, "deliver", message_id(A, 2), X)
    draft.add(P, "deliver", message_id(A, 1), X)
    return draft


def through_another_group(*order_at_p: int) -> DraftRun:
    draft = DraftRun()
    draft.found(X, A, P)
    draft.found(Y, A)
    for number, group in ((1, X), (2, Y), (3, X)):
        draft.add(A, "publish", message_id(A, number), group)
        draft.add(A, "deliver", message_id(A, number), group)
    for number in order_at_p:
        draft.add(P, "deliver", message_id(A, number), X)
    return draft


@pytest.mark.parametrize(
    ("draft", "cause"),
    [
        (published_but_not_delivered(), message_id(A, 1)),
        (through_another_group(3, 1), message_id(A, 1)),
        (through_another_group(1, 3), None),
    ],
    ids=["published, not delivered", "cut at another group", "no false alarm"],
)
def test_ours_is_right(draft: DraftRun, cause: int | None) -> None:
    by_judge = [v.cause for v in judge(draft.run()).violations["causal_order"]]
    found = check_run(draft.run()).findings
    by_kernels = [f.cause for f in found if f.guarantee == "causal_order"]
    assert by_judge == by_kernels == ([] if cause is None else [cause])


@pytest.mark.parametrize(
    ("draft", "as_printed", "adapted"),
    [
        (published_but_not_delivered(), True, True),  # violated, and both miss it
        (through_another_group(3, 1), False, True),  # violated; the printed one blames another pair
        (through_another_group(1, 3), False, True),  # in order, and the printed one raises alarm
    ],
    ids=["published, not delivered", "cut at another group", "a false alarm"],
)
def test_the_published_one_is_not(draft: DraftRun, as_printed: bool, adapted: bool) -> None:
    run = draft.run()
    assert says_in_order(deliveries_of(run)) is as_printed
    assert says_in_order_for_members(deliveries_of(run), run) is adapted


def test_the_published_one_sees_what_it_was_made_for() -> None:
    """One group, everything delivered by everybody: then it is right."""
    draft = DraftRun()
    draft.found(X, A, P)
    for number in (1, 2):
        draft.add(A, "publish", message_id(A, number), X)
        draft.add(A, "deliver", message_id(A, number), X)
    for number in (1, 2):
        draft.add(P, "deliver", message_id(A, number), X)
    assert says_in_order(deliveries_of(draft.run()))
    draft.logs[P].reverse()
    assert not says_in_order(deliveries_of(draft.run()))
