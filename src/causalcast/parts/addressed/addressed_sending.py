"""Brings a message to several nodes: to all of them or to none, whatever dies (sub-automaton).

`reliable_links` bring a message to each of its destinations, as long as its origin lives. If it
dies in the middle and never comes back, `safe_keeping` helps: what was delivered here is kept until
it is at all its destinations, and handed over where the origin no longer can. That alone is not
enough where groups overlap: who is not a member of a group may deliver an effect of something that
was published there, and pass the order on, while the cause is lost with its origin; then members
would wait for it for ever. So the rule is: *whoever has a message in its past keeps it, or it is at
all its destinations*. Before a node sends to another, it entrusts to it everything it keeps that
was not for that other node. The other does nothing with it but keep it. (`entrust = false` leaves
that out, where bodies must not be seen outside their group.)

A protocol asks `send` to bring its messages, which extend `Numbered`, and takes what has `arrived`.
It says of each whether it counts here (`counted`), or is not for this node (`keep`).
"""

from collections.abc import Callable
from typing import Final, final

from causalcast.core.ids import GroupId, NodeId
from causalcast.core.message import Message
from causalcast.core.outbox import Outbox
from causalcast.core.spec import Option, Setup
from causalcast.limits import Limit
from causalcast.parts import safe_keeping
from causalcast.parts.addressed import addressed_messages, member_lists, reliable_links
from causalcast.parts.addressed.addressed_messages import (
    EVERYBODY,
    Entrusted,
    KeptSafe,
    Numbered,
    Published,
    Spreading,
    publication_in,
    unwrapped,
)
from causalcast.parts.addressed.member_lists import NOT_ADDRESSED, Joined, Left, MemberLists
from causalcast.parts.addressed.reliable_links import ReliableLinks, Sent
from causalcast.parts.safe_keeping import CopyOwner, Name, SafeKeeping

MESSAGES: Final = [
    *addressed_messages.MESSAGES,
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
        change_if="nodes outside a group must not see its messages",
    ),
]

# Times what acknowledgements may take. The sooner it is known that a message is everywhere, the
# fewer nodes have to be entrusted with it.
ASK_AFTER: Final = Limit(
    "parts.addressed.addressed_sending.ask_after",
    4,
    least=1,
    most=64,
    unit="times",
    about="the pause of an acknowledgement, before somebody is asked who else has a copy",
)
EVENTS: Final = reliable_links.EVENTS
RARE: Final = [
    *reliable_links.RARE,
    *safe_keeping.RARE,
    "addressed_multicast.entrusted",
    "addressed_multicast.had_already",
]


@final
class AddressedSending(CopyOwner):
    """Own messages on their way, copies of others that may not be everywhere, and who has to be
    entrusted with which of them."""

    def __init__(
        self,
        setup: Setup,
        lists: MemberLists,
        has: Callable[[NodeId, Name], bool],
        who_left_needs: bool,
    ) -> None:
        """`has` says whether the message of an origin with this name came already, or need not
        come; `who_left_needs` whether a node that left a group needs what was sent to it before."""
        self.me = setup.me
        self.everybody = setup.topology.everybody()
        self.links = ReliableLinks(setup, body_bytes=self.body_bytes)
        self.safe = SafeKeeping(
            self, ASK_AFTER.value * setup.number("acknowledge_after"), needs_end=not who_left_needs
        )
        self._lists = lists
        self._has = has
        self._who_left_needs = who_left_needs
        self._entrusts = setup.flag("entrust")
        # Own messages that somebody may lack: per group of their names, in the order of numbers.
        self._spreading: dict[GroupId, dict[int, Spreading]] = {}
        # Per node: what it has to be entrusted with before anything else is sent to it.
        self._to_entrust: dict[NodeId, dict[tuple[NodeId, Name], Numbered]] = {}
        self._handed: dict[tuple[NodeId, Name], dict[NodeId, None]] = {}  # what, and to whom

    # Sending

    def send(self, to: list[NodeId], message: Numbered, out: Outbox) -> None:
        """Bring a message to all of these, or to none."""
        others = [node for node in to if node != self.me]
        for node in others:
            self.entrust(node, out)
        self.links.send(others, message, out)
        self._spread(message, others)

    def tell(self, to: list[NodeId], message: Message, out: Outbox) -> None:
        """Bring something to these that nobody else needs: no order depends on it."""
        self.links.send(to, message, out)

    def entrust(self, node: NodeId, out: Outbox) -> None:
        """What is to be sent to `node` now may follow everything that is kept here."""
        for (origin, _), message in self._to_entrust.pop(node, {}).items():
            self.links.send([node], Entrusted(origin, message), out)

    # Receiving

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> bool:
        """Whether it was a question or an answer about copies, and is done with."""
        return self.safe.on_message(sender, message, out)

    def arrived(self, sender: NodeId, message: Message, out: Outbox) -> list[Message]:
        """What `sender` brings that can be taken now, in the order it was sent; each is persisted,
        and `unwrapped` says whose it is."""
        return self.links.on_message(sender, message, out)

    def keep(self, sender: NodeId, taken: Message, out: Outbox | None) -> None:
        """A message came that is not for this node: it is kept until it is at its destinations."""
        origin, message = unwrapped(sender, taken)
        assert isinstance(message, Numbered)
        if out is not None:
            entrusted = isinstance(taken, Entrusted)
            name = "addressed_multicast.entrusted" if entrusted else "addressed_multicast.not_meant"
            out.note(name, sender)
        self._keep_safe(origin, message)

    def counted(self, origin: NodeId, message: Numbered) -> None:
        """A message counts here from now on: keep it until it is at its other destinations, and
        follow who joined or left by it."""
        self._keep_safe(origin, message)
        content = message.content
        if isinstance(content, Joined):
            self._lists.on_joined(origin, content)
        elif isinstance(content, Left):
            self._lists.on_left(origin, content)
            self._entrust_to_one_that_left(origin)

    def tend(self, out: Outbox) -> None:
        """After a step in which something arrived: forget what is everywhere, go on with the
        rest."""
        self._forget_what_is_everywhere(out)
        self.safe.tend(out)

    # What the node is told

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        """Repeat, acknowledge, ask, offer or tell."""
        if name == safe_keeping.TEND:
            self.safe.on_timer(out)
        elif name == safe_keeping.TELL:
            self.safe.tell(out)
        else:
            self.links.on_timer(name, subject, out)

    def on_neighbour_up(self, peer: NodeId, out: Outbox) -> None:
        """Tell what came from there so far, and expect the same."""
        self.links.on_neighbour_up(peer, out)
        self.safe.on_neighbour_up(peer, out)

    def on_neighbour_down(self, peer: NodeId, out: Outbox) -> None:
        """Send nothing more for now; what it published may be up to us."""
        self.links.on_neighbour_down(peer, out)
        self.safe.on_neighbour_down(peer, out)

    def on_suspect(self, peer: NodeId, out: Outbox) -> None:
        """The detector believes `peer` to be down."""
        self.safe.on_suspect(peer, out)

    def on_trust(self, peer: NodeId, out: Outbox) -> None:
        """The detector believes so no longer."""
        self.safe.on_trust(peer, out)

    # After a restart

    def restore(self, record: Message) -> None:
        """Take in one record; what it means for the order is up to the protocol."""
        self.links.restore(record)
        if isinstance(record, Sent):
            if isinstance(record.content, Numbered):
                self._spread(record.content, record.to)
        elif isinstance(record, KeptSafe):
            assert isinstance(record.message, Numbered)
            self._keep_safe(record.origin, record.message)
        elif isinstance(record, Spreading):
            self._spreads(record)

    def snapshot(self) -> list[Message]:
        """Records for a restart."""
        safe = [KeptSafe(origin, message) for origin, _, message in self.safe.copies()]
        return [*self.links.snapshot(), *safe, *self._own_spreading()]

    # How much there is

    def kept(self) -> int:
        """Messages that somebody may lack, and traces of them."""
        safe = self.safe.size() + len(self._own_spreading())
        return self.links.kept() + safe + len(self._to_entrust) + len(self._handed)

    def kept_bytes(self) -> int:
        """What these take, roughly."""
        return self.links.kept_bytes() + self.safe.kept_bytes

    def size(self) -> int:
        """Entries kept."""
        return self.links.size() - self.links.kept() + self.kept()

    # Own messages on their way

    def _spread(self, message: Numbered, to: list[NodeId]) -> None:
        if to:  # else nobody can lack it
            parcels = [self.links.sent_to(node) for node in to]
            self._spreads(Spreading(message, to, parcels))

    def _spreads(self, spreading: Spreading) -> None:
        message = spreading.message
        assert isinstance(message, Numbered)
        group, number = message.name
        self._spreading.setdefault(group, {})[number] = spreading
        self._entrust_later(self.me, message)

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
                self.forgot(self.me, (group, number))
            if gone:
                self.safe.got_everywhere(group, gone[-1], out)
            if not several:
                del self._spreading[group]

    def _has_arrived(self, spreading: Spreading) -> bool:
        """Whether all that it is for have it. Who left its group need not."""
        return all(
            self.links.has_taken(node, parcel) or not self.is_needed(node, spreading.message)
            for node, parcel in zip(spreading.to, spreading.parcels, strict=True)
        )

    # What `safe_keeping` asks

    def everywhere_up_to(self, group: GroupId, number: int) -> int:
        for first in self._spreading.get(group, {}):
            return min(number, first - 1)
        return number

    def is_on_its_way(self, group: GroupId, number: int) -> bool:
        spreading = self._spreading.get(group, {}).get(number)
        return spreading is not None and any(
            self.links.is_up(node) and not self.links.has_taken(node, parcel)
            for node, parcel in zip(spreading.to, spreading.parcels, strict=True)
        )

    def is_missing(self, origin: NodeId, name: Name) -> bool:
        return not (origin == self.me or self._has(origin, name) or self.safe.has(origin, name))

    def hand_over(self, peer: NodeId, origin: NodeId, message: Message, out: Outbox) -> None:
        """Links bring what they are given: once is enough."""
        assert isinstance(message, Numbered)
        handed = self._handed.setdefault((origin, message.name), {})
        if peer not in handed:
            handed[peer] = None
            self.entrust(peer, out)
            self.links.send([peer], Entrusted(origin, message), out)

    def forgot(self, origin: NodeId, name: Name) -> None:
        """It is everywhere: nobody has to be entrusted with it any more."""
        self._handed.pop((origin, name), None)
        for node in list(self._to_entrust):
            self._to_entrust[node].pop((origin, name), None)
            if not self._to_entrust[node]:
                del self._to_entrust[node]

    def is_needed(self, node: NodeId, message: Message) -> bool:
        """Whether a node that a message was sent to has to have it, as far as is known here.

        Unless `who_left_needs`, who left, or left and joined again, does not wait for what was sent
        to it before.
        """
        assert isinstance(message, Numbered)
        group = message.name[0]
        if self._who_left_needs or group == EVERYBODY:
            return True
        return self.is_addressed(message, group, node, self._lists.time_of(group, node))

    def body_bytes(self, message: Message) -> int:
        publication = publication_in(message)
        return 0 if publication is None else len(publication.body)

    # Whom a message is for

    def is_addressed(self, message: Numbered, group: GroupId, node: NodeId, time: int) -> bool:
        """Whether a message to a group is meant for the `time`-th membership of `node`."""
        content = message.content
        if message.name[0] != group or not isinstance(content, Published):
            return False
        if time == NOT_ADDRESSED:
            return False
        return self._lists.time_addressed(group, content, node) == time

    def _destinations(self, message: Numbered) -> list[NodeId]:
        content = message.content
        if not isinstance(content, Published):
            return self.everybody
        return self._lists.addressees(content.publication.group, content)

    # Copies for those who are no destinations

    def _keep_safe(self, origin: NodeId, message: Numbered) -> None:
        others = [node for node in self._destinations(message) if node not in (origin, self.me)]
        if self.safe.keep(origin, message.name, message, others):
            self._entrust_later(origin, message)

    def _entrust_later(self, origin: NodeId, message: Numbered) -> None:
        """Whoever is no destination shall have it before anything that follows it."""
        if not self._entrusts:
            return
        to = dict.fromkeys(self._destinations(message))
        name = message.name
        for node in self.everybody:
            waits = node in to and self.is_needed(node, message)
            if not waits and node not in (origin, self.me):
                self._to_entrust.setdefault(node, {})[origin, name] = message

    def _entrust_to_one_that_left(self, node: NodeId) -> None:
        """It waits no longer for what was sent to it as a member."""
        if not self._entrusts:
            return
        own = [(self.me, sent.message) for sent in self._own_spreading()]
        others = [(origin, message) for origin, _, message in self.safe.copies()]
        for origin, message in [*others, *own]:
            assert isinstance(message, Numbered)
            if origin != node and not self.is_needed(node, message):
                self._to_entrust.setdefault(node, {})[origin, message.name] = message


def tolerates(down: list[NodeId], setup: Setup) -> bool:
    """Any number may be away; they catch up when they are back."""
    return True
