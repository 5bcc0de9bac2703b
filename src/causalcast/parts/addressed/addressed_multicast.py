"""Multicast to the members of a group alone: what such protocols share.

A protocol wraps what it sends in a message of its own that says what must come before, and decides
when one that arrived is ready. Here is the rest: reliable links to everybody, member lists that
follow joins and leaves, messages that wait, and how all that comes back after a crash.

All or none of the members get a message, also if its origin dies in the middle and never comes
back. `safe_keeping` keeps what was delivered here until it is at all its destinations, and
hands it over where the origin no longer can. That alone is not enough where groups overlap: who is
not a member of a group may deliver an effect of something that was published there, and pass the
order on, while the cause is lost with its origin; then members would wait for it for ever. So the
rule is: *whoever has a message in its past keeps it, or it is at all its destinations*. Before a
node sends to another, it entrusts to it everything it keeps that was not for that other node. The
other does nothing with it but keep it. (`entrust = false` leaves that out, where bodies must not be
seen outside their group.)
"""

from typing import Final

from mypy_extensions import mypyc_attr

from causalcast.core.automaton import Multicast
from causalcast.core.ids import NO_MESSAGE, GroupId, LinkId, MessageId, NodeId
from causalcast.core.message import Membership, Message, Publication, Wire
from causalcast.core.outbox import Outbox
from causalcast.core.spec import Option, Setup
from causalcast.parts import safe_keeping
from causalcast.parts.addressed import member_lists, reliable_links
from causalcast.parts.addressed.member_lists import Addressed, Joined, Left, MemberLists, Welcome
from causalcast.parts.addressed.reliable_links import ReliableLinks, Sent, Taken
from causalcast.parts.addressed.waiting_room import Entry, Lack, WaitingRoom
from causalcast.parts.safe_keeping import Name, SafeKeeping


class Published(Addressed):
    """A publication, for the members of its group as its origin knew them."""

    wire = Wire(
        "addressed_multicast.published",
        publication=Publication,
        joined=list[NodeId],
        times=list[int],
        left=list[NodeId],
    )

    def __init__(
        self,
        publication: Publication,
        joined: list[NodeId],
        times: list[int],
        left: list[NodeId],
    ) -> None:
        super().__init__(joined, times, left)
        self.publication = publication


class Entrusted(Message):
    """A message of somebody else: take it if it is for you, and keep it if not."""

    wire = Wire("addressed_multicast.entrusted", origin=NodeId, message=Message)

    def __init__(self, origin: NodeId, message: Message) -> None:
        self.origin = origin
        self.message = message

    def joins(self, sender: NodeId) -> list[Membership]:
        return self.message.joins(self.origin)  # whoever brings it


class Waiting(Message):
    """Record of a snapshot: a message that has to wait."""

    wire = Wire("addressed_multicast.waiting", sender=NodeId, message=Message)

    def __init__(self, sender: NodeId, message: Message) -> None:
        self.sender = sender
        self.message = message


class KeptSafe(Message):
    """Record of a snapshot: a message of another node that may not be everywhere yet."""

    wire = Wire("addressed_multicast.kept_safe", origin=NodeId, message=Message)

    def __init__(self, origin: NodeId, message: Message) -> None:
        self.origin = origin
        self.message = message


class Spreading(Message):
    """Record of a snapshot: an own message, and as which parcel it went to each node."""

    wire = Wire(
        "addressed_multicast.spreading", message=Message, to=list[NodeId], parcels=list[int]
    )

    def __init__(self, message: Message, to: list[NodeId], parcels: list[int]) -> None:
        self.message = message
        self.to = to
        self.parcels = parcels


MESSAGES: Final = [
    Published,
    Entrusted,
    Waiting,
    KeptSafe,
    Spreading,
    *member_lists.MESSAGES,
    *reliable_links.MESSAGES,
    *safe_keeping.MESSAGES,
]
OPTIONS: Final = [
    *reliable_links.OPTIONS,
    Option(
        "entrust",
        True,
        # The promise comes first; who must not show bodies to others says so.
        "let nodes outside a group keep copies while a member may lack them; if not, all or none "
        "of the members get what a dead node published only where groups do not overlap",
    ),
]

# Times what acknowledgements may take. The sooner it is known that a message is everywhere, the
# fewer nodes have to be entrusted with it.
ASK_AFTER: Final = 4
EVENTS: Final = reliable_links.EVENTS
RARE: Final = [
    *reliable_links.RARE,
    *safe_keeping.RARE,
    "addressed_multicast.entrusted",
    "addressed_multicast.had_already",
]


@mypyc_attr(allow_interpreted_subclasses=True)
class AddressedMulticast(Multicast):
    """Links, member lists, what waits, and what is kept for origins that may die."""

    def __init__(self, setup: Setup) -> None:
        self.me = setup.me
        self.everybody = setup.topology.everybody()
        self.links = ReliableLinks(setup, body_bytes=self._body_bytes)
        self.lists = MemberLists(setup.me, setup.groups, self.everybody)
        self.waiting = WaitingRoom()
        self._entrusts = setup.flag("entrust")
        self.safe = SafeKeeping(
            ASK_AFTER * setup.number("acknowledge_after"),
            self._everywhere_up_to,
            self._is_on_its_way,
            self._is_lacking,
            self._hand_over,
            self._forget,
            self.needs,
            self._body_bytes,
        )
        # Own messages that somebody may lack: per group of their names, in the order of numbers.
        self._spreading: dict[GroupId, dict[int, Spreading]] = {}
        # Per node: what it has to be entrusted with before anything else is sent to it.
        self._to_entrust: dict[NodeId, dict[tuple[NodeId, Name], Message]] = {}
        self._handed: dict[tuple[NodeId, Name], dict[NodeId, None]] = {}  # what, and to whom
        self._here: dict[tuple[NodeId, Name], None] = {}  # what waits, by its name

    # What a protocol decides. Its messages are those it sends to several nodes.

    def wrap(self, group: GroupId | None, to: list[NodeId], content: Message) -> Message:
        """A message with `content` for a group, or for everybody where there is none."""
        raise AssertionError("a protocol must say what goes with a message")

    def content_of(self, message: Message) -> Message | None:
        """What is inside one of its messages; none if it is something else."""
        raise AssertionError("a protocol must know its messages")

    def name_of(self, message: Message) -> Name:
        """What distinguishes it from all other messages of its sender. Of those with the same
        group, the numbers rise."""
        raise AssertionError("a protocol must have a name for each message")

    def is_old(self, sender: NodeId, name: Name) -> bool:
        """Whether a message for this node was counted."""
        raise AssertionError("a protocol must know what it has counted")

    def lack(self, sender: NodeId, message: Message) -> Lack | None:
        """One thing that it has to wait for; none if it is ready."""
        raise AssertionError("a protocol must say when a message is ready")

    def missing(self, sender: NodeId, message: Message) -> list[MessageId]:
        """All it waits for, as far as ids are known (`NO_MESSAGE` where not); empty if ready."""
        raise AssertionError("a protocol must say what a message waits for")

    def count(self, sender: NodeId, message: Message) -> Lack:
        """Count a message as delivered; returns the key of the messages that waited for it."""
        raise AssertionError("a protocol must count what is ready")

    def count_sent(self, message: Message) -> None:
        """A message of this node was sent."""

    def published_to(self, group: GroupId) -> int:
        """How many publications of this node to a group a new member need not wait for."""
        return 0

    def is_for_me(self, sender: NodeId, message: Message) -> bool:
        """Whether a message that arrives here is to be looked at, or only to be kept."""
        raise AssertionError("a protocol must say what is for this node")

    def needs(self, node: NodeId, message: Message) -> bool:
        """Whether a node that a message was sent to has to have it, as far as is known here."""
        return True

    def takes(self, sender: NodeId, message: Message) -> None:
        """A message for this node is about to wait."""

    def welcomed(self, sender: NodeId, welcome: Welcome) -> None:
        """A node knows of this one's present membership of a group."""

    def begin_membership(self, group: GroupId) -> None:
        """This node is about to join."""

    def end_membership(self, group: GroupId) -> None:
        """This node is about to leave."""

    def keeps(self, origin: NodeId, message: Message) -> None:
        """A message arrived that is not for this node."""

    def on_left(self, member: NodeId, left: Message, group: GroupId, out: Outbox) -> None:
        """A node is no member any more; `left` is the message that said so."""

    def take_other(self, sender: NodeId, taken: Message, out: Outbox | None) -> bool:
        """Take something that only this protocol knows; False if it does not. Without `out` it was
        taken, and answered, before a restart."""
        return False

    # What the node is told

    def on_publish(self, publication: Publication, out: Outbox) -> None:
        group = publication.group
        joined, left = self.lists.joined(group), self.lists.left(group)
        published = Published(publication, list(joined), list(joined.values()), left)
        self._send(group, self.lists.of(group), published, out)
        if self.lists.has(group, self.me):
            out.deliver(publication)

    def on_join_group(self, group: GroupId, out: Outbox) -> None:
        self.begin_membership(group)
        self._send(None, self.everybody, self.lists.join(group), out)

    def on_leave_group(self, group: GroupId, out: Outbox) -> None:
        self.end_membership(group)
        self._send(None, self.everybody, self.lists.leave(group), out)

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> None:
        if self.safe.on_message(sender, message, out):
            return
        for taken in self.links.on_message(sender, message, out):
            entry = self._take(sender, taken, out)
            self.pass_on(out, entry)
            if entry is not None:
                self._tell_if_held(entry[0], entry[1], out)
        self._forget_what_is_everywhere(out)
        self.safe.tend(out)

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        if name == safe_keeping.TEND:
            self.safe.on_timer(out)
        elif name == safe_keeping.TELL:
            self.safe.tell(out)
        else:
            self.links.on_timer(name, subject, out)

    def on_neighbour_up(self, peer: NodeId, link: LinkId, newborn: bool, out: Outbox) -> None:
        self.links.on_neighbour_up(peer, out)
        self.safe.on_neighbour_up(peer, out)

    def on_neighbour_down(self, peer: NodeId, link: LinkId, out: Outbox) -> None:
        self.links.on_neighbour_down(peer, out)
        self.safe.on_neighbour_down(peer, out)

    def on_suspect(self, peer: NodeId, out: Outbox) -> None:
        self.safe.on_suspect(peer, out)

    def on_trust(self, peer: NodeId, out: Outbox) -> None:
        self.safe.on_trust(peer, out)

    def explain(self, message: MessageId) -> list[MessageId]:
        for sender, waiting in self.waiting.entries():
            content = self.content_of(waiting)
            if isinstance(content, Published) and content.publication.id == message:
                causes = self.missing(sender, waiting)
                return [cause for cause in causes if cause != NO_MESSAGE]
        return []

    def state_size(self) -> int:
        shared = self.lists.size() + self.links.size() - self.links.kept()
        return self.waiting.size() + shared + self.kept()

    # After a restart. Deliveries and welcomes stand in the same entries as what led to them, so
    # nothing is said again.

    def on_recover(self, records: list[Message], out: Outbox) -> None:
        for record in records:
            self.restore(record)

    def restore(self, record: Message) -> None:
        """Take in one record; protocols with records of their own add to this."""
        self.links.restore(record)
        self.lists.restore(record)
        if isinstance(record, Sent):
            content = self.content_of(record.content)
            if isinstance(content, Joined):
                self.begin_membership(content.group)
                self.lists.join(content.group)
            elif isinstance(content, Left):
                self.end_membership(content.group)
                self.lists.leave(content.group)
            if content is not None:
                self.count_sent(record.content)
                self._spread(record.content, record.to)
        elif isinstance(record, Taken):
            self._take(record.sender, record.content, None)
            self.pass_ready()
        elif isinstance(record, Waiting):
            self._enter(record.sender, record.message)
        elif isinstance(record, KeptSafe):
            self._keep_safe(record.origin, record.message)
        elif isinstance(record, Spreading):
            self._spreads(record)

    def shared_snapshot(self) -> list[Message]:
        """Records of what stands here; a protocol puts its own before them."""
        entries = self.waiting.entries()
        waiting: list[Message] = [Waiting(sender, message) for sender, message in entries]
        safe = [KeptSafe(origin, message) for origin, _, message in self.safe.copies()]
        lists, links = self.lists.snapshot(), self.links.snapshot()
        return [*waiting, *lists, *links, *safe, *self._own_spreading()]

    # Sending and delivering

    def _send(self, group: GroupId | None, to: list[NodeId], content: Message, out: Outbox) -> None:
        message = self.wrap(group, to, content)
        self.count_sent(message)
        others = [node for node in to if node != self.me]
        for node in others:
            self.entrust(node, out)
        self.links.send(others, message, out)
        self._spread(message, others)

    def _take(self, sender: NodeId, taken: Message, out: Outbox | None) -> Entry | None:
        """Let something that arrived wait, or count, or be kept; what waits comes back."""
        if isinstance(taken, Welcome):
            if self.lists.on_welcome(sender, taken):
                self.welcomed(sender, taken)
            return None
        origin, message = sender, taken
        if isinstance(taken, Entrusted):
            origin, message = taken.origin, taken.message
        if self.content_of(message) is None:
            if not self.take_other(sender, taken, out) and out is not None:
                out.note("addressed_multicast.stray", sender)
            return None
        if origin not in self.links.peers:
            return None  # what was published here needs no keeping by others
        if not self.is_for_me(origin, message):
            if out is not None and isinstance(taken, Entrusted):
                out.note("addressed_multicast.entrusted", sender)
            elif out is not None:
                out.note("addressed_multicast.not_meant", sender)
            self._keep_safe(origin, message)
            self.keeps(origin, message)
            return None
        name = self.name_of(message)
        if self.is_old(origin, name) or (origin, name) in self._here:
            if out is not None:
                out.note("addressed_multicast.had_already", sender)
            return None
        self.takes(origin, message)
        self._enter(origin, message)
        return origin, message

    def _enter(self, sender: NodeId, message: Message) -> None:
        self._here[sender, self.name_of(message)] = None
        self.waiting.enter(sender, message)

    def leave_waiting_only(self, entries: list[Entry]) -> None:
        """Everything else that waits is forgotten."""
        self.waiting.leave_only(entries)
        self._here = {(sender, self.name_of(message)): None for sender, message in entries}

    def pass_on(self, out: Outbox, arrived: Entry | None = None) -> None:
        """Deliver whatever waits for nothing any more, and welcome who joined."""
        for sender, message in self.pass_ready():
            content = self.content_of(message)
            if isinstance(content, Published):
                if self.is_meant(content):
                    if arrived is None or message is not arrived[1]:
                        out.release(content.publication.id)
                    out.deliver(content.publication)
            elif isinstance(content, Joined):
                published = self.published_to(content.group)
                self.links.send([sender], Welcome(content.group, content.time, published), out)
            elif isinstance(content, Left):
                self.on_left(sender, message, content.group, out)

    def pass_ready(self) -> list[Entry]:
        """Count whatever waits for nothing any more, causes before effects."""
        passed: list[Entry] = []
        while True:
            entry = self.waiting.next()
            if entry is None:
                return passed
            lack = self.lack(entry[0], entry[1])
            if lack is None:
                self.waiting.wake(self._pass(entry[0], entry[1]))
                passed.append(entry)
            else:
                self.waiting.wait(lack, entry)

    def _pass(self, sender: NodeId, message: Message) -> Lack:
        counted = self.count(sender, message)
        self._here.pop((sender, self.name_of(message)), None)
        self._keep_safe(sender, message)
        content = self.content_of(message)
        if isinstance(content, Joined):
            self.lists.on_joined(sender, content)
        elif isinstance(content, Left):
            self.lists.on_left(sender, content)
            self._entrust_to_one_that_left(sender)
        return counted

    def is_meant(self, published: Published) -> bool:
        """Whether a publication is for this node's present membership of its group."""
        return self.lists.is_meant(published.publication.group, published)

    def destinations(self, message: Message) -> list[NodeId]:
        """All that a message was sent to."""
        content = self.content_of(message)
        if not isinstance(content, Published):
            return self.everybody
        return self.lists.addressees(content.publication.group, content)

    def _tell_if_held(self, sender: NodeId, message: Message, out: Outbox) -> None:
        content = self.content_of(message)
        waits = (sender, self.name_of(message)) in self._here
        if waits and isinstance(content, Published):
            cause = self.missing(sender, message)[0]
            reason = "a welcome or an earlier message" if cause == NO_MESSAGE else ""
            out.hold(content.publication.id, cause, reason)

    # For origins that may die

    def _spread(self, message: Message, to: list[NodeId]) -> None:
        """An own message is on its way to these."""
        if to:  # else nobody can lack it
            parcels = [self.links.sent_to(node) for node in to]
            self._spreads(Spreading(message, to, parcels))

    def _spreads(self, spreading: Spreading) -> None:
        group, number = self.name_of(spreading.message)
        self._spreading.setdefault(group, {})[number] = spreading
        self._entrust_later(self.me, spreading.message)

    def _own_spreading(self) -> list[Spreading]:
        return [one for several in self._spreading.values() for one in several.values()]

    def _forget_what_is_everywhere(self, out: Outbox) -> None:
        """Own messages to a group get everywhere almost in the order they were sent."""
        for group in list(self._spreading):
            several = self._spreading[group]
            gone: list[int] = []
            for number, spreading in several.items():
                if not self._has_arrived(spreading):
                    break
                gone.append(number)
            for number in gone:
                del several[number]
                self._forget(self.me, (group, number))
            if gone:
                self.safe.got_everywhere(group, gone[-1], out)
            if not several:
                del self._spreading[group]

    def _has_arrived(self, spreading: Spreading) -> bool:
        """Whether all that it is for have it. Who left its group need not."""
        return all(
            self.links.has_taken(node, parcel) or not self.needs(node, spreading.message)
            for node, parcel in zip(spreading.to, spreading.parcels, strict=True)
        )

    def _everywhere_up_to(self, group: GroupId, number: int) -> int:
        for first in self._spreading.get(group, {}):
            return min(number, first - 1)
        return number

    def _is_on_its_way(self, group: GroupId, number: int) -> bool:
        spreading = self._spreading.get(group, {}).get(number)
        return spreading is not None and any(
            self.links.is_up(node) and not self.links.has_taken(node, parcel)
            for node, parcel in zip(spreading.to, spreading.parcels, strict=True)
        )

    def _is_lacking(self, origin: NodeId, group: GroupId, number: int) -> bool:
        name = (group, number)
        if origin == self.me or self.is_old(origin, name) or self.safe.has(origin, name):
            return False
        return (origin, name) not in self._here

    def _keep_safe(self, origin: NodeId, message: Message) -> None:
        name = self.name_of(message)
        others = [node for node in self.destinations(message) if node not in (origin, self.me)]
        if self.safe.keep(origin, name, message, others):
            self._entrust_later(origin, message)

    def _entrust_later(self, origin: NodeId, message: Message) -> None:
        """Whoever is no destination shall have it before anything that follows it."""
        if not self._entrusts:
            return
        to = dict.fromkeys(self.destinations(message))
        name = self.name_of(message)
        for node in self.everybody:
            waits = node in to and self.needs(node, message)
            if not waits and node not in (origin, self.me):
                self._to_entrust.setdefault(node, {})[origin, name] = message

    def _entrust_to_one_that_left(self, node: NodeId) -> None:
        """It waits no longer for what was sent to it as a member."""
        if not self._entrusts:
            return
        own = [sent.message for sent in self._own_spreading()]
        others = [(origin, message) for origin, _, message in self.safe.copies()]
        for origin, message in [*others, *((self.me, message) for message in own)]:
            name = self.name_of(message)
            if origin != node and not self.needs(node, message):
                self._to_entrust.setdefault(node, {})[origin, name] = message

    def entrust(self, node: NodeId, out: Outbox) -> None:
        """What is to be sent to `node` now may follow everything that is kept here."""
        for (origin, _), message in self._to_entrust.pop(node, {}).items():
            self.links.send([node], Entrusted(origin, message), out)

    def _hand_over(self, peer: NodeId, origin: NodeId, message: Message, out: Outbox) -> None:
        """Links bring what they are given: once is enough."""
        handed = self._handed.setdefault((origin, self.name_of(message)), {})
        if peer not in handed:
            handed[peer] = None
            self.entrust(peer, out)
            self.links.send([peer], Entrusted(origin, message), out)

    def _forget(self, origin: NodeId, name: Name) -> None:
        """It is everywhere: nobody has to be entrusted with it any more."""
        self._handed.pop((origin, name), None)
        for node in list(self._to_entrust):
            self._to_entrust[node].pop((origin, name), None)
            if not self._to_entrust[node]:
                del self._to_entrust[node]

    def kept_bytes(self) -> int:
        return self.links.kept_bytes() + self.safe.kept_bytes

    def _body_bytes(self, message: Message) -> int:
        inside = message.message if isinstance(message, Entrusted) else message
        content = self.content_of(inside)
        return len(content.publication.body) if isinstance(content, Published) else 0

    def kept(self) -> int:
        """Messages that somebody may lack, and traces of them."""
        safe = self.safe.size() + len(self._own_spreading())
        return self.links.kept() + safe + len(self._to_entrust) + len(self._handed)


def nothing_waits(multicast: Multicast) -> bool:
    assert isinstance(multicast, AddressedMulticast)
    return multicast.waiting.size() == 0


def nothing_is_kept(multicast: Multicast) -> bool:
    assert isinstance(multicast, AddressedMulticast)
    return multicast.kept() == 0


def tolerates(down: list[NodeId], setup: Setup) -> bool:
    """Any number may be away; they catch up when they are back."""
    return True
