"""Asks around a gap before a message that jumped over it is processed (sub-automaton).

With f ≥ 2 a copy can jump over two nodes in a row, and numbers no longer tell the whole story: a
cause of it may have gone to a side branch of the skipped nodes, which would have numbered it for us
but is not on our way. So the receiver of a jump asks the live nodes next to the gap: of what the
message says you know, what did you number for whom? It waits until they know it, and answer.
"""

from typing import Final

from causalcast.core.ids import NodeId
from causalcast.core.message import Message, Wire
from causalcast.core.outbox import Outbox
from causalcast.parts.neighbourhood import Neighbourhood, Pair
from causalcast.parts.number_set import NumberSet
from causalcast.parts.safe_path import Numbers

Row = dict[NodeId, int]  # whom -> the greatest number given


class Ask(Message):
    """Ask a node next to a gap what it numbered of the messages that had these numbers for it; it
    answers once it has them."""

    wire = Wire("gap_consultation.ask", question=int, counts=dict[NodeId, int])

    def __init__(self, question: int, counts: dict[NodeId, int]) -> None:
        self.question = question
        self.counts = counts


class Answer(Message):
    """Answer a question: the greatest number given to each node."""

    wire = Wire("gap_consultation.answer", question=int, row=dict[NodeId, int])

    def __init__(self, question: int, row: Row) -> None:
        self.question = question
        self.row = row


MESSAGES: Final[list[type[Message]]] = [Ask, Answer]


class Inquiry:
    """What is asked about one copy that jumped, and what was answered."""

    def __init__(self) -> None:
        self.seen: dict[NodeId, None] = {}  # asked, or not worth asking
        self.questions: dict[NodeId, int] = {}  # asked, not answered
        self.answers: dict[NodeId, Row] = {}


class GapConsultation:
    """Questions this node asked, and questions it could not answer yet."""

    def __init__(self, around: Neighbourhood, reach: int) -> None:
        self.me = around.me
        self.around = around
        self.reach = reach
        self.asked: dict[int, tuple[NodeId, dict[NodeId, int], Inquiry]] = {}
        self.unanswered: list[tuple[NodeId, Ask]] = []
        self._count = 0

    def is_settled(
        self,
        source: NodeId,
        needs: dict[Pair, int],
        inquiry: Inquiry,
        suspected: dict[NodeId, None],
        out: Outbox,
    ) -> bool:
        """Whether everybody around the gap has answered; asks whom was not asked yet."""
        if self.around.distance(source, self.me) == 1:
            return True
        beside = self.beside_gap(source, suspected)
        if beside is None:
            out.note("gap_consultation.too_large", source)
            return False
        for node in list(inquiry.questions):
            if node not in beside:
                self.asked.pop(inquiry.questions.pop(node))
                del inquiry.seen[node]
        for node in beside:
            if node not in inquiry.seen:
                inquiry.seen[node] = None
                counts = {issuer: count for (issuer, to), count in needs.items() if to == node}
                if counts:
                    self._ask(node, counts, inquiry, out)
        return not inquiry.questions

    def _ask(self, node: NodeId, counts: dict[NodeId, int], inquiry: Inquiry, out: Outbox) -> None:
        self._count += 1
        inquiry.questions[node] = self._count
        self.asked[self._count] = (node, counts, inquiry)
        out.send(node, Ask(self._count, counts))

    def beside_gap(
        self, source: NodeId, suspected: dict[NodeId, None]
    ) -> dict[NodeId, None] | None:
        """The live nodes next to those that the way from `source` skips; None if the gap is so
        large that they cannot be reached."""
        way = self.around.way(source, self.me)
        todo = way[1:-1]
        seen = dict.fromkeys(way)
        beside: dict[NodeId, None] = {}
        while todo:
            for node in self.around.around(todo.pop(0)):
                if node in seen:
                    continue
                seen[node] = None
                if node not in suspected:
                    beside[node] = None
                elif self.around.distance(node, self.me) >= self.reach:
                    return None
                else:
                    todo.append(node)
        return beside

    def drop(self, inquiry: Inquiry) -> None:
        """The copy is gone: no answer about it is awaited."""
        for question in inquiry.questions.values():
            self.asked.pop(question, None)
        inquiry.questions = {}

    def on_answer(self, sender: NodeId, answer: Answer) -> Inquiry | None:
        """Take an answer; the inquiry it belongs to comes back, if somebody waits for it."""
        asked = self.asked.get(answer.question)
        if asked is None or asked[0] != sender:
            return None
        del self.asked[answer.question]
        inquiry = asked[2]
        inquiry.questions.pop(sender)
        inquiry.answers[sender] = answer.row
        return inquiry

    def repeat(self, out: Outbox) -> None:
        """Ask again what was not answered."""
        for question, (node, counts, _) in self.asked.items():
            out.send(node, Ask(question, counts))

    def on_ask(self, sender: NodeId, ask: Ask) -> None:
        """Keep a question; `answer_questions` answers it when it can."""
        self.forget_question(sender, ask.question)
        self.unanswered.append((sender, ask))

    def forget_question(self, sender: NodeId, question: int) -> None:
        """Drop an earlier copy of a question."""
        self.unanswered = [
            (node, ask)
            for node, ask in self.unanswered
            if node != sender or ask.question != question
        ]

    def answer_questions(
        self,
        mine: dict[NodeId, NumberSet],
        given_up: dict[NodeId, None],
        kept: list[Numbers],
        out: Outbox,
    ) -> None:
        """Answer what can be answered; what came from nodes that are given up is not waited for. Of
        a message that is kept no longer every target has what it needs, so it is not mentioned."""
        still: list[tuple[NodeId, Ask]] = []
        for node, ask in self.unanswered:
            if any(
                issuer not in mine or mine[issuer].count < count
                for issuer, count in ask.counts.items()
                if issuer not in given_up
            ):
                still.append((node, ask))
            else:
                out.send(node, Answer(ask.question, self._row(ask.counts, kept)))
        self.unanswered = still

    def _row(self, counts: dict[NodeId, int], kept: list[Numbers]) -> Row:
        row: Row = {}
        for numbers in kept:
            for issuer, count in counts.items():
                if issuer in numbers and 0 < numbers[issuer].get(self.me, 0) <= count:
                    for node, number in numbers[self.me].items():
                        row[node] = max(row.get(node, 0), number)
                    break
        return row
