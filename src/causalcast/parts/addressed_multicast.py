"""Multicast to the members of a group alone: what such protocols share.

A protocol wraps what it sends in a message of its own that says what must come before, and decides
when one that arrived is ready. Here is the rest: reliable links to everybody, member lists that
follow joins and leaves, messages that wait, and how all that comes back after a crash.
"""

from typing import Final

from mypy_extensions import mypyc_attr

from causalcast.core.automaton import Multicast
from causalcast.core.ids import NO_MESSAGE, GroupId, LinkId, MessageId, NodeId
from causalcast.core.message import Message, Publication, Wire
from causalcast.core.outbox import Outbox
from causalcast.core.spec import Setup
from causalcast.parts import member_lists, reliable_links
from causalcast.parts.member_lists import Joined, Left, MemberLists, Welcome
from causalcast.parts.reliable_links import ReliableLinks, Sent, Taken


class Published(Message):
    """A publication, for the members of its group."""

    wire = Wire("addressed_multicast.published", publication=Publication)

    def __init__(self, publication: Publication) -> None:
        self.publication = publication


class Waiting(Message):
    """Record of a snapshot: a message that has to wait."""

    wire = Wire("addressed_multicast.waiting", sender=NodeId, message=Message)

    def __init__(self, sender: NodeId, message: Message) -> None:
        self.sender = sender
        self.message = message


MESSAGES: Final = [Published, Waiting, *member_lists.MESSAGES, *reliable_links.MESSAGES]


@mypyc_attr(allow_interpreted_subclasses=True)
class AddressedMulticast(Multicast):
    """Links, member lists, and what waits."""

    def __init__(self, setup: Setup) -> None:
        self.me = setup.me
        self.everybody = setup.topology.everybody()
        self.links = ReliableLinks(setup)
        self.lists = MemberLists(setup.me, setup.groups, self.everybody)
        self.waiting: list[tuple[NodeId, Message]] = []

    # What a protocol decides. Its messages are those it sends to several nodes.

    def wrap(self, group: GroupId | None, to: list[NodeId], content: Message) -> Message:
        """A message with `content` for a group, or for everybody where there is none."""
        raise AssertionError("a protocol must say what goes with a message")

    def content_of(self, message: Message) -> Message | None:
        """What is inside one of its messages; none if it is something else."""
        raise AssertionError("a protocol must know its messages")

    def missing(self, sender: NodeId, message: Message) -> list[MessageId]:
        """What it waits for, as far as ids are known (`NO_MESSAGE` where not); empty if ready."""
        raise AssertionError("a protocol must say when a message is ready")

    def count(self, sender: NodeId, message: Message) -> None:
        """A message of another node is ready and counts as delivered from now on."""

    def count_sent(self, message: Message) -> None:
        """A message of this node was sent."""

    def published_to(self, group: GroupId) -> int:
        """How many publications of this node to a group a new member need not wait for."""
        return 0

    def is_for_me(self, sender: NodeId, message: Message) -> bool:
        """Whether a message that arrives here is to be looked at at all."""
        return True

    def welcomed(self, sender: NodeId, welcome: Welcome) -> None:
        """A node knows of this one's present membership of a group."""

    def begin_membership(self, group: GroupId) -> None:
        """This node is about to join."""

    def end_membership(self, group: GroupId) -> None:
        """This node is about to leave."""

    # What the node is told

    def on_publish(self, publication: Publication, out: Outbox) -> None:
        group = publication.group
        self._send(group, self.lists.of(group), Published(publication), out)
        if self.lists.has(group, self.me):
            out.deliver(publication)

    def on_join_group(self, group: GroupId, out: Outbox) -> None:
        self.begin_membership(group)
        self._send(None, self.everybody, self.lists.join(group), out)

    def on_leave_group(self, group: GroupId, out: Outbox) -> None:
        self.end_membership(group)
        self._send(None, self.everybody, self.lists.leave(group), out)

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> None:
        for taken in self.links.on_message(sender, message, out):
            if self._take(sender, taken):
                self.pass_on(out, taken)
                self._tell_if_held(sender, taken, out)
            else:
                out.note("addressed_multicast.not_meant", sender)

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        self.links.on_timer(name, subject, out)

    def on_neighbour_up(self, peer: NodeId, link: LinkId, newborn: bool, out: Outbox) -> None:
        self.links.on_neighbour_up(peer, out)

    def on_neighbour_down(self, peer: NodeId, link: LinkId, out: Outbox) -> None:
        self.links.on_neighbour_down(peer, out)

    def explain(self, message: MessageId) -> list[MessageId]:
        for sender, waiting in self.waiting:
            content = self.content_of(waiting)
            if isinstance(content, Published) and content.publication.id == message:
                causes = self.missing(sender, waiting)
                return [cause for cause in causes if cause != NO_MESSAGE]
        return []

    def state_size(self) -> int:
        return len(self.waiting) + self.lists.size() + self.links.size()

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
        elif isinstance(record, Taken):
            if self._take(record.sender, record.content):
                self.pass_ready()
        elif isinstance(record, Waiting):
            self.waiting.append((record.sender, record.message))

    def shared_snapshot(self) -> list[Message]:
        """Records of what stands here; a protocol puts its own before them."""
        waiting: list[Message] = [Waiting(sender, message) for sender, message in self.waiting]
        return [*waiting, *self.lists.snapshot(), *self.links.snapshot()]

    # Sending and delivering

    def _send(self, group: GroupId | None, to: list[NodeId], content: Message, out: Outbox) -> None:
        message = self.wrap(group, to, content)
        self.count_sent(message)
        self.links.send(to, message, out)

    def _take(self, sender: NodeId, taken: Message) -> bool:
        """Let something that arrived wait, or count; False if it is not for this node."""
        if isinstance(taken, Welcome):
            if self.lists.on_welcome(sender, taken):
                self.welcomed(sender, taken)
            return True
        if self.content_of(taken) is None or not self.is_for_me(sender, taken):
            return False
        self.waiting.append((sender, taken))
        return True

    def pass_on(self, out: Outbox, arrived: Message | None = None) -> None:
        """Deliver whatever waits for nothing any more, and welcome who joined."""
        for sender, message in self.pass_ready():
            content = self.content_of(message)
            if isinstance(content, Published):
                if self.lists.is_meant(content.publication.group, sender):
                    if message is not arrived:
                        out.release(content.publication.id)
                    out.deliver(content.publication)
            elif isinstance(content, Joined):
                published = self.published_to(content.group)
                self.links.send([sender], Welcome(content.group, content.time, published), out)

    def pass_ready(self) -> list[tuple[NodeId, Message]]:
        """Count whatever waits for nothing any more, causes before effects."""
        passed: list[tuple[NodeId, Message]] = []
        found = True
        while found:
            found = False
            for entry in self.waiting:
                if not self.missing(entry[0], entry[1]):
                    self.waiting.remove(entry)
                    self._pass(entry[0], entry[1])
                    passed.append(entry)
                    found = True
                    break
        return passed

    def _pass(self, sender: NodeId, message: Message) -> None:
        self.count(sender, message)
        content = self.content_of(message)
        if isinstance(content, Joined):
            self.lists.on_joined(sender, content)
        elif isinstance(content, Left):
            self.lists.on_left(sender, content)

    def _tell_if_held(self, sender: NodeId, message: Message, out: Outbox) -> None:
        content = self.content_of(message)
        if isinstance(content, Published) and (sender, message) in self.waiting:
            cause = self.missing(sender, message)[0]
            reason = "a welcome or an earlier message" if cause == NO_MESSAGE else ""
            out.hold(content.publication.id, cause, reason)


def nothing_waits(multicast: Multicast) -> bool:
    assert isinstance(multicast, AddressedMulticast)
    return not multicast.waiting


def nothing_is_kept(multicast: Multicast) -> bool:
    assert isinstance(multicast, AddressedMulticast)
    return multicast.links.kept() == 0


def tolerates(down: list[NodeId], setup: Setup) -> bool:
    """Any number may be away; they catch up when they are back."""
    return True
