"""Asks around a gap before a message that jumped over it is processed (sub-automaton).

With f ≥ 2 a copy can jump over two nodes in a row, and numbers no longer tell the whole story: a
cause of it may have gone to a side branch of the skipped nodes, which would have numbered it for us
but is not on our way. So the receiver of a jump asks the live nodes next to the gap: of what the
message says you know, what did you number for whom? It waits until they know it, and answer.

The message itself is left out: a relay on its way may know which number it has for the node that is
asked, and two receivers of one message that ask each other would wait for each other for ever.

An answer must not be taken for one to another question. So the numbers of questions are never used
again, not by a later life of the node either: each life begins at a number that was drawn.
"""

from collections.abc import Callable
from typing import Final

from causalcast.core.ids import NodeId
from causalcast.core.message import Message, Wire
from causalcast.core.outbox import Outbox
from causalcast.limits import Limit
from causalcast.parts.tree.neighbourhood import Neighbourhood, Pair
from causalcast.protocols.locamu.local_past import NumberSet
from causalcast.protocols.locamu.safe_path import Numbers

Row = dict[NodeId, int]  # whom -> the greatest number given


class Ask(Message):
    """Ask a node next to a gap what it numbered of the messages that had numbers for it up to
    these; it answers once it has them. The message that jumped has the numbers `own`, and is none
    of them."""

    wire = Wire(
        "gap_consultation.ask", question=int, counts=dict[NodeId, int], own=dict[NodeId, int]
    )

    def __init__(self, question: int, counts: dict[NodeId, int], own: dict[NodeId, int]) -> None:
        self.question = question
        self.counts = counts
        self.own = own


class Answer(Message):
    """Answer a question: the greatest number given to each node."""

    wire = Wire("gap_consultation.answer", question=int, row=dict[NodeId, int])

    def __init__(self, question: int, row: Row) -> None:
        self.question = question
        self.row = row


MESSAGES: Final[list[type[Message]]] = [Ask, Answer]
# Two lives that ask a million questions each have one in common in one of a hundred million cases.
QUESTIONS: Final = 1 << 48
MOST_DOUBLINGS: Final = Limit(
    "protocols.locamu.gap_consultation.most_doublings",
    3,
    least=0,
    most=16,
    unit="times",
    about="how often the time until a question is repeated doubles",
)


class Inquiry:
    """What is asked about one copy that jumped, and what was answered."""

    def __init__(self) -> None:
        self.key: Pair | None = None  # of the copy, where it is held
        self.seen: dict[NodeId, None] = {}  # asked, or not worth asking
        self.questions: dict[NodeId, int] = {}  # asked, not answered
        self.answers: dict[NodeId, Row] = {}


class Question:
    """A question that was asked, of whom, about what, and when it is asked again."""

    def __init__(self, node: NodeId, ask: Ask, inquiry: Inquiry, at: int) -> None:
        self.node = node
        self.ask = ask
        self.inquiry = inquiry
        self.asked_at = at
        self.tries = 0


class GapConsultation:
    """Questions this node asked, and questions it could not answer yet."""

    def __init__(self, around: Neighbourhood, reach: int, first_question: int) -> None:
        """`first_question` is drawn for each life of the node, out of `QUESTIONS`."""
        self.me = around.me
        self.around = around
        self.reach = reach
        self.asked: dict[int, Question] = {}
        self.unanswered: dict[tuple[NodeId, int], Ask] = {}
        self._next_question = first_question

    def consult(
        self,
        source: NodeId,
        needs: dict[Pair, int],
        numbers: Numbers,
        inquiry: Inquiry,
        suspected: dict[NodeId, None],
        out: Outbox,
    ) -> bool:
        """Ask those around the gap that were not asked yet; True if everybody has answered."""
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
                self._ask(node, needs, numbers, inquiry, out)
        return not inquiry.questions

    def _ask(
        self,
        node: NodeId,
        needs: dict[Pair, int],
        numbers: Numbers,
        inquiry: Inquiry,
        out: Outbox,
    ) -> None:
        counts: dict[NodeId, int] = {}
        own: dict[NodeId, int] = {}
        for (issuer, to), count in needs.items():
            if to != node:
                continue
            its_own = numbers[issuer].get(node, 0) if issuer in numbers else 0
            if its_own < count:
                counts[issuer] = count
                if its_own > 0:
                    own[issuer] = its_own
            elif count > 1:
                counts[issuer] = count - 1
        if counts:
            ask = Ask(self._next_question, counts, own)
            self._next_question += 1
            inquiry.questions[node] = ask.question
            self.asked[ask.question] = Question(node, ask, inquiry, out.now)
            out.send(node, ask)

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
        """Forget the questions about a copy that waits no longer."""
        for question in inquiry.questions.values():
            self.asked.pop(question, None)
        inquiry.questions = {}

    def on_answer(self, sender: NodeId, answer: Answer) -> Inquiry | None:
        """Take an answer; returns the inquiry it belongs to, if somebody waits for it."""
        # Not in the paper: it overlooks that numbers do not tell enough where f is 2 or more.
        asked = self.asked.get(answer.question)
        if asked is None or asked.node != sender:
            return None
        del self.asked[answer.question]
        inquiry = asked.inquiry
        inquiry.questions.pop(sender)
        inquiry.answers[sender] = answer.row
        return inquiry

    def repeat(self, repeat_after: int, out: Outbox) -> None:
        """Ask again what was not answered, less and less often."""
        for question in self.asked.values():
            wait = repeat_after << min(question.tries, MOST_DOUBLINGS.value)
            if out.now - question.asked_at >= wait:
                question.tries += 1
                question.asked_at = out.now
                out.send(question.node, question.ask)

    def on_neighbour_up(self, peer: NodeId, out: Outbox) -> None:
        """It may have fallen, and asks again what it still wants to know. What was asked of it may
        be lost."""
        # Not in the paper, as all questions around a gap.
        for key in [key for key in self.unanswered if key[0] == peer]:
            del self.unanswered[key]
        for question in self.asked.values():
            if question.node == peer:
                question.tries = 0
                question.asked_at = out.now
                out.send(peer, question.ask)

    def on_ask(self, sender: NodeId, ask: Ask) -> None:
        """Keep a question; `answer_questions` answers it when it can."""
        # Not in the paper, as all questions around a gap.
        self.unanswered[sender, ask.question] = ask

    def answer_questions(
        self,
        mine: dict[NodeId, NumberSet],
        given_up: dict[NodeId, None],
        kept: Callable[[], list[Numbers]],
        out: Outbox,
    ) -> None:
        """Answer what can be answered; what came from nodes that are given up is not waited for. Of
        a message that is kept no longer every target has what it needs, so it is not mentioned."""
        known: list[Numbers] | None = None
        for (node, question), ask in list(self.unanswered.items()):
            if any(
                issuer not in mine or mine[issuer].first_missing(count, ask.own.get(issuer, 0)) > 0
                for issuer, count in ask.counts.items()
                if issuer not in given_up
            ):
                continue
            if known is None:
                known = kept()
            del self.unanswered[node, question]
            out.send(node, Answer(question, self._row(ask, known)))

    def _row(self, ask: Ask, kept: list[Numbers]) -> Row:
        row: Row = {}
        for numbers in kept:
            for issuer, count in ask.counts.items():
                number = numbers[issuer].get(self.me, 0) if issuer in numbers else 0
                if 0 < number <= count and number != ask.own.get(issuer, 0):
                    for node, number in numbers[self.me].items():
                        row[node] = max(row.get(node, 0), number)
                    break
        return row
