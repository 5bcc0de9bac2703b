"""LoCaMu: localized fault-tolerant causal multicast over a tree.

V. Santos, L. Rodrigues, "Localized Reliable Causal Multicast", 2019 (and V. Santos's dissertation).

The overlay is a tree. A node knows the tree only within 2f+1 hops and keeps links to everybody
within f+1, so up to f neighbours in a row can be skipped. Each node a message passes gives it a
number for every node within f+1 hops that it may go to next. From these numbers follows everything:

- A message depends on all numbers its sender had heard of; its receiver processes it once it has
  those that were addressed to itself.
- Copies that came along different ways are recognised by any number they share. A copy leaves only
  with enough of them (`parts/safe_path.py`), and when a node learns more numbers of a message, it
  passes them on.
- Who numbered a message for a node keeps it until that node has it and knows all its numbers. So
  nothing is lost with a crash, and a node that was away is brought up to date by its neighbours.

No structure depends on the number of nodes, and the publication's global id is never looked at; it
is carried for the trace only.

What is promised: creation, duplication and disorder never happen, whatever crashes or is suspected.
Every member delivers everything once all who crashed are back. While a node is down, the messages
that depend on a number it gave out, and that nobody else can vouch for, wait for it; the papers
promise more and cannot keep it.

Where we differ from the papers, and why
- Dependencies are the past before counting, and a message does not wait for its own numbers: as
  printed, nothing is ever delivered.
- A copy needs the numbers of f+1 of the last 2f+1 nodes, or the publisher's: with f, two copies
  need not share one; without the exemption nothing leaves the publisher.
- Numbers received are kept as a set, not as a maximum: a maximum skips gaps, and the message in the
  gap is never asked for.
- What is merged from a duplicate is sent on, and a message is forgotten only when its numbers are
  complete here and at every target: else a late copy is taken for a new message.
- Columns of the past are kept for nodes within f+1 hops only; the rest is never used.
- Missing numbers are asked for (`Want`), over whatever link there is: for f ≥ 2 two messages can
  otherwise wait for each other. A node that is told of a number it lacks (`Probe`) asks as well.
- For f ≥ 2 the receiver of a copy that jumped asks around the gap (`parts/gap_consultation.py`).
- Joining a group is a message to everybody; a coordinator of the group admits the new member with
  a number, the epoch, in another. A message says the epoch its publisher had heard of, and whoever
  passes it on leads it to the members of that epoch: all decide alike, and all have heard of the
  epoch before, since admissions are causally ordered too. (Leading messages to a member as soon as
  one hears of it, even with the rule "address only whom those before you addressed", breaks causal
  order when a copy jumps over a node that had not heard of it.) Until it is admitted, a new
  member's own publications wait. Who leaves a group goes on passing its messages.
- There is no greeting after a restart: a new link says the same, since no link survives a crash.
"""

from typing import Final

from causalcast.core import (
    CAUSAL_WHEN_ALL_ARE_BACK,
    MILLISECOND,
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
    Wire,
)
from causalcast.core.ids import NO_MESSAGE
from causalcast.core.spec import OptionValue
from causalcast.core.topology import Topology
from causalcast.parts import gap_consultation
from causalcast.parts.gap_consultation import Answer, Ask, GapConsultation
from causalcast.parts.holdback import Arrived, Holdback
from causalcast.parts.late_members import LateMembers
from causalcast.parts.link_header import (
    Header,
    HeaderReader,
    HeaderWriter,
    LinkPlan,
    MissedHeader,
    UnreadableHeader,
)
from causalcast.parts.local_past import LocalPast, nested
from causalcast.parts.message_log import MessageLog, Record
from causalcast.parts.neighbourhood import Neighbourhood, Pair
from causalcast.parts.safe_path import NOBODY, Numbers, SafePath

REPEAT: Final = "repeat"
ACKNOWLEDGE: Final = "acknowledge"
MOST_WANTED: Final = 100  # numbers asked for in one message; the rest is asked for later


class Copy(Message):
    """A publication, one hop further: process it once its causes are here, and pass it on."""

    __slots__ = ("header", "publication")

    wire = Wire("locamu.copy", publication=Publication, header=bytes)

    def __init__(self, publication: Publication, header: bytes) -> None:
        self.publication = publication
        self.header = header


class Subscription(Message):
    """The same for news that `joiner` wants to join `group`: remember the way to it."""

    wire = Wire("locamu.subscription", group=GroupId, joiner=NodeId, header=bytes)

    def __init__(self, group: GroupId, joiner: NodeId, header: bytes) -> None:
        self.group = group
        self.joiner = joiner
        self.header = header


class Admission(Message):
    """The same for news that `joiner` is a member: lead messages of this epoch and later to it."""

    wire = Wire("locamu.admission", group=GroupId, joiner=NodeId, epoch=int, header=bytes)

    def __init__(self, group: GroupId, joiner: NodeId, epoch: int, header: bytes) -> None:
        self.group = group
        self.joiner = joiner
        self.epoch = epoch
        self.header = header


class Ack(Message):
    """Tell an issuer which of its numbers arrived: up to `complete_to` and beyond that `complete`
    are here with everything that can be known of them, `partial` with these issuers' numbers."""

    wire = Wire("locamu.ack", complete_to=int, complete=list[int], partial=dict[int, list[NodeId]])

    def __init__(
        self, complete_to: int, complete: list[int], partial: dict[int, list[NodeId]]
    ) -> None:
        self.complete_to = complete_to
        self.complete = complete
        self.partial = partial


class Probe(Message):
    """Ask whether messages arrived that somebody nearer should have brought."""

    wire = Wire("locamu.probe", numbers=list[int])

    def __init__(self, numbers: list[int]) -> None:
        self.numbers = numbers


class Want(Message):
    """Ask an issuer for messages by its own numbers."""

    wire = Wire("locamu.want", numbers=list[int])

    def __init__(self, numbers: list[int]) -> None:
        self.numbers = numbers


class StartOver(Message):
    """A header was missed: the next one on this link must be whole."""

    wire = Wire("locamu.start_over")


class Kept(Message):
    """Record: this message was processed, with these numbers and, since the last such record, these
    changes of the past."""

    wire = Wire(
        "locamu.kept",
        message=Message,
        origin=int,
        epoch=int,
        back=int,
        numbers=dict[NodeId, dict[NodeId, int]],
        raised=dict[NodeId, dict[NodeId, int]],
    )

    def __init__(
        self,
        message: Message,
        origin: int,
        epoch: int,
        back: int,
        numbers: Numbers,
        raised: Numbers,
    ) -> None:
        self.message = message
        self.origin = origin
        self.epoch = epoch
        self.back = back
        self.numbers = numbers
        self.raised = raised


class Noted(Message):
    """Record: these numbers arrived here, and the past changed; nothing needs to be kept."""

    wire = Wire("locamu.noted", arrived=dict[NodeId, int], raised=dict[NodeId, dict[NodeId, int]])

    def __init__(self, arrived: dict[NodeId, int], raised: Numbers) -> None:
        self.arrived = arrived
        self.raised = raised


class Learned(Message):
    """Record: of the message with this number further numbers, or its origin, became known."""

    wire = Wire(
        "locamu.learned",
        issuer=NodeId,
        node=NodeId,
        number=int,
        origin=int,
        numbers=dict[NodeId, dict[NodeId, int]],
    )

    def __init__(
        self, issuer: NodeId, node: NodeId, number: int, origin: int, numbers: Numbers
    ) -> None:
        self.issuer = issuer
        self.node = node
        self.number = number
        self.origin = origin
        self.numbers = numbers


class Forgotten(Message):
    """Record: the messages with these numbers need no longer be kept."""

    wire = Wire("locamu.forgotten", stamps=list[list[int]])

    def __init__(self, stamps: list[list[int]]) -> None:
        self.stamps = stamps


class Waiting(Message):
    """Record: this was published here and waits until the node is admitted to a group."""

    wire = Wire("locamu.waiting", publication=Publication)

    def __init__(self, publication: Publication) -> None:
        self.publication = publication


class Past(Message):
    """Record of a snapshot: the past, the numbers that arrived, and what is known of members who
    joined (see `parts/late_members.py`)."""

    wire = Wire(
        "locamu.past",
        past=dict[NodeId, dict[NodeId, int]],
        counts=dict[NodeId, int],
        extras=dict[NodeId, list[int]],
        epochs=dict[GroupId, int],
        led=dict[GroupId, dict[NodeId, int]],
        joining=dict[GroupId, dict[NodeId, list[NodeId]]],
        admitted=list[GroupId],
    )

    def __init__(
        self,
        past: Numbers,
        counts: dict[NodeId, int],
        extras: dict[NodeId, list[int]],
        epochs: dict[GroupId, int],
        led: dict[GroupId, dict[NodeId, int]],
        joining: dict[GroupId, dict[NodeId, list[NodeId]]],
        admitted: list[GroupId],
    ) -> None:
        self.past = past
        self.counts = counts
        self.extras = extras
        self.epochs = epochs
        self.led = led
        self.joining = joining
        self.admitted = admitted


class Locamu(Multicast):
    """The past near this node, messages on their way onward, and copies that wait."""

    def __init__(self, setup: Setup, around: Neighbourhood, paths: SafePath) -> None:
        self.me = setup.me
        self.f = setup.number("f")
        self.reach = self.f + 1
        self.horizon = 2 * self.f + 1
        self.repeat_after = setup.number("repeat_after")
        self.acknowledge_after = setup.number("acknowledge_after")
        self.window = setup.number("window")
        self.compresses = setup.text("headers") == "compressed"
        self.around = around
        self.paths = paths
        self.extended = dict.fromkeys(around.within(self.reach))
        # Survives a crash.
        self.past = LocalPast(self.me, list(self.extended))
        self.log = MessageLog()
        self.members = LateMembers(setup)
        self.waiting: list[Publication] = []  # published here, until this node is admitted
        # Does not.
        self.holdback = Holdback()
        self.consultation = GapConsultation(around, self.reach)
        self.suspected: dict[NodeId, None] = {}
        self.active = self._first_live()
        self.links: dict[NodeId, LinkId] = {}
        self._within_budget = True
        self._plans: dict[Pair, LinkPlan] = {}
        self._writers: dict[NodeId, HeaderWriter] = {}
        self._readers: dict[NodeId, HeaderReader] = {}
        self._woken: list[Pair] = []  # held copies to look at again
        self._forgotten: list[list[int]] = []  # removals that no record has yet
        self._incomplete: dict[NodeId, dict[int, None]] = {}  # arrived, but not all numbers known
        self._under_way: dict[NodeId, dict[Record, None]] = {}  # sent, not acknowledged
        self._behind: dict[NodeId, None] = {}  # whose window was too small for something
        self._to_acknowledge: dict[NodeId, dict[int, None]] = {}
        self._acknowledged_to: dict[NodeId, int] = {}
        self._probed: dict[NodeId, dict[int, None]] = {}  # what others say should be here
        self._repeats = False

    def __getstate__(self) -> dict[str, object]:
        """For searches that compare states: what was asked for before is no state."""
        return {**self.__dict__, "_plans": {}}

    # Publishing

    def on_publish(self, publication: Publication, out: Outbox) -> None:
        if self.members.is_joining():
            self.waiting.append(publication)
            out.persist(Waiting(publication))
        else:
            self._publish(publication, out)

    def _publish(self, publication: Publication, out: Outbox) -> None:
        epoch = self.members.epochs.get(publication.group, 0)
        self._begin(Copy(publication, b""), epoch, out)

    def on_join_group(self, group: GroupId, out: Outbox) -> None:
        if self.members.is_news(group):
            self._begin(Subscription(group, self.me, b""), 0, out)
            self._look_again([], out)

    def _begin(self, message: Message, epoch: int, out: Outbox) -> None:
        record = Record(message, self.me, epoch, NOBODY, {}, out.now)
        self._stamp(record)
        self._finish(record, out)

    # Processing

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> None:
        if sender not in self.extended:
            out.note("locamu.stranger", sender)
        elif isinstance(message, (Copy, Subscription, Admission)):
            self._on_copy(sender, message, message.header, out)
        elif isinstance(message, Ack):
            self._on_ack(sender, message, out)
        elif isinstance(message, Probe):
            self._on_probe(sender, message, out)
        elif isinstance(message, Want):
            self._on_want(sender, message, out)
        elif isinstance(message, StartOver):
            if sender in self._writers:
                self._writers[sender].start_over()
        elif isinstance(message, Ask):
            self.consultation.on_ask(sender, message)
            self._answer_questions(out)
        elif isinstance(message, Answer):
            inquiry = self.consultation.on_answer(sender, message)
            copies = self.holdback.copies
            self._look_again([key for key in copies if copies[key].inquiry is inquiry], out)

    def _on_copy(self, sender: NodeId, message: Message, data: bytes, out: Outbox) -> None:
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
        key = (sender, NodeId(number))
        older = self.holdback.take(key)
        if older is not None:  # the new one may carry more numbers
            copy.told = older.told
            copy.since = older.since
            self.consultation.drop(older.inquiry)
        self.holdback.put(key, copy)
        self._look_again([key], out)

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
        return any(
            self.me in vector and self.past.has_arrived(issuer, vector[self.me])
            for issuer, vector in copy.numbers.items()
        )

    def _first_missing(self, copy: Arrived) -> Pair | None:
        """The first number addressed to me that the copy depends on and that did not arrive.

        Among its dependencies are the numbers the message itself was given on its way.
        """
        for issuer, to in self._needs_of_me(copy):
            own = copy.numbers[issuer].get(self.me, 0) if issuer in copy.numbers else 0
            gap = self.past.first_gap(issuer, to, own)
            if gap > 0:
                return issuer, NodeId(gap)
        return None

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
            copy.source, copy.needs, copy.inquiry, self.suspected, out
        )

    def _process(self, copy: Arrived, out: Outbox) -> None:
        record = Record(copy.message, copy.origin, copy.epoch, copy.back, copy.numbers, out.now)
        self._take_numbers(record.numbers)
        for pair, number in copy.needs.items():
            self.past.raise_to(pair, number)
        # Numbers of other issuers may have been merged in from other copies: what came before
        # those is not among the dependencies.
        for node, number in copy.numbers[copy.source].items():
            self.past.raise_to((copy.source, node), number)
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
            if self.around.hop(self.me, node) != record.back:
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
        self._wake_duplicates(record.numbers)
        if isinstance(record.message, Copy):
            out.deliver(record.message.publication)
        self._forward(record, out)
        self._acknowledge(record, out)
        self._watch_complete(record)
        if self._is_done(record) and isinstance(record.message, Copy):
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
            self.members.admit(message.group, message.joiner, message.epoch)
            while self.waiting and not self.members.is_joining():
                self._publish(self.waiting.pop(0), out)

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
            arrived = self._take_numbers(copy.numbers)
            if arrived:
                out.persist(Noted(arrived, {}))
            self._acknowledge_to(copy.source, copy.numbers[copy.source][self.me], out)
            return
        numbers = {issuer: row for issuer, row in copy.numbers.items() if issuer != self.me}
        found_origin = record.origin == NOBODY and copy.origin != NOBODY
        news = self.log.learn(record, copy.origin, numbers)
        if news or found_origin:
            self._take_numbers(record.numbers)
            self._wake_duplicates(news)
            stamp = next(stamp for stamp in record.stamps() if stamp[0] != self.me)
            out.persist(Learned(stamp[0], stamp[1], stamp[2], record.origin, news))
            self._watch_complete(record)
            self._acknowledge(record, out)
            self._forward(record, out)
        else:
            self._acknowledge_to(copy.source, copy.numbers[copy.source][self.me], out)
        self._collect(record, out)

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

    # Sending on

    def _forward(self, record: Record, out: Outbox) -> None:
        for node in self.active:
            if node in record.targets:
                self._offer(record, node, False, out)

    def _offer(self, record: Record, node: NodeId, again: bool, out: Outbox) -> None:
        """Send a copy to a target that lacks it, or lacks numbers that are known here."""
        if node in record.complete_at or node not in self.links:
            return
        before = self.paths.upstream(record, node)
        if not self._is_wanted(record, node, before):
            return
        if not self.paths.is_enough(record, before):
            out.note("locamu.unsafe", node)
        elif self._has_room(record, node):
            self._send_copy(record, node, before, again, out)
        else:
            self._behind[node] = None

    def _has_room(self, record: Record, node: NodeId) -> bool:
        """A node that was away is not sent everything at once. It acknowledges in the order things
        were sent; what it cannot process for want of something later, it asks for."""
        under_way = self._under_way.get(node, {})
        return len(under_way) < self.window or record in under_way

    def _send_waiting(self, node: NodeId, out: Outbox) -> None:
        """Acknowledgements made room: go on where it was too small."""
        if node not in self._behind or node not in self.active:
            return
        del self._behind[node]
        for record in self.log.records:
            if node in record.targets:
                self._offer(record, node, False, out)
                if node in self._behind:
                    return

    def _is_wanted(self, record: Record, node: NodeId, before: list[NodeId]) -> bool:
        sent = record.sent.get(node)
        if sent is not None and all(issuer in sent for issuer in before):
            return False
        known = record.known_at.get(node)
        return known is None or not all(issuer in known for issuer in before)

    def _send_copy(
        self, record: Record, node: NodeId, before: list[NodeId], again: bool, out: Outbox
    ) -> None:
        origin = record.origin
        if origin != NOBODY and self.around.distance(origin, node) > self.paths.window:
            origin = NOBODY
        numbers = {issuer: record.numbers[issuer] for issuer in before}
        header = Header(origin, record.epoch, numbers, record.needs)
        writer = self._writers.get(node)
        if writer is None:
            writer = HeaderWriter(self._plan(self.me, node))
            self._writers[node] = writer
        if again:
            writer.start_over()
        if self.compresses:
            data = writer.write(header)
        else:
            data = writer.write_alone(header)
        if self.around.distance(self.me, node) > 1:
            out.note("locamu.jump", node)
        record.sent[node] = before
        record.tried_at[node] = out.now
        if node not in record.complete_at:  # it may ask for what it has got meanwhile
            self._under_way.setdefault(node, {})[record] = None
        out.send(node, with_header(record.message, data), self.links[node])

    # Acknowledging

    def _acknowledge(self, record: Record, out: Outbox) -> None:
        """Tell everybody who numbered it for me, not only who sent it."""
        for issuer, vector in record.numbers.items():
            if self.me in vector and issuer in self.extended:
                self._acknowledge_to(issuer, vector[self.me], out)

    def _acknowledge_to(self, issuer: NodeId, number: int, out: Outbox) -> None:
        due = self._to_acknowledge.get(issuer)
        if due is None:
            self._to_acknowledge[issuer] = {number: None}
            out.start_timer(ACKNOWLEDGE, self.acknowledge_after, issuer)
        else:
            due[number] = None

    def _send_acknowledgements(self, issuer: NodeId, out: Outbox) -> None:
        due = self._to_acknowledge.pop(issuer, {})
        if issuer not in self.links:
            return  # it will send again, or ask, when there is a link
        incomplete = self._incomplete.get(issuer, {})
        complete_to = self.past.arrived[issuer].count
        if incomplete:
            complete_to = min(complete_to, min(incomplete) - 1)
        complete: list[int] = []
        partial: dict[int, list[NodeId]] = {}
        for number in due:
            if number in incomplete:
                record = self.log.at((issuer, self.me, number))
                assert record is not None
                partial[number] = self.paths.upstream(record, self.me)
            elif number > complete_to:
                complete.append(number)
        out.send(issuer, Ack(complete_to, complete, partial), self.links[issuer])

    def _watch_complete(self, record: Record) -> None:
        """Remember which numbers belong to messages whose numbers are not all known."""
        complete = self.paths.is_complete(record)
        for issuer, vector in record.numbers.items():
            if self.me in vector and issuer in self.extended:
                incomplete = self._incomplete.setdefault(issuer, {})
                if complete:
                    incomplete.pop(vector[self.me], None)
                else:
                    incomplete[vector[self.me]] = None

    def _on_ack(self, sender: NodeId, ack: Ack, out: Outbox) -> None:
        under_way = self._under_way.setdefault(sender, {})
        for number in self._newly_acknowledged(sender, ack):
            record = self.log.at((self.me, sender, number))
            if record is not None:
                record.complete_at[sender] = None
                under_way.pop(record, None)
                self._collect(record, out)
        for number, issuers in ack.partial.items():
            record = self.log.at((self.me, sender, number))
            if record is not None:
                record.known_at.setdefault(sender, {}).update(dict.fromkeys(issuers))
                under_way.pop(record, None)
                self._forward(record, out)
        self._send_waiting(sender, out)

    def _newly_acknowledged(self, sender: NodeId, ack: Ack) -> list[int]:
        """The numbers that are complete at the sender and were not known to be."""
        before = self._acknowledged_to.get(sender, 0)
        to = min(ack.complete_to, self.past.numbers.get((self.me, sender), 0))
        self._acknowledged_to[sender] = max(before, to)
        if to - before <= len(self.log.records):
            found = list(range(before + 1, to + 1))
        else:
            given = [record.targets.get(sender, 0) for record in self.log.records]
            found = [number for number in given if before < number <= to]
        return found + ack.complete

    # Repeating and asking

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        if name == ACKNOWLEDGE:
            self._send_acknowledgements(NodeId(subject), out)
        else:
            assert name == REPEAT
            self._repeats = False
            self._repeat(out)
            self._look_again(list(self.holdback.copies), out)

    def _keep_repeating(self, out: Outbox) -> None:
        """The timer runs only while something is unfinished."""
        if not self._repeats and (self.log.records or self.holdback.copies or self._probed):
            self._repeats = True
            out.start_timer(REPEAT, self.repeat_after)

    def _repeat(self, out: Outbox) -> None:
        probes: dict[NodeId, list[int]] = {}
        for record in self.log.records:
            for node, number in record.targets.items():
                tried = record.tried_at.get(node, record.since)
                if node in record.complete_at or out.now - tried < self.repeat_after:
                    continue
                if node in self.active:
                    record.sent.pop(node, None)
                    self._offer(record, node, True, out)
                elif node not in self.suspected:  # somebody nearer brings it; just ask
                    record.tried_at[node] = out.now
                    probes.setdefault(node, []).append(number)
        for node, numbers in probes.items():
            self._tell(node, Probe(numbers), out)
        for node, numbers in self._wanted(out.now).items():
            self._tell(node, Want(numbers), out)
        self.consultation.repeat(out)

    def _wanted(self, now: int) -> dict[NodeId, list[int]]:
        """Numbers that held copies wait for, or that others say should be here."""
        wanted: dict[NodeId, dict[int, None]] = {}
        for copy in self.holdback.copies.values():
            if now - copy.since < self.repeat_after:
                continue
            for issuer, to in self._needs_of_me(copy):
                own = copy.numbers[issuer].get(self.me, 0) if issuer in copy.numbers else 0
                first = self.past.arrived[issuer].count + 1
                gaps = self.past.arrived[issuer].gaps(min(to, first + MOST_WANTED), own)
                wanted.setdefault(issuer, {}).update(dict.fromkeys(gaps))
        for issuer, numbers in self._probed.items():
            missing = [n for n in numbers if not self.past.has_arrived(issuer, n)]
            wanted.setdefault(issuer, {}).update(dict.fromkeys(missing))
        self._probed = {}
        return {node: list(numbers)[:MOST_WANTED] for node, numbers in wanted.items() if numbers}

    def _tell(self, node: NodeId, message: Message, out: Outbox) -> None:
        if node in self.links:
            out.send(node, message, self.links[node])

    def _on_probe(self, sender: NodeId, probe: Probe, out: Outbox) -> None:
        for number in probe.numbers:
            if self.past.has_arrived(sender, number):
                self._acknowledge_to(sender, number, out)
            else:
                self._probed.setdefault(sender, {})[number] = None
        self._keep_repeating(out)

    def _on_want(self, sender: NodeId, want: Want, out: Outbox) -> None:
        """Send what is asked for, even to a node that others should bring it to."""
        for number in want.numbers:
            record = self.log.at((self.me, sender, number))
            if record is not None and sender in self.links:
                before = self.paths.upstream(record, sender)
                if self.paths.is_enough(record, before):
                    out.note("locamu.pulled", sender)
                    self._send_copy(record, sender, before, True, out)

    def _answer_questions(self, out: Outbox) -> None:
        if self.consultation.unanswered:
            kept = [record.numbers for record in self.log.records]
            self.consultation.answer_questions(self.past.arrived, kept, out)

    # Links and suspicions

    def on_neighbour_up(self, peer: NodeId, link: LinkId, newborn: bool, out: Outbox) -> None:
        if peer not in self.extended:
            return
        self.links[peer] = link
        self._writers.pop(peer, None)
        self._readers.pop(peer, None)
        self._send_all_to(peer, out)

    def on_neighbour_down(self, peer: NodeId, link: LinkId, out: Outbox) -> None:
        if self.links.get(peer) == link:
            del self.links[peer]

    def on_suspect(self, peer: NodeId, out: Outbox) -> None:
        if peer in self.extended and peer not in self.suspected:
            self.suspected[peer] = None
            self._under_way.pop(peer, None)
            for record in self.log.records:
                record.sent.pop(peer, None)
            self._change_active(out)

    def on_trust(self, peer: NodeId, out: Outbox) -> None:
        if peer in self.suspected:
            del self.suspected[peer]
            self._change_active(out)

    def _send_all_to(self, peer: NodeId, out: Outbox) -> None:
        """A new link: what was sent on the old one may be lost."""
        self._under_way.pop(peer, None)
        for record in self.log.records:
            record.sent.pop(peer, None)
            if peer in self.active and peer in record.targets:
                self._offer(record, peer, False, out)

    def _change_active(self, out: Outbox) -> None:
        self.active = self._first_live()
        self._watch_budget(out)
        for record in self.log.records:
            self._forward(record, out)
        self._look_again(list(self.holdback.copies), out)

    def _first_live(self) -> dict[NodeId, None]:
        """The first node that is not suspected on every way; the neighbours if none is."""
        return {
            node: None
            for node in self.extended
            if node not in self.suspected
            and all(between in self.suspected for between in self.around.between(self.me, node))
        }

    def _watch_budget(self, out: Outbox) -> None:
        """Say when more nodes are suspected than the protocol works around, and when no more."""
        within = is_within_budget(self.suspected, self.around.tree, self.f)
        if within != self._within_budget:
            self._within_budget = within
            out.note("locamu.within_budget" if within else "locamu.too_many_down")

    # Forgetting, and surviving a crash

    def _is_done(self, record: Record) -> bool:
        """A message is done when its numbers are complete here and at every target."""
        return all(node in record.complete_at for node in record.targets) and (
            self.paths.is_complete(record)
        )

    def _collect(self, record: Record, out: Outbox) -> None:
        if record in self.log.records and self._is_done(record):
            self.log.remove(record)
            # If this is lost in a crash, the record is back and its targets say again that they
            # have it. So it need not be durable at once, and goes with the next entry.
            stamp = record.stamps()[0]
            self._forgotten.append([stamp[0], stamp[1], stamp[2]])
            if out.records:
                out.persist(Forgotten(self._forgotten))
                self._forgotten = []

    def on_recover(self, records: list[Message], out: Outbox) -> None:
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
            elif isinstance(entry, Forgotten):
                for issuer, node, number in entry.stamps:
                    known = self.log.at((NodeId(issuer), NodeId(node), number))
                    if known is not None:
                        self.log.remove(known)
            elif isinstance(entry, Waiting):
                self.waiting.append(entry.publication)
            else:
                assert isinstance(entry, Past)
                self._restore_past(entry)
        for record in self.log.records:
            self._watch_complete(record)
        self._keep_repeating(out)

    def _restore(self, kept: Kept, now: int) -> None:
        origin, back = NodeId(kept.origin), NodeId(kept.back)
        record = Record(kept.message, origin, kept.epoch, back, kept.numbers, now)
        self._take_numbers(record.numbers)
        self.past.restore_raised(kept.raised)
        record.needs = dict(self.past.numbers)
        record.targets = record.numbers.setdefault(self.me, {})
        self.past.restore_raised({self.me: record.targets})
        self.log.add(record)
        message = kept.message
        if isinstance(message, Subscription):
            self.members.remember_joiner(message.group, message.joiner, self._way_back(record))
        elif isinstance(message, Admission):
            self.members.admit(message.group, message.joiner, message.epoch)
            if not self.members.is_joining():
                self.waiting = []  # all were sent off in that step

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
                    record.numbers,
                    nested(raised),
                )
            )
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
        records += [Waiting(publication) for publication in self.waiting]
        return records

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
        if any(publication.id == message for publication in self.waiting):
            found.append("it is sent off when this node has been admitted to its group")
        return found

    def _reason_not_done(self, record: Record, node: NodeId) -> str:
        before = self.paths.upstream(record, node)
        if node in self.suspected:
            return f"node {node} is suspected; it gets the message when it is back"
        if node not in self.active:
            return f"node {node} gets the message from somebody nearer, and has not confirmed"
        if not self.paths.is_enough(record, before):
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

    def state_size(self) -> int:
        return self.past.size() + self.log.size()

    def is_idle(self) -> bool:
        """Whether nothing is kept, awaited or held, as it must be once everybody has everything."""
        gaps = any(numbers.extras for numbers in self.past.arrived.values())
        under_way = any(self._under_way.values())
        kept = self.log.records or self.log.size() or self.holdback.copies or self.waiting
        return not (kept or gaps or under_way)

    def _reader(self, sender: NodeId) -> HeaderReader:
        reader = self._readers.get(sender)
        if reader is None:
            reader = HeaderReader(self._plan(sender, self.me))
            self._readers[sender] = reader
        return reader

    def _plan(self, source: NodeId, target: NodeId) -> LinkPlan:
        plan = self._plans.get((source, target))
        if plan is None:
            plan = LinkPlan(
                self.around, source, target, self.reach, self.paths.window, self.horizon
            )
            self._plans[source, target] = plan
        return plan


def with_header(message: Message, header: bytes) -> Message:
    """The same message with the header for one link."""
    if isinstance(message, Copy):
        return Copy(message.publication, header)
    if isinstance(message, Subscription):
        return Subscription(message.group, message.joiner, header)
    assert isinstance(message, Admission)
    return Admission(message.group, message.joiner, message.epoch, header)


def is_copy_of(message: Message, publication: MessageId) -> bool:
    """Whether a message carries this publication; asked by people only."""
    return isinstance(message, Copy) and message.publication.id == publication


def is_within_budget(down: dict[NodeId, None], tree: Topology, f: int) -> bool:
    """Whether at most f of these nodes lie on any way of 2f+1 nodes."""
    for first in down:
        ways = [[first]]
        for _ in range(2 * f):
            ways = [
                [*way, node] for way in ways for node in tree.neighbours[way[-1]] if node not in way
            ]
            if any(sum(node in down for node in way) > f for way in ways):
                return False
    return True


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
        node in multicast.extended and (record.origin in before or len(before) > multicast.f)
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


SPEC = ProtocolSpec(
    name="locamu",
    summary="Localized fault-tolerant causal multicast over a tree (Santos, Rodrigues 2019).",
    build=build,
    messages=[
        Copy,
        Subscription,
        Admission,
        Ack,
        Probe,
        Want,
        StartOver,
        Kept,
        Noted,
        Learned,
        Forgotten,
        Waiting,
        Past,
        *gap_consultation.MESSAGES,
    ],
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
    at_rest=[nothing_is_left],
    rare=["locamu.jump", "locamu.pulled", "locamu.unsafe", "locamu.too_many_down"],
    cost="numbers of 2f+1 nodes and dependencies within 2f+1 hops, whatever the number of nodes",
    offers=["explain"],
    reach=reach,
)
