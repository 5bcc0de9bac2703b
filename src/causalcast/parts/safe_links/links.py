"""Links that must become safe before order can rely on them, and the multicast on top of them.

A direction X -> Y of a link is *safe* when Y knows exactly which messages will come over it: from
then on X sends Y one token for each message that X delivers, in the order of X's deliveries. A
message that arrives on a safe direction therefore comes after its causes, and it is new unless Y
remembers that X owed it (`Link.owed`). What is owed is forgotten once it has come, so the memory of
a link empties itself.

How a new link becomes safe is the business of a `LinkSetup`; there are two, `safe_path` and
`vector`. What a token is, and who gets the payload, is the business of the protocol, which extends
`SafeLinkMulticast`.

Every link is a record of its own, with the name of the connection. A peer that comes back on a new
connection has a new record, whether or not the end of the old one was heard.
"""

from typing import Final, final

from mypy_extensions import mypyc_attr

from causalcast.core.automaton import Multicast
from causalcast.core.duration import SECOND
from causalcast.core.ids import LinkId, MessageId, NodeId
from causalcast.core.message import Message, Publication
from causalcast.core.outbox import Outbox
from causalcast.parts.kept_weight import KEPT_OVERHEAD

ORPHAN: Final = "safe_links.orphan"
# A birth takes a few round trips; after a second something is wrong.
ORPHAN_FIRST: Final = 1 * SECOND
ORPHAN_LONGEST: Final = 32 * SECOND


@mypyc_attr(allow_interpreted_subclasses=True)
class Link:
    """One connection to a neighbour: what is safe, and what the peer still owes."""

    def __init__(self, peer: NodeId, name: LinkId) -> None:
        self.peer = peer
        self.name = name
        self.safe_out = False  # the peer knows what it gets from us
        self.safe_in = False  # we know what we get from the peer
        self.owed: dict[MessageId, int] = {}  # delivered here, the peer's token is still to come
        self.safe_since = 0  # our count of deliveries when `safe_out` began
        self.told_settled = False
        self.is_given_up = False

    def burden(self) -> int:
        """How much is kept for this link; without bound while a dead peer is not noticed."""
        return len(self.owed)


@final
class Delivery:
    """A publication in the order of deliveries, and its hops from the origin."""

    __slots__ = ("hops", "publication")

    def __init__(self, publication: Publication, hops: int) -> None:
        self.publication = publication
        self.hops = hops


@mypyc_attr(allow_interpreted_subclasses=True)
class LinkSetup:
    """Makes new links safe, and lets a newcomer be born."""

    def on_up(self, link: Link, out: Outbox) -> None:
        """A link came up."""
        raise AssertionError("a set-up must know what to do with a new link")

    def on_lost(self, link: Link, out: Outbox) -> None:
        """A link is gone; its record has been removed already."""
        raise AssertionError("a set-up must know what to forget")

    def on_message(self, link: Link, message: Message, out: Outbox) -> None:
        """A message of the set-up came."""
        raise AssertionError("a set-up must know its messages")

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        """A timer of the set-up ran out."""
        raise AssertionError("a set-up must know its timers")

    def on_delivery(self, publication: Publication, hops: int, out: Outbox) -> None:
        """A publication is delivered here for the first time."""
        raise AssertionError("a set-up must know what was delivered")

    def is_next(self, publication: Publication) -> bool:
        """Whether it follows what its origin published before, as far as that can be told."""
        return True

    def was_delivered(self, message: MessageId) -> bool:
        """Whether it was delivered here, as far as that is remembered."""
        return False

    def size(self) -> int:
        """Entries kept."""
        return 0


@mypyc_attr(allow_interpreted_subclasses=True)
class SafeLinkMulticast(Multicast):
    """Links, whether this node is born, and what it wants to say when it is.

    A node is born once its history begins somewhere: founders are, a newcomer is when a neighbour
    has taken it in. It is born after everything that neighbour had delivered, and never delivers
    any of that. What it publishes before is delivered here at once and spread from its birth on.
    """

    def __init__(self, me: NodeId, newcomer: bool) -> None:
        self.me = me
        self.links: dict[NodeId, Link] = {}
        self.named: dict[LinkId, Link] = {}
        self.born = not newcomer
        self.delivered = 0  # counts deliveries
        self.out_of_turn = 0  # counts what no honest neighbour would have brought
        self.backlog: list[Publication] = []
        self._backlog_bytes = 0  # that these take, roughly
        self.most_kept = 0  # for one link; 0: without limit
        self._orphan_for = 0  # how long an unborn node waits before it complains; 0: not yet
        self.setup = LinkSetup()  # replaced by whoever builds the protocol

    # What a protocol says

    def new_link(self, peer: NodeId, name: LinkId) -> Link:
        """A record for a new link."""
        return Link(peer, name)

    def spread(self, publication: Publication, hops: int, source: Link | None, out: Outbox) -> None:
        """Give every safe link its token, and note what safe links owe us."""
        raise AssertionError("a protocol must know how to spread")

    def on_token(self, link: Link, message: Message, out: Outbox) -> None:
        """A message of the protocol came."""
        raise AssertionError("a protocol must know its messages")

    def send_in_stream(self, link: Link, message: Message, out: Outbox) -> None:
        """Send something that must not overtake tokens."""
        send_in_order(link, message, out)

    def peer_has(self, link: Link, message: MessageId, out: Outbox) -> None:
        """The peer certainly has this message."""

    def link_gone(self, link: Link, out: Outbox) -> None:
        """Forget what was kept about a link."""

    # Neighbours

    def on_neighbour_up(self, peer: NodeId, link: LinkId, newborn: bool, out: Outbox) -> None:
        old = self.links.get(peer)
        if old is not None:  # its end was not heard yet
            self._drop(old, out)
        new = self.new_link(peer, link)
        self.links[peer] = new
        self.named[link] = new
        self.setup.on_up(new, out)
        if not self.born and self._orphan_for == 0:
            self._orphan_for = ORPHAN_FIRST
            out.start_timer(ORPHAN, self._orphan_for)

    def on_neighbour_down(self, peer: NodeId, link: LinkId, out: Outbox) -> None:
        known = self.named.get(link)
        if known is not None:
            self._drop(known, out)

    def _drop(self, link: Link, out: Outbox) -> None:
        del self.links[link.peer]
        del self.named[link.name]
        self.link_gone(link, out)
        self.setup.on_lost(link, out)

    # Publications

    def on_publish(self, publication: Publication, out: Outbox) -> None:
        if self.born:
            self.accept(publication, 0, None, out)
        else:
            self.backlog.append(publication)
            self._backlog_bytes += KEPT_OVERHEAD + len(publication.body)
            out.note("safe_links.waits_for_birth", publication.id)
            out.deliver(publication)

    def takes_part(self) -> bool:
        return self.born

    def kept_bytes(self) -> int:
        return self._backlog_bytes

    def be_born(self, out: Outbox) -> None:
        """The history of this node begins: spread what waited for it."""
        assert not self.born
        self.born = True
        waiting, self.backlog = self.backlog, []
        self._backlog_bytes = 0
        for publication in waiting:
            self._begin(publication, 0, None, out)

    def accept(self, publication: Publication, hops: int, source: Link | None, out: Outbox) -> bool:
        """A publication is new: spread it, then deliver it. False if it cannot be next."""
        if source is not None and not self.setup.is_next(publication):
            # A safe link brings everything in order: whoever is at its other end lies.
            self.out_of_turn += 1
            out.note("safe_links.out_of_turn", source.peer)
            return False
        self._begin(publication, hops, source, out)
        out.deliver(publication)  # after the sends: an answer must not overtake it
        return True

    def _begin(self, publication: Publication, hops: int, source: Link | None, out: Outbox) -> None:
        self.delivered += 1
        self.setup.on_delivery(publication, hops, out)
        self.spread(publication, hops, source, out)
        if self.most_kept:
            self._give_up_the_silent(out)

    def _give_up_the_silent(self, out: Outbox) -> None:
        """A peer that takes and sends nothing: rather another neighbour than endless memory."""
        for link in self.links.values():
            if not link.is_given_up and link.burden() > self.most_kept:
                link.is_given_up = True
                out.note("safe_links.given_up", link.peer)
                out.switch(link.name)

    # Links that became safe

    def make_out_safe(self, link: Link, out: Outbox) -> None:
        """From now on the peer gets one token for each of our deliveries."""
        link.safe_out = True
        link.safe_since = self.delivered
        self._settle(out)

    def make_in_safe(self, link: Link, owed: dict[MessageId, int], out: Outbox) -> None:
        """From now on the peer sends tokens, also for what it owes."""
        link.safe_in = True
        link.owed = owed
        self._settle(out)

    def _settle(self, out: Outbox) -> None:
        """With a second link that is safe both ways, no single one is needed any more."""
        usable = [link for link in self.links.values() if link.safe_in and link.safe_out]
        if len(usable) >= 2:
            for link in usable:
                if not link.told_settled:
                    link.told_settled = True
                    out.settled(link.name)

    # Everything else

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> None:
        link = self.links.get(sender)
        if link is None:
            out.note("safe_links.from_stranger", sender)
        else:
            self.on_token(link, message, out)

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        if name == ORPHAN:
            self._complain(out)
        else:
            self.setup.on_timer(name, subject, out)

    def _complain(self, out: Outbox) -> None:
        """Still unborn: newcomers that have only one another as neighbours are never born."""
        if not self.born:
            out.note("safe_links.orphan")
            self._orphan_for = min(2 * self._orphan_for, ORPHAN_LONGEST)
            out.start_timer(ORPHAN, self._orphan_for)
            out.orphan()

    def state_size(self) -> int:
        owed = sum(len(link.owed) for link in self.links.values())
        return owed + len(self.backlog) + self.setup.size()


def send_in_order(link: Link, message: Message, out: Outbox) -> None:
    """Send what carries order: never where the other end does not know yet what comes."""
    assert link.safe_out, f"{message!r} for {link.peer}, and that direction is not safe"
    out.send(link.peer, message, link.name)


def reached_by(multicast: Multicast) -> list[NodeId]:
    """The neighbours that are certain to get what this node delivers."""
    assert isinstance(multicast, SafeLinkMulticast)
    return [link.peer for link in multicast.links.values() if link.safe_out]


def all_came_in_turn(multicast: Multicast) -> bool:
    """No neighbour brought what could not be next; in a simulation everybody is honest."""
    assert isinstance(multicast, SafeLinkMulticast)
    return multicast.out_of_turn == 0


def nothing_is_owed(multicast: Multicast) -> bool:
    """At rest every neighbour has sent all its tokens."""
    assert isinstance(multicast, SafeLinkMulticast)
    return not any(link.owed for link in multicast.links.values())
