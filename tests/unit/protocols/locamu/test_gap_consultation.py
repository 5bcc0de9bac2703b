"""Questions around a gap: what is asked, what is left out, and which answer belongs to which."""

from causalcast.core import NodeId, Outbox
from causalcast.core.topology import Topology
from causalcast.parts.tree.neighbourhood import Neighbourhood, Pair
from causalcast.protocols.locamu.gap_consultation import Answer, Ask, GapConsultation, Inquiry
from causalcast.protocols.locamu.local_past import NumberSet
from causalcast.protocols.locamu.safe_path import Numbers

# 0 - 1 - 3 - 4, and 5 beside 3: a copy from 1 to 4 jumps over 3, so 5 is asked.
TREE = {0: [1], 1: [0, 3], 3: [1, 4, 5], 4: [3], 5: [3]}
SUSPECTED: dict[NodeId, None] = {NodeId(3): None}


def consultation(me: int, first_question: int = 7) -> GapConsultation:
    tree = Topology({NodeId(n): [NodeId(peer) for peer in peers] for n, peers in TREE.items()})
    return GapConsultation(Neighbourhood(NodeId(me), tree), 3, first_question)


def pairs(needs: dict[tuple[int, int], int]) -> dict[Pair, int]:
    return {(NodeId(a), NodeId(b)): number for (a, b), number in needs.items()}


def rows(numbers: dict[int, dict[int, int]]) -> Numbers:
    return {
        NodeId(issuer): {NodeId(node): number for node, number in row.items()}
        for issuer, row in numbers.items()
    }


def asked_by_4(
    needs: dict[tuple[int, int], int], numbers: dict[int, dict[int, int]]
) -> tuple[bool, list[Ask]]:
    out = Outbox()
    settled = consultation(4).consult(
        NodeId(1), pairs(needs), rows(numbers), Inquiry(), SUSPECTED, out
    )
    return settled, [effect.message for effect in out.effects]  # type: ignore[attr-defined]


def answers_of_5(
    ask: Ask, arrived: list[int], kept: list[dict[int, dict[int, int]]]
) -> list[Answer]:
    out = Outbox()
    mine = NumberSet()
    for number in arrived:
        mine.add(number)
    asked = consultation(5)
    asked.on_ask(NodeId(4), ask)
    asked.answer_questions({NodeId(0): mine}, {}, lambda: [rows(one) for one in kept], out)
    return [effect.message for effect in out.effects]  # type: ignore[attr-defined]


def test_nobody_is_asked_about_the_message_itself() -> None:
    settled, asked = asked_by_4({(0, 5): 1}, {0: {4: 1, 5: 1}, 1: {4: 1, 5: 1}})
    assert settled and asked == []


def test_what_came_before_it_is_asked_about() -> None:
    settled, asked = asked_by_4({(0, 5): 3}, {0: {4: 3, 5: 3}})
    assert not settled
    assert [(ask.counts, ask.own) for ask in asked] == [({0: 2}, {})]


def test_what_came_after_it_is_asked_about_without_it() -> None:
    _, asked = asked_by_4({(0, 5): 3}, {0: {4: 2, 5: 2}})
    assert [(ask.counts, ask.own) for ask in asked] == [({0: 3}, {0: 2})]


def test_the_message_itself_is_not_waited_for_and_not_mentioned() -> None:
    kept = [{0: {5: 1}, 5: {4: 1}}, {0: {5: 2}, 5: {4: 2}}]
    ask = Ask(1, {NodeId(0): 3}, {NodeId(0): 2})
    assert answers_of_5(ask, [1], kept) == []
    (answer,) = answers_of_5(ask, [1, 3], kept[:1])
    assert answer.row == {4: 1}
    (answer,) = answers_of_5(ask, [1, 2, 3], kept)
    assert answer.row == {4: 1}


def test_an_answer_to_another_question_is_none() -> None:
    out, inquiry = Outbox(), Inquiry()
    now = consultation(4, 100)
    needs, numbers = pairs({(0, 5): 3}), rows({0: {4: 3, 5: 3}})
    assert not now.consult(NodeId(1), needs, numbers, inquiry, SUSPECTED, out)
    assert now.on_answer(NodeId(5), Answer(7, {})) is None
    assert now.on_answer(NodeId(0), Answer(100, {})) is None
    assert now.on_answer(NodeId(5), Answer(100, {})) is inquiry
    assert now.on_answer(NodeId(5), Answer(100, {})) is None
