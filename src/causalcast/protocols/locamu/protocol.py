"""LoCaMu: localized fault-tolerant causal multicast over a tree.

V. Santos, "Localized Reliable Causal Multicast", extended abstract of a dissertation, 2019: Alg. 1,
and sections with Roman numbers. V. Santos, L. Rodrigues, "Difusão em Grupo Tolerante a Faltas com
Ordem Causal Usando Informação Localizada", 2019: sections with Arabic numbers.

The overlay is a tree. A node knows the tree only within 2f+1 hops and keeps links to everybody
within f+1, so up to f neighbours in a row can be skipped. Each node a message passes gives it a
number for every node within f+1 hops that it may go to next. From these numbers follows everything:

- A message depends on all numbers its sender had heard of; its receiver processes it once it has
  those that were addressed to itself.
- Copies that came along different ways are recognised by any number they share. A copy leaves only
  with enough of them (`safe_path`), and when a node learns more numbers of a message, it
  passes them on.
- Who numbered a message for a node keeps it until that node has it and knows all its numbers. So
  nothing is lost with a crash, and a node that was away is brought up to date by its neighbours.

No structure depends on the number of nodes, and the publication's global id is never looked at; it
is carried for the trace only.

What is promised: creation, duplication and disorder never happen, whatever crashes or is suspected.
Every member delivers everything once all who crashed are back. While a node is down, the messages
that depend on a number it gave out, and that nobody else can vouch for, wait for it; the papers
promise more and cannot keep it. If it never comes back, an operator can declare it gone
(`standing_in`): order is kept, and only what it published may be missing.

Where we differ from the papers, and why
- Dependencies are frozen before the message is numbered, so a message never waits for its own
  numbers. With the order printed in the paper no message is ever delivered.
- A copy needs the numbers of f+1 of the last 2f+1 nodes, or the publisher's: with f, two copies
  need not share one; without the exemption nothing leaves the publisher.
- Numbers received are kept as a set, not as a maximum: a maximum skips gaps, and the message in the
  gap is never asked for.
- What is merged from a duplicate is sent on, and a message is forgotten only when its numbers are
  complete here and at every target: else a late copy is taken for a new message.
- Columns of the past are kept for nodes within f+1 hops only; the rest is never used.
- Missing numbers are asked for (`Want`), over whatever link there is: for f ≥ 2 two messages can
  otherwise wait for each other. A node that is told of a number it lacks (`Probe`) asks as well.
- For f ≥ 2 the receiver of a copy that jumped asks around the gap (`gap_consultation`).
- Joining a group is a message to everybody; a coordinator of the group admits the new member with
  a number, the epoch, in another. A message says the epoch its publisher had heard of, and whoever
  passes it on leads it to the members of that epoch: all decide alike, and all have heard of the
  epoch before, since admissions are causally ordered too. (Leading messages to a member as soon as
  one hears of it, even with the rule "address only whom those before you addressed", breaks causal
  order when a copy jumps over a node that had not heard of it.) A node is a member when it hears
  that it was admitted, not when it asks: what others publish in answer to what it says from then
  on is led to it. Until then it publishes as anybody else who is no member, to whatever group, and
  nothing of that waits. A join is refused where the coordinator seems to be down. Who leaves a
  group goes on passing its messages, and is a member again as soon as it joins again.
- A neighbour of the publisher keeps a message until the publisher has finished with it, so that it
  can stand in for it. That costs a small message per publication, and no hop more.
- There is no greeting after a restart: a new link says the same, since no link survives a crash.
"""

from typing import Final

from causalcast.core import (
    CAUSAL_WHEN_ALL_ARE_BACK,
    MILLISECOND,
    NODE,
    Command,
    CommandForm,
    GroupId,
    LinkId,
    Message,
    MessageId,
    Multicast,
    Needs,
    NodeId,
    Option,
    Outbox,
    ProtocolSpec,
    Publication,
    Setup,
)
from causalcast.core.ids import NO_MESSAGE
from causalcast.core.spec import OptionValue
from causalcast.parts.tree.neighbourhood import Neighbourhood, Pair
from causalcast.parts.tree.safe_path import NOBODY, Numbers, SafePath
from causalcast.protocols.locamu import gap_consultation, messages
from causalcast.protocols.locamu.fault_budget import is_within_budget
from causalcast.protocols.locamu.gap_consultation import QUESTIONS, Answer, Ask, GapConsultation
from causalcast.protocols.locamu.holdback import Arrived
from causalcast.protocols.locamu.late_members import LateMembers
from causalcast.protocols.locamu.link_header import (
    MissedHeader,
    UnreadableHeader,
)
from causalcast.protocols.locamu.local_past import nested
from causalcast.protocols.locamu.message_log import Record
from causalcast.protocols.locamu.messages import (
    Ack,
    Admission,
    AskFinished,
    Copy,
    Departed,
    Finished,
    Forgotten,
    GivenUp,
    Gone,
    HandedOn,
    Kept,
    Learned,
    Noted,
    Past,
    Probe,
    StartOver,
    Subscription,
    Want,
    Wish,
    is_copy_of,
    with_header,
)
from causalcast.protocols.locamu.passing_on import MOST_DOUBLINGS, WORD
from causalcast.protocols.locamu.standing_in import StandingIn

REPEAT: Final = "repeat"
MOST_WANTED: Final = 100  # numbers asked for in one message; the rest is asked for later


class Locamu(StandingIn):
    """The past near this node, messages on their way onward, and copies that wait."""

    def __init__(self, setup: Setup, around: Neighbourhood, paths: SafePath) -> None:
        super().__init__(setup, around, paths)
        self.members = LateMembers(setup)  # survives a crash
        self.members.gone = self.departures.gone
        first_question = setup.random.randrange(QUESTIONS) if self.f > 1 else 0
        self.consultation = GapConsultation(around, self.reach, first_question)
        self._within_budget = True
        self._woken: list[Pair] = []  # held copies to look at again
        self._forgotten: list[list[int]] = []  # removals that no record has yet
        self._probed: dict[NodeId, dict[int, None]] = {}  # what others say should be here
        self._repeats = False

    # Publishing

    def on_publish(self, publication: Publication, out: Outbox) -> None:
        # Alg. 1, l. 46-48 (PUBLISH). There a publisher does not deliver its own.
        epoch = self.members.epochs.get(publication.group, 0)
        self._begin(Copy(publication, b""), epoch, out)

    def refusal(self, group: GroupId, joining: bool) -> str:
        coordinator = self.members.coordinator(group)
        if not joining or group in self.members.admitted:
            return ""
        if coordinator in self.departures.gone:
            return f"node {coordinator}, which admits its new members, was declared gone"
        if coordinator in self.suspected:
            return f"node {coordinator}, which admits its new members, seems to be down"
        return ""

    # The only command: a node is gone for good

    def objection(self, command: Command) -> str:
        return self.objection_to_losing(NodeId(command.arguments[0]))

    def preview(self, command: Command) -> list[str]:
        return self._losses_with(NodeId(command.arguments[0]))

    def on_command(self, command: Command, out: Outbox) -> None:
        # Not in the paper: there every node that failed comes back.
        self.declare_gone(NodeId(command.arguments[0]), out)

    def declare_gone(self, peer: NodeId, out: Outbox) -> None:
        is_news = peer not in self.departures.gone
        super().declare_gone(peer, out)
        if not is_news or peer not in self.departures.gone:
            return
        for group in self.members.joining:
            is_wanted = self.members.is_open(group) and group not in self.members.withdrawn
            if is_wanted and self.members.coordinator(group) == peer:
                out.note("locamu.never_admitted", peer)

    def joins_at_once(self, group: GroupId) -> bool:
        return group in self.members.admitted  # it left, and messages still lead here

    def on_join_group(self, group: GroupId, out: Outbox) -> None:
        # Section III-B: subscriptions are messages. When they take effect is not in the paper; see
        # above.
        if self.members.is_news(group):
            self._begin(Subscription(group, self.me, b""), 0, out)
            self._look_again([], out)
        elif group in self.members.withdrawn:
            self._wish(group, True, out)

    def on_leave_group(self, group: GroupId, out: Outbox) -> None:
        # Not in the paper: who leaves a group goes on passing its messages.
        if self.members.is_open(group):
            self._wish(group, False, out)

    def _wish(self, group: GroupId, wanted: bool, out: Outbox) -> None:
        self.members.wish(group, wanted)
        out.persist(Wish(group, wanted))

    def asked_for(self) -> list[GroupId]:
        return self.members.asked_for()

    def _begin(self, message: Message, epoch: int, out: Outbox) -> None:
        record = Record(message, self.me, epoch, NOBODY, {}, out.now)
        self._stamp(record)
        self._finish(record, out)

    # Processing

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> None:
        # Alg. 1 has the copy alone; the other messages are what section III-J leaves to the thesis,
        # and what we added.
        if sender not in self.extended:
            out.note("locamu.stranger", sender)
        elif sender in self.departures.gone:
            out.note("locamu.gone_spoke", sender)
        elif isinstance(message, (Copy, Subscription, Admission)):
            self._on_copy(sender, message, message.header, out)
        elif isinstance(message, Ack):
            self._on_ack(sender, message, out)
        elif isinstance(message, Probe):
            self._on_probe(sender, message, out)
        elif isinstance(message, Want):
            self._on_want(sender, message, out)
        elif isinstance(message, HandedOn):
            self._on_handed_on(sender, message, out)
        elif isinstance(message, Finished):
            self._on_finished(sender, message.to, out)
        elif isinstance(message, AskFinished):
            self._say_finished(sender, out)
        elif isinstance(message, Gone):
            self._on_gone_told(sender, message, out)
        elif isinstance(message, StartOver):
            if sender in self._writers:
                self._writers[sender].start_over()
        elif isinstance(message, Ask):
            self.consultation.on_ask(sender, message)
            self._answer_questions(out)
        elif isinstance(message, Answer):
            inquiry = self.consultation.on_answer(sender, message)
            key = None if inquiry is None else inquiry.key
            self._look_again([] if key is None else [key], out)

    def _on_copy(self, sender: NodeId, message: Message, data: bytes, out: Outbox) -> None:
        # Alg. 1, l. 31-35 (RECEIVE).
        try:
            header = self._reader(sender).read(data)
        except MissedHeader:
            out.note("locamu.header_missed", sender)
            out.send(sender, StartOver())
            return
        except UnreadableHeader:
            out.note("locamu.nonsense", sender)
            return
        number = header.numbers.get(sender, {}).get(self.me)
        if number is None:
            out.note("locamu.nonsense", sender)
            return
        back = self.around.hop(self.me, sender)
        copy = Arrived(
            sender,
            message,
            header.origin,
            header.epoch,
            back,
            header.numbers,
            header.needs,
            out.now,
        )
        self._take_in(copy, number, out)

    def _on_handed_on(self, sender: NodeId, handed: HandedOn, out: Outbox) -> None:
        """The same from somebody who stands on the far side of a node that cannot send it."""
        # Not in the paper: nobody stands in for a node there.
        number = handed.numbers.get(sender, {}).get(self.me)
        if number is None or not isinstance(handed.message, (Copy, Subscription, Admission)):
            out.note("locamu.nonsense", sender)
            return
        near = self.around.pairs_within(self.horizon, self.reach)
        needs = {
            (issuer, node): count
            for issuer, row in handed.needs.items()
            for node, count in row.items()
            if node == self.me or (issuer, node) in near
        }
        numbers = {
            issuer: row
            for issuer, row in handed.numbers.items()
            if issuer not in (sender, self.me)
            and self.around.knows(issuer)
            and self.around.distance(issuer, self.me) <= self.paths.window
        }
        origin = NodeId(handed.origin)
        if not self.around.knows(origin):
            origin = NOBODY
        way = [issuer for issuer, row in numbers.items() if self.me in row]
        if not way:
            out.note("locamu.nonsense", sender)
            return
        back = self.around.hop(self.me, way[0])
        copy = Arrived(sender, handed.message, origin, handed.epoch, back, numbers, needs, out.now)
        self._take_in(copy, number, out)

    def _take_in(self, copy: Arrived, number: int, out: Outbox) -> None:
        copy.number = number
        key = (copy.source, NodeId(number))
        older = self.holdback.take(key)
        if older is not None:  # the new one may carry more numbers
            copy.told = older.told
            copy.since = older.since
            if all(issuer in older.numbers for issuer in copy.numbers):
                copy.inquiry = older.inquiry  # nothing else is to be asked
            else:
                self.consultation.drop(older.inquiry)
        elif self._is_too_late(copy):
            out.note("locamu.too_late", copy.origin)
            numbers = {**copy.numbers, copy.source: {self.me: number}}
            out.persist(Noted(self._take_numbers(numbers), {}))
            self._acknowledge_to(copy.source, number, out)
            woken, self._woken = self._woken, []
            self._look_again(woken, out)
            return
        copy.inquiry.key = key
        self.holdback.put(key, copy)
        self._look_again([key], out)
        if key in self.holdback.copies:
            self._say_held(copy.source, number, out)

    def _is_held(self, source: NodeId, number: int) -> bool:
        return (source, NodeId(number)) in self.holdback.copies

    def _is_too_late(self, copy: Arrived) -> bool:
        """What came after it may have been delivered: nobody was to bring it any more."""
        given_up = self.departures.given_up
        beside = copy.source not in copy.numbers
        across = self.around.between(self.me, copy.source) if beside else []
        return (
            any(peer in given_up for peer in (copy.origin, *across))
            and not self._is_known(copy)
            and not any(self.holdback.carrying(stamp) for stamp in copy.stamps())
            and not self.departures.expects(copy.source, copy.number)
            and not any(
                self.departures.expects(issuer, row[self.me])
                for issuer, row in copy.numbers.items()
                if self.me in row
            )
        )

    def _look_again(self, keys: list[Pair], out: Outbox) -> None:
        """Take from the held copies those that wait no longer, and those that this frees."""
        todo = keys
        while todo:
            for key in todo:
                copy = self.holdback.take(key)
                if copy is not None:
                    self._consider(key, copy, out)
            todo, self._woken = self._woken, []
        self._answer_questions(out)
        self._keep_repeating(out)

    def _consider(self, key: Pair, copy: Arrived, out: Outbox) -> None:
        if self._is_known(copy):
            self.consultation.drop(copy.inquiry)
            self._merge(copy, out)
            return
        copy.waits_for = self._first_missing(copy)
        if copy.waits_for is None and self._is_consulted(copy, out):
            copy.waits_for = self._first_missing(copy)  # an answer may name further causes
            if copy.waits_for is None:
                self._process(copy, out)
                return
        self.holdback.put(key, copy)
        self._tell_held(copy, out)

    def _is_known(self, copy: Arrived) -> bool:
        """Whether this is a further copy of a message that was processed here."""
        if self.log.find(copy.stamps()) is not None:
            return True
        return self.past.has_arrived(copy.source, copy.number) or any(
            self.me in vector and self.past.has_arrived(issuer, vector[self.me])
            for issuer, vector in copy.numbers.items()
        )

    def _first_missing(self, copy: Arrived) -> Pair | None:
        """The first number addressed to me that the copy depends on and that did not arrive.

        Among its dependencies are the numbers the message itself was given on its way.
        """
        for issuer, to in self._needs_of_me(copy):
            own = copy.numbers[issuer].get(self.me, 0) if issuer in copy.numbers else 0
            if issuer in self.departures.given_up:
                gap = self._gap_that_is_held(issuer, to, own)
            else:
                gap = self.past.first_gap(issuer, to, own)
            if gap > 0:
                return issuer, NodeId(gap)
        return None

    def _gap_that_is_held(self, issuer: NodeId, to: int, own: int) -> int:
        """Of a node that is gone only what is here already, and held, is waited for."""
        for number in self.past.arrived[issuer].gaps(to, own):
            held = self.holdback.carrying((issuer, self.me, number))
            if held or self.departures.expects(issuer, number):
                return number
        return 0

    def _needs_of_me(self, copy: Arrived) -> list[tuple[NodeId, int]]:
        needs = [
            (issuer, copy.needs[issuer, self.me])
            for issuer in self.extended
            if (issuer, self.me) in copy.needs
        ]
        needs += [
            (node, row[self.me]) for node, row in copy.inquiry.answers.items() if self.me in row
        ]
        return needs

    def _is_consulted(self, copy: Arrived, out: Outbox) -> bool:
        """With f = 1 nobody need be asked: a single skipped node leaves no gap in the numbers."""
        return self.f == 1 or self.consultation.is_settled(
            copy.source, copy.needs, copy.numbers, copy.inquiry, self.suspected, out
        )

    def _process(self, copy: Arrived, out: Outbox) -> None:
        record = Record(copy.message, copy.origin, copy.epoch, copy.back, copy.numbers, out.now)
        self._take_numbers(record.numbers)
        self._take_beside(record, copy, out)
        for pair, number in copy.needs.items():
            self.past.raise_to(pair, number)
        # Numbers of other issuers may have been merged in from other copies: what came before
        # those is not among the dependencies.
        # Who hands it on depends on what is near itself: there those who numbered it must do.
        senders = [copy.source] if copy.source in copy.numbers else list(copy.numbers)
        for issuer in senders:
            for node, number in copy.numbers[issuer].items():
                if node in self.extended:
                    self.past.raise_to((issuer, node), number)
        for asked, row in copy.inquiry.answers.items():
            for node, number in row.items():
                if node in self.extended and self.around.distance(asked, node) <= self.reach:
                    self.past.raise_to((asked, node), number)
        self._stamp(record)
        if copy.told and isinstance(copy.message, Copy):
            out.release(copy.message.publication.id)
        self._finish(record, out)

    def _stamp(self, record: Record) -> None:
        """Freeze what the message depends on, then give it my numbers.

        Every target gets one at once, sent to directly or not: that lets it recognise the message,
        wait for it, and ask for it.
        """
        record.needs = dict(self.past.numbers)
        for node in self._led_to(record):
            if self.around.hop(self.me, node) != record.back and node not in self.departures.gone:
                record.targets[node] = self.past.count_for(node)
        record.numbers[self.me] = record.targets

    def _led_to(self, record: Record) -> list[NodeId]:
        """Everybody within reach that is a member of the message's group, or has one behind it."""
        message = record.message
        if isinstance(message, Copy):
            return self.members.led_to(message.publication.group, record.epoch, self.extended)
        return list(self.extended)

    def _finish(self, record: Record, out: Outbox) -> None:
        """Keep a stamped record, deliver its publication, and send it on its way."""
        self.log.add(record)
        for issuer in self.departures.gone:
            if self._is_from(record, issuer) and self._may_stand_in(issuer):
                self._hand_on_one(record, issuer)
        self._wake_duplicates(record.numbers)
        if isinstance(record.message, Copy):
            out.deliver(record.message.publication)
        self._forward(record, out)
        self._acknowledge(record, out)
        self._watch_complete(record)
        if self._is_done(record) and isinstance(record.message, Copy):
            self._finish_towards(record, out)
            self.log.remove(record)
            out.persist(Noted(record.numbers_for(self.me), self.past.take_raised()))
        else:
            out.persist(
                Kept(
                    with_header(record.message, b""),
                    record.origin,
                    record.epoch,
                    record.back,
                    record.numbers,
                    self.past.take_raised(),
                )
            )
            self._hear_of_members(record, out)
            self._collect(record, out)
        self._keep_repeating(out)

    def _hear_of_members(self, record: Record, out: Outbox) -> None:
        """Somebody wants to join a group, or was admitted; the coordinator admits who wants to."""
        message = record.message
        if isinstance(message, Subscription):
            self.members.remember_joiner(message.group, message.joiner, self._way_back(record))
            epoch = self.members.epoch_to_admit(message.group)
            if epoch > 0:
                self._begin(Admission(message.group, message.joiner, epoch, b""), 0, out)
        elif isinstance(message, Admission):
            is_member = self.members.admit(message.group, message.joiner, message.epoch)
            if is_member:
                out.joined(message.group)

    def _way_back(self, record: Record) -> list[NodeId]:
        """The nodes within reach on the way the message came."""
        far = max(record.numbers, key=lambda issuer: self.around.distance(self.me, issuer))
        return self.around.way(self.me, far)[1 : self.reach + 1]

    # Further copies of a known message

    def _merge(self, copy: Arrived, out: Outbox) -> None:
        """Learn numbers from a duplicate. What it depends on is not looked at."""
        if isinstance(copy.message, Copy):
            if copy.told:
                out.release(copy.message.publication.id)
            out.duplicate(copy.message.publication.id)
        record = self.log.find(copy.stamps())
        if record is None:  # every target has it; only late numbers are news
            numbers = {**copy.numbers, copy.source: {self.me: copy.number}}
            arrived = self._take_numbers(numbers)
            if arrived:
                out.persist(Noted(arrived, {}))
            self._acknowledge_to(copy.source, copy.number, out)
            return
        self._take_beside(record, copy, out)
        numbers = {issuer: row for issuer, row in copy.numbers.items() if issuer != self.me}
        if not self._learn(record, copy.origin, numbers, out):
            self._acknowledge_to(copy.source, copy.number, out)
        self._collect(record, out)

    def _learn(self, record: Record, origin: NodeId, numbers: Numbers, out: Outbox) -> bool:
        """Take over what is new, tell those who sent it, and pass it on; False if nothing is."""
        found_origin = record.origin == NOBODY and origin != NOBODY
        news = self.log.learn(record, origin, numbers)
        if not news and not found_origin:
            return False
        self._take_numbers(record.numbers)
        self._wake_duplicates(news)
        stamp = next(stamp for stamp in record.stamps() if stamp[0] != self.me)
        out.persist(Learned(stamp[0], stamp[1], stamp[2], record.origin, news))
        self._watch_complete(record)
        self._acknowledge(record, out)
        self._forward(record, out)
        return True

    def _take_beside(self, record: Record, copy: Arrived, out: Outbox) -> None:
        """Record the number given by the node that handed the copy on.

        That node is not on the message's path, so its number is kept apart.
        """
        if copy.source not in copy.numbers and copy.source not in record.beside:
            self.log.came_beside(record, copy.source, self.me, copy.number)
            arrived = self._take_numbers({copy.source: {self.me: copy.number}})
            if arrived:
                out.persist(Noted(arrived, {}))
            self._watch_complete(record)

    def _take_numbers(self, numbers: Numbers) -> dict[NodeId, int]:
        """The message with these numbers is here; those that are new for me come back."""
        arrived: dict[NodeId, int] = {}
        for issuer, vector in numbers.items():
            number = vector.get(self.me)
            if number is not None and self.past.arrive(issuer, number):
                arrived[issuer] = number
                self._woken += self.holdback.waiting_for(issuer, number)
        return arrived

    def _wake_duplicates(self, numbers: Numbers) -> None:
        for issuer, vector in numbers.items():
            for node, number in vector.items():
                self._woken += self.holdback.carrying((issuer, node, number))

    # Acknowledging

    def _on_ack(self, sender: NodeId, ack: Ack, out: Outbox) -> None:
        # Not in the paper: section III-J leaves stability to the thesis.
        under_way = self._under_way.setdefault(sender, {})
        for number in self._newly_acknowledged(sender, ack):
            record = self.log.at((self.me, sender, number))
            if record is not None:
                self.log.close_for(record, sender)
                under_way.pop(record, None)
                self._collect(record, out)
        for number, issuers in ack.partial.items():
            record = self.log.at((self.me, sender, number))
            if record is not None:
                record.known_at.setdefault(sender, {}).update(dict.fromkeys(issuers))
                record.held_at.pop(sender, None)
                under_way.pop(record, None)
                self._forward(record, out)
        for number in ack.held:
            record = self.log.at((self.me, sender, number))
            if record is not None and sender not in record.known_at:  # else that word is late
                record.held_at[sender] = None
        self._send_waiting(sender, out)

    # Repeating and asking

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        # Not in the paper: section III-J leaves retransmission to the thesis.
        if name == WORD:
            self._send_word(NodeId(subject), out)
        else:
            assert name == REPEAT
            self._repeats = False
            self._repeat(out)
            # Who waits for a number is looked at when that arrives; the others wait for answers.
            copies = self.holdback.copies
            self._look_again([key for key in copies if copies[key].waits_for is None], out)

    def _keep_repeating(self, out: Outbox) -> None:
        """The timer runs only while something is unfinished."""
        unfinished = self.log.records or self.holdback.copies or self._probed
        if not self._repeats and (unfinished or self.departures.is_unsettled()):
            self._repeats = True
            out.start_timer(REPEAT, self.repeat_after)

    def _repeat(self, out: Outbox) -> None:
        for node in self.extended:
            if node not in self.suspected:  # else it gets everything when it is back
                self._repeat_to(node, out)
        for node, numbers in self._wanted(out.now).items():
            self._tell(node, Want(numbers), out)
        self.consultation.repeat(self.repeat_after, out)
        self._ask_what_is_finished(out)
        for peer in self.departures.gone:
            for node in self.departures.unheard(peer):
                self._tell_gone(peer, node, out)

    def _repeat_to(self, node: NodeId, out: Outbox) -> None:
        """Send again what a node has not confirmed, or ask after it, less and less often."""
        probes: list[int] = []
        for record in list(self.log.open.get(node, ())):
            tries = record.tries.get(node, 0)
            tried = record.tried_at.get(node, record.since)
            if out.now - tried < self.repeat_after << min(tries, MOST_DOUBLINGS):
                continue
            # Somebody nearer brings it, or it waits there, or it is there and nothing is missing
            # since somebody is gone: just ask.
            asks = node not in self.active or node in record.held_at
            if not asks:
                record.sent.pop(node, None)
                self._offer(record, node, True, out)
            if asks or (self.departures.gone and node in record.known_at):
                record.tried_at[node] = out.now
                probes.append(record.targets[node])
            if record.tried_at.get(node) == out.now:  # there was room, and it was safe
                record.tries[node] = tries + 1
        if probes:
            self._tell(node, Probe(probes), out)

    def _wanted(self, now: int) -> dict[NodeId, list[int]]:
        """Numbers that held copies wait for, or that others say should be here."""
        needed: dict[NodeId, int] = {}
        for copy in self.holdback.copies.values():
            if now - copy.since < self.repeat_after:
                continue
            for issuer, to in self._needs_of_me(copy):
                own = copy.numbers[issuer].get(self.me, 0) if issuer in copy.numbers else 0
                needed[issuer] = max(needed.get(issuer, 0), to - 1 if own == to else to)
        wanted: dict[NodeId, dict[int, None]] = {}
        for issuer, to in needed.items():
            arrived = self.past.arrived[issuer]
            # What it sent already is held: it would send the same again.
            wanted[issuer] = {
                number: None
                for number in arrived.gaps(min(to, arrived.count + 1 + MOST_WANTED), 0)
                if not self._is_held(issuer, number)
            }
        for issuer, numbers in self._probed.items():
            missing = [n for n in numbers if not self.past.has_arrived(issuer, n)]
            wanted.setdefault(issuer, {}).update(dict.fromkeys(missing))
        self._probed = {}
        return {node: list(numbers)[:MOST_WANTED] for node, numbers in wanted.items() if numbers}

    def _on_probe(self, sender: NodeId, probe: Probe, out: Outbox) -> None:
        # Not in the paper: a node that nobody sends to directly may wait for a message, too.
        for number in probe.numbers:
            if self.past.has_arrived(sender, number):
                self._acknowledge_to(sender, number, out)
            elif not self._is_held(sender, number):
                self._probed.setdefault(sender, {})[number] = None
        self._keep_repeating(out)

    def _on_want(self, sender: NodeId, want: Want, out: Outbox) -> None:
        """Send what is asked for, even to a node that others should bring it to."""
        # Section 3.9 of the paper in Portuguese: who notices that messages are missing asks the
        # sender for them.
        for number in want.numbers:
            record = self.log.at((self.me, sender, number))
            if record is not None and sender in self.links:
                before = self._before(record, sender)
                if self.paths.is_enough(record, before, sender):
                    out.note("locamu.pulled", sender)
                    self._send_copy(record, sender, before, True, out)

    def _answer_questions(self, out: Outbox) -> None:
        if self.consultation.unanswered:
            given_up = self.departures.given_up
            self.consultation.answer_questions(
                self.past.arrived, given_up, self._numbers_onward, out
            )

    def _numbers_onward(self) -> list[Numbers]:
        """The numbers of all records."""
        return [
            {**record.numbers, self.me: self._way_onward(record)}
            if record.handed_on
            else record.numbers
            for record in self.log.records
        ]

    # Links and suspicions

    def on_neighbour_up(self, peer: NodeId, link: LinkId, newborn: bool, out: Outbox) -> None:
        # Section III-C: who was away receives everything when it is back.
        if peer not in self.extended:
            return
        if peer in self.departures.gone:  # it should know
            out.send(peer, Gone(peer, False, [], False), link)
            return
        self.links[peer] = link
        self._ask_finished.pop(peer, None)
        self._writers.pop(peer, None)
        self._readers.pop(peer, None)
        self._send_all_to(peer, out)
        self.consultation.on_neighbour_up(peer, out)
        if self._may_stand_in(peer) and (self.me, peer) in self.past.numbers:
            self._to_finish[peer] = None
            self._plan_word(peer, out)
        for gone in self.departures.gone:
            if peer in self.departures.to_tell(gone):
                self._tell_gone(gone, peer, out)

    def on_neighbour_down(self, peer: NodeId, link: LinkId, out: Outbox) -> None:
        # Not in the paper: only the detector says there whom to send to.
        if self.links.get(peer) == link:
            del self.links[peer]

    def on_suspect(self, peer: NodeId, out: Outbox) -> None:
        # Section III-C: the active connections follow the failure detector.
        if peer in self.extended and peer not in self.suspected:
            self.suspected[peer] = None
            self._under_way.pop(peer, None)
            self._behind.pop(peer, None)
            for record in self.log.open.get(peer, ()):
                record.forget_tries(peer)
            self._change_active(out)

    def on_trust(self, peer: NodeId, out: Outbox) -> None:
        # Section III-C, as `on_suspect`.
        if peer in self.suspected and peer not in self.departures.gone:
            del self.suspected[peer]
            self._change_active(out)

    def _send_all_to(self, peer: NodeId, out: Outbox) -> None:
        """A new link: what was sent on the old one may be lost."""
        self._under_way.pop(peer, None)
        self._behind.pop(peer, None)
        for record in list(self.log.open.get(peer, ())):
            record.forget_tries(peer)
            if peer in self.active:
                self._offer(record, peer, False, out)

    def _change_active(self, out: Outbox) -> None:
        self.active = self._first_live()
        self._watch_budget(out)
        for record in self.log.records:
            self._forward(record, out)
        self._look_again(list(self.holdback.copies), out)

    def _watch_budget(self, out: Outbox) -> None:
        """Say when more nodes are suspected than the protocol works around, and when no more."""
        within = is_within_budget(self.suspected, self.around.tree, self.f)
        if within != self._within_budget:
            self._within_budget = within
            out.note("locamu.within_budget" if within else "locamu.too_many_down")

    def _losses_with(self, peer: NodeId) -> list[str]:
        found = [
            f"node {peer} will not deliver {name_of(record.message)}, which is kept for it here"
            for record in self.log.records
            if peer in record.targets and peer not in record.complete_at
        ]
        for copy in self.holdback.copies.values():
            if copy.waits_for is not None and copy.waits_for[0] == peer:
                found.append(
                    f"{name_of(copy.message)} waits here for {self._words_for(copy)}; "
                    "unless somebody hands that on, it is lost here"
                )
        found.append(f"what node {peer} published and nobody has received")
        return found

    # Forgetting, and surviving a crash

    def _collect(self, record: Record, out: Outbox) -> None:
        if record not in self.log.records or not self._is_passed_on(record):
            return
        self._finish_towards(record, out)
        if self._stands_in_for_publisher(record):
            self._unfinished[record] = None
        if self._is_done(record):
            self._unfinished.pop(record, None)
            self.log.remove(record)
            # If this is lost in a crash, the record is back and its targets say again that they
            # have it. So it need not be durable at once, and goes with the next entry.
            stamp = record.stamps()[0]
            self._forgotten.append([stamp[0], stamp[1], stamp[2]])
            if out.records:
                out.persist(Forgotten(self._forgotten))
                self._forgotten = []

    def on_recover(self, records: list[Message], out: Outbox) -> None:
        # Section III-C: state is kept in persistent memory. Which state is not in the paper.
        for entry in records:
            if isinstance(entry, Kept):
                self._restore(entry, out.now)
            elif isinstance(entry, Noted):
                self._take_numbers({node: {self.me: n} for node, n in entry.arrived.items()})
                self.past.restore_raised(entry.raised)
            elif isinstance(entry, Learned):
                known = self.log.at((entry.issuer, entry.node, entry.number))
                if known is not None:
                    self.log.learn(known, NodeId(entry.origin), entry.numbers)
                    self._take_numbers(known.numbers)
                    self.past.restore_raised({self.me: entry.numbers.get(self.me, {})})
                    self._restore_handed_on(known)
                    self.log.open_for(known, known.targets)
            elif isinstance(entry, Forgotten):
                for issuer, node, number in entry.stamps:
                    known = self.log.at((NodeId(issuer), NodeId(node), number))
                    if known is not None:
                        self.log.remove(known)
            elif isinstance(entry, Wish):
                self.members.wish(entry.group, entry.wanted)
            elif isinstance(entry, Departed):
                self._depart(entry.peer)
            elif isinstance(entry, GivenUp):
                self.departures.give_up(entry.peer, entry.held)
            else:
                assert isinstance(entry, Past)
                self._restore_past(entry)
        self.active = self._first_live()
        for record in self.log.records:
            for gone in self.departures.gone:
                self.log.close_for(record, gone)
            self._watch_complete(record)
        for record in list(self.log.records):
            self._collect(record, out)
        self._keep_repeating(out)

    def _restore(self, kept: Kept, now: int) -> None:
        origin, back = NodeId(kept.origin), NodeId(kept.back)
        record = Record(kept.message, origin, kept.epoch, back, kept.numbers, now)
        self._take_numbers(record.numbers)
        self.past.restore_raised(kept.raised)
        record.needs = dict(self.past.numbers)
        record.targets = record.numbers.setdefault(self.me, {})
        self.past.restore_raised({self.me: record.targets})
        self._restore_handed_on(record)
        self.log.add(record)
        message = kept.message
        if isinstance(message, Subscription):
            self.members.remember_joiner(message.group, message.joiner, self._way_back(record))
        elif isinstance(message, Admission):
            self.members.admit(message.group, message.joiner, message.epoch)

    def _restore_handed_on(self, record: Record) -> None:
        back = [n for n in record.targets if self.around.hop(self.me, n) == record.back]
        record.handed_on = dict.fromkeys(back)

    def _restore_past(self, past: Past) -> None:
        self.past.restore_raised(past.past)
        for issuer, count in past.counts.items():
            self.past.arrived[issuer].count = count
            self.past.arrived[issuer].extras = {}
        for issuer, numbers in past.extras.items():
            for number in numbers:
                self.past.arrive(issuer, number)
        self.members.restore(past.epochs, past.led, past.joining, past.admitted)

    def snapshot(self) -> list[Message]:
        records: list[Message] = []
        before: dict[Pair, int] = {}
        for record in self.log.records:
            raised = {p: n for p, n in record.needs.items() if before.get(p) != n}
            before = record.needs
            records.append(
                Kept(
                    with_header(record.message, b""),
                    record.origin,
                    record.epoch,
                    record.back,
                    {**record.numbers, self.me: self._way_onward(record)},
                    nested(raised),
                )
            )
        for record in self.log.records:
            onward = self._way_onward(record)
            handed_on = {n: s for n, s in record.targets.items() if n not in onward}
            if handed_on:
                stamp = next(stamp for stamp in record.stamps() if stamp[0] != self.me)
                records.append(Learned(*stamp, record.origin, {self.me: handed_on}))
        arrived = self.past.arrived
        records.append(
            Past(
                nested(self.past.numbers),
                {issuer: numbers.count for issuer, numbers in arrived.items()},
                {issuer: list(n.extras) for issuer, n in arrived.items() if n.extras},
                self.members.epochs,
                self.members.led,
                self.members.joining,
                list(self.members.admitted),
            )
        )
        records += [Wish(group, False) for group in self.members.withdrawn]
        records += [Departed(peer) for peer in self.departures.gone]
        held = [
            [int(number) for pair in pairs for number in pair]
            for key, pairs in self.departures.held.items()
            if not self.past.has_arrived(*key)
        ]
        records += [GivenUp(peer, held) for peer in self.departures.given_up]
        return records

    def _way_onward(self, record: Record) -> dict[NodeId, int]:
        """The targets on the message's normal path, without those added when it was handed on."""
        targets = record.targets.items()
        return {node: number for node, number in targets if not self._is_handed_on(record, node)}

    # What people ask

    def explain(self, message: MessageId) -> list[MessageId]:
        causes = [
            self._id_of(copy.waits_for)
            for copy in self.holdback.copies.values()
            if is_copy_of(copy.message, message) and copy.waits_for is not None
        ]
        return [cause for cause in causes if cause != NO_MESSAGE]

    def reasons(self, message: MessageId) -> list[str]:
        found = [
            f"a copy from node {copy.source} waits for {self._words_for(copy)}"
            for copy in self.holdback.copies.values()
            if is_copy_of(copy.message, message)
        ]
        for record in self.log.records:
            if is_copy_of(record.message, message):
                open_ = [node for node in record.targets if node not in record.complete_at]
                found += [self._reason_not_done(record, node) for node in open_]
        if found and self.expelled_by != NOBODY:
            found.append(f"node {self.expelled_by} says that this node was declared gone for good")
        return found

    def _reason_not_done(self, record: Record, node: NodeId) -> str:
        before = self._before(record, node)
        if node in self.suspected:
            return f"node {node} is suspected; it gets the message when it is back"
        if node not in self.active:
            return f"node {node} gets the message from somebody nearer, and has not confirmed"
        if not self.paths.is_enough(record, before, node):
            names = ", ".join(str(issuer) for issuer in before)
            return (
                f"node {node} needs the numbers of {self.paths.quorum} nodes on a safe path; "
                f"known are those of {names}"
            )
        return f"node {node} has not confirmed that it has the message and all its numbers"

    def _words_for(self, copy: Arrived) -> str:
        if copy.waits_for is None:
            return f"answers from around the gap to node {copy.source}"
        issuer, number = copy.waits_for
        return f"the message that node {issuer} numbered {number} for this node"

    def _id_of(self, waits_for: Pair) -> MessageId:
        """The message an issuer numbered so for me, if a held copy of it shows its id."""
        for key in self.holdback.carrying((waits_for[0], self.me, waits_for[1])):
            held = self.holdback.copies[key].message
            if isinstance(held, Copy):
                return held.publication.id
        return NO_MESSAGE

    def _tell_held(self, copy: Arrived, out: Outbox) -> None:
        if copy.told or not isinstance(copy.message, Copy):
            return
        copy.told = True
        cause = NO_MESSAGE if copy.waits_for is None else self._id_of(copy.waits_for)
        out.hold(copy.message.publication.id, cause, self._words_for(copy))

    def conditions(self) -> dict[str, int]:
        return {
            "within_fault_budget": int(self._within_budget),
            "suspected": len(self.suspected)
            - sum(1 for p in self.departures.gone if p in self.suspected),
            "gone": len(self.departures.gone),
            "given_up": len(self.departures.given_up),
            "gone_refused": len(self.departures.refused),
            "held": len(self.holdback.copies),
            "kept": len(self.log.records),
            "declared_gone": int(self.expelled_by != NOBODY),
        }

    def state_size(self) -> int:
        return self.past.size() + self.log.size()

    def kept_bytes(self) -> int:
        return self.log.kept_bytes

    def is_idle(self) -> bool:
        """Whether nothing is kept, awaited or held, as it must be once everybody has everything."""
        gaps = any(
            numbers.extras
            for issuer, numbers in self.past.arrived.items()
            if issuer not in self.departures.given_up
        )
        under_way = any(self._under_way.values())
        kept = self.log.records or self.log.size() or self.holdback.copies
        return not (kept or gaps or under_way)


def name_of(message: Message) -> str:
    """What people call a message."""
    if isinstance(message, Copy):
        return f"{message.publication.id >> 32}.{message.publication.id & 0xFFFFFFFF}"
    return "news of a new member"


def build(setup: Setup) -> Locamu:
    f = setup.number("f")
    around = Neighbourhood(setup.me, setup.topology.ball(2 * f + 1))
    return Locamu(setup, around, SafePath(around, f + 1, 2 * f + 1, f + 1))


def tolerates(down: list[NodeId], setup: Setup) -> bool:
    """Progress around nodes that are down: at most f of any 2f+1 in a row. Order and integrity hold
    beyond that too."""
    tree = setup.topology.ball(len(setup.topology.everybody()))
    return is_within_budget(dict.fromkeys(down), tree, setup.number("f"))


def reach(options: dict[str, OptionValue]) -> int:
    f = options["f"]
    assert isinstance(f, int)
    return f + 1


def numbers_count_on(multicast: Multicast) -> bool:
    """What I numbered for a node has the numbers 1 to my count, each once."""
    assert isinstance(multicast, Locamu)
    last: dict[NodeId, int] = {}
    for record in multicast.log.records:
        for node, number in record.targets.items():
            if multicast._is_handed_on(record, node):
                continue  # numbered later than what came after it
            if number <= last.get(node, 0):
                return False
            last[node] = number
    counts = multicast.past.numbers
    return all(number <= counts[multicast.me, node] for node, number in last.items())


def dependencies_are_frozen(multicast: Multicast) -> bool:
    """A message depends on what I numbered before it, and on nothing that came later."""
    assert isinstance(multicast, Locamu)
    me = multicast.me
    return all(
        record.needs.get((me, node), 0) == number - 1
        for record in multicast.log.records
        for node, number in record.targets.items()
        if not multicast._is_handed_on(record, node)
    )


def kept_has_arrived(multicast: Multicast) -> bool:
    """Every number that a kept message has for me counts as arrived."""
    assert isinstance(multicast, Locamu)
    return all(
        multicast.past.has_arrived(issuer, number)
        for record in multicast.log.records
        for issuer, number in record.numbers_for(multicast.me).items()
    )


def sent_was_safe(multicast: Multicast) -> bool:
    """No copy left without its publisher's numbers or those of f+1 nodes, or beyond reach."""
    assert isinstance(multicast, Locamu)
    return all(
        node in multicast.extended
        and (
            record.origin in before
            or sum(1 for issuer in before if record.numbers[issuer]) > multicast.f
            or multicast.paths.is_all(record, before, node)
        )
        for record in multicast.log.records
        for node, before in record.sent.items()
    )


def all_is_near(multicast: Multicast) -> bool:
    """Nothing is known of nodes beyond the horizon or the window."""
    assert isinstance(multicast, Locamu)
    around, window = multicast.around, 2 * multicast.f + 1
    pairs = around.pairs_within(window, multicast.reach)
    near = dict.fromkeys([*around.within(window), multicast.me])
    return all(pair in pairs for pair in multicast.past.numbers) and all(
        issuer in near for record in multicast.log.records for issuer in record.numbers
    )


def nothing_is_left(multicast: Multicast) -> bool:
    """Nothing is kept, indexed, held or missing once everybody has everything."""
    assert isinstance(multicast, Locamu)
    return multicast.is_idle()


def nobody_waits_to_be_admitted(multicast: Multicast) -> bool:
    """Who asked to join a group is in it once everybody is back."""
    return not multicast.asked_for()


SPEC = ProtocolSpec(
    name="locamu",
    summary="Localized fault-tolerant causal multicast over a tree (Santos, Rodrigues 2019).",
    build=build,
    messages=[*messages.MESSAGES, *gap_consultation.MESSAGES],
    guarantees=CAUSAL_WHEN_ALL_ARE_BACK,
    options=[
        Option("f", 1, "how many of any 2f+1 nodes in a row may be down at once", least=1),
        Option(
            "headers",
            "compressed",
            "say on each link only what changed, or say everything in each header",
            choices=["compressed", "dense"],
        ),
        Option(
            "repeat_after",
            250 * MILLISECOND,
            # Well above a round trip across a continent, so that repetitions mean loss.
            "send a message again if its acknowledgement takes longer than this",
            unit="ms",
        ),
        Option(
            "window",
            1000,
            # Bounds what is under way to a node that is slow or catching up.
            "messages under way to one node before further ones wait for acknowledgements",
            least=1,
        ),
        Option(
            "acknowledge_after",
            10 * MILLISECOND,
            # Many messages share one acknowledgement, and it still comes long before a repetition.
            "collect acknowledgements for this long",
            unit="ms",
        ),
    ],
    needs=Needs(overlay="tree", detector=True),
    restart="resume",
    tolerates=tolerates,
    invariants=[
        numbers_count_on,
        dependencies_are_frozen,
        kept_has_arrived,
        sent_was_safe,
        all_is_near,
    ],
    at_rest=[nothing_is_left, nobody_waits_to_be_admitted],
    events={
        "locamu.too_many_down": "more nodes near here are suspected than can be worked around",
        "locamu.within_budget": "no more nodes near here are suspected than can be worked around",
        "locamu.gone": "a node was declared gone for good",
        "locamu.given_up": "nothing that a node that is gone published is waited for any more",
        "locamu.expelled": "this node was declared gone for good",
        "locamu.gone_refused": "a node was declared gone elsewhere, beyond what can be passed",
        "locamu.never_admitted": "the node that admits to a group being joined was declared gone",
    },
    rare=["locamu.jump", "locamu.pulled", "locamu.unsafe", "locamu.too_many_down"],
    cost="numbers of 2f+1 nodes and dependencies within 2f+1 hops, whatever the number of nodes",
    offers=["explain"],
    commands=[
        CommandForm(
            "gone", [NODE], "the node never comes back: wait for nothing of it", gives_up=True
        )
    ],
    reach=reach,
    except_when="a node is declared gone whose last message had gone past a neighbour that it "
    "wrongly suspected: an effect of that message may then come before it",
)
