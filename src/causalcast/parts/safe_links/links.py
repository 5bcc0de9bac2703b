"""Links that must become safe before order can rely on them, and when a node is born.

A direction X -> Y of a link is *safe* when Y knows exactly which messages will come over it: from
then on X sends Y one token for each message that X delivers, in the order of X's deliveries. A
message that arrives on a safe direction therefore comes after its causes, and it is new unless Y
remembers that X owed it (`Link.owed`). What is owed is forgotten once it has come, so the memory of
a link empties itself.

How a new link becomes safe is the business of a `LinkSetup`; there are two, `safe_path` and
`vector`. What a token is, and who gets the payload, is the business of the protocol, which has
`SafeLinks` and tells them its `Tokens`.

Every link is a record of its own, with the name of the connection. A peer that comes back on a new
connection has a new record, whether or not the end of the old one was heard.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, final

from mypy_extensions import mypyc_attr

from causalcast.core.automaton import Multicast
from causalcast.core.duration import MILLISECOND, SECOND
from causalcast.core.ids import LinkId, MessageId, NodeId
from causalcast.core.message import Message, Publication
from causalcast.core.outbox import Outbox
from causalcast.core.spec import Setup
from causalcast.limits import Limit
from causalcast.parts.kept_weight import KEPT_OVERHEAD

ORPHAN: Final = "safe_links.orphan"
# A birth takes a few round trips; after a second something is wrong.
ORPHAN_FIRST: Final = Limit(
    "parts.safe_links.links.orphan_first",
    1 * SECOND,
    least=10 * MILLISECOND,
    most=60 * SECOND,
    unit="us",
    about="until a node without safe links asks for help",
)
ORPHAN_LONGEST: Final = Limit(
    "parts.safe_links.links.orphan_longest",
    32 * SECOND,
    least=10 * MILLISECOND,
    most=600 * SECOND,
    unit="us",
    about="the longest pause between such questions",
)


@mypyc_attr(allow_interpreted_subclasses=True)
class Link:
    """One connection to a neighbour: what is safe, and what the peer still owes."""

    def __init__(self, peer: NodeId, name: LinkId) -> None:
        self.peer = peer
        self.name = name
        self.safe_out = False  # the peer knows what it gets from us
        self.safe_in = False  # we know what we get from the peer
        self.owed: dict[MessageId, int] = {}  # delivered here, the peer's token is still to come
        self.up_at = 0  # our count of deliveries when the link came up
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
class LinkSetup(ABC):
    """Makes new links safe, and lets a newcomer be born."""

    @abstractmethod
    def on_up(self, link: Link, out: Outbox) -> None:
        """A link came up."""

    @abstractmethod
    def on_lost(self, link: Link, out: Outbox) -> None:
        """A link is gone; its record has been removed already."""

    @abstractmethod
    def on_message(self, link: Link, message: Message, out: Outbox) -> None:
        """A message of the set-up came."""

    @abstractmethod
    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        """A timer of the set-up ran out."""

    @abstractmethod
    def on_delivery(self, publication: Publication, hops: int, out: Outbox) -> None:
        """A publication is delivered here for the first time."""

    def is_next(self, publication: Publication) -> bool:
        """Whether it follows what its origin published before, as far as that can be told."""
        return True

    def was_delivered(self, message: MessageId) -> bool:
        """Whether it was delivered here, as far as that is remembered."""
        return False

    def reach(self) -> int:
        """How many deliveries back a link that came up then can be made safe; -1: all."""
        return -1

    def is_in_reach(self, link: Link) -> bool:
        """Whether a link can be made safe, as far as is known."""
        return True

    def is_left_behind(self) -> bool:
        """Whether this node hears nobody, and its neighbours have forgotten what it lacks."""
        return False

    @abstractmethod
    def size(self) -> int:
        """Entries kept."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Tokens(ABC):
    """What a protocol says on safe links: `SafeLinks` asks it when something is to be said."""

    @abstractmethod
    def spread(self, publication: Publication, hops: int, source: Link | None, out: Outbox) -> None:
        """Give every safe link its token, and note what safe links owe us."""

    @abstractmethod
    def peer_has(self, link: Link, message: MessageId, out: Outbox) -> None:
        """The peer certainly has this message."""

    @abstractmethod
    def link_gone(self, link: Link, out: Outbox) -> None:
        """Forget what was kept about a link."""

    def new_link(self, peer: NodeId, name: LinkId) -> Link:
        """A record for a new link."""
        return Link(peer, name)

    def send_in_stream(self, link: Link, message: Message, out: Outbox) -> None:
        """Send something that must not overtake tokens."""
        send_in_order(link, message, out)


@final
class SafeLinks:
    """Links, whether this node is born, and what it wants to say when it is.

    A node is born once its history begins somewhere: founders are, a newcomer is when a neighbour
    has taken it in. It is born after everything that neighbour had delivered, and never delivers
    any of that. What it publishes before is delivered here at once and spread from its birth on.
    """

    def __init__(
        self,
        setup: Setup,
        tokens: Tokens,
        make_link_setup: Callable[["SafeLinks"], LinkSetup],
    ) -> None:
        self.me = setup.me
        self.tokens = tokens
        self.links: dict[NodeId, Link] = {}
        self.named: dict[LinkId, Link] = {}
        self.born = not setup.newcomer
        self.delivered = 0  # counts deliveries
        self.out_of_turn = 0  # counts what no honest neighbour would have brought
        self.backlog: list[Publication] = []
        self._backlog_bytes = 0  # that these take, roughly
        self.most_kept = setup.number("most_kept")  # for one link; 0: without limit
        self._orphan_for = 0  # how long an unborn node waits before it complains; 0: not yet
        self.setup = make_link_setup(self)

    # Neighbours

    def on_neighbour_up(self, peer: NodeId, link: LinkId, out: Outbox) -> None:
        """There is a new link: begin to make it safe."""
        old = self.links.get(peer)
        if old is not None:  # its end was not heard yet
            self._drop(old, out)
        new = self.tokens.new_link(peer, link)
        new.up_at = self.delivered
        self.links[peer] = new
        self.named[link] = new
        self.setup.on_up(new, out)
        if not self.born and self._orphan_for == 0:
            self._orphan_for = ORPHAN_FIRST.value
            out.start_timer(ORPHAN, self._orphan_for)

    def on_neighbour_down(self, link: LinkId, out: Outbox) -> None:
        """A link is gone."""
        known = self.named.get(link)
        if known is not None:
            self._drop(known, out)

    def _drop(self, link: Link, out: Outbox) -> None:
        del self.links[link.peer]
        del self.named[link.name]
        self.tokens.link_gone(link, out)
        self.setup.on_lost(link, out)

    def link_of(self, sender: NodeId, out: Outbox) -> Link | None:
        """The link on which something came from `sender`; none if it is no neighbour."""
        link = self.links.get(sender)
        if link is None:
            out.note("safe_links.from_stranger", sender)
        return link

    # Publications

    def publish(self, publication: Publication, out: Outbox) -> None:
        """Spread and deliver an own publication; an unborn node spreads it later."""
        if self.born:
            self.accept(publication, 0, None, out)
        else:
            self.backlog.append(publication)
            self._backlog_bytes += KEPT_OVERHEAD + len(publication.body)
            out.note("safe_links.waits_for_birth", publication.id)
            out.deliver(publication)

    def kept_bytes(self) -> int:
        """Bytes of what waits for the birth."""
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
        self.tokens.spread(publication, hops, source, out)
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

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        """A timer of the links or of their set-up ran out."""
        if name == ORPHAN:
            self._complain(out)
        else:
            self.setup.on_timer(name, subject, out)

    def _complain(self, out: Outbox) -> None:
        """Still unborn: newcomers that have only one another as neighbours are never born."""
        if not self.born:
            out.note("safe_links.orphan")
            self._orphan_for = min(2 * self._orphan_for, ORPHAN_LONGEST.value)
            out.start_timer(ORPHAN, self._orphan_for)
            out.orphan()

    def size(self) -> int:
        """Entries kept."""
        owed = sum(len(link.owed) for link in self.links.values())
        return owed + len(self.backlog) + self.setup.size()


def send_in_order(link: Link, message: Message, out: Outbox) -> None:
    """Send what carries order: never where the other end does not know yet what comes."""
    assert link.safe_out, f"{message!r} for {link.peer}, and that direction is not safe"
    out.send(link.peer, message, link.name)


def safe_links_of(multicast: Multicast) -> SafeLinks:
    """Those of a protocol which has them under the name `safe`."""
    safe = getattr(multicast, "safe", None)
    assert isinstance(safe, SafeLinks)
    return safe


def reached_by(multicast: Multicast) -> list[NodeId]:
    """The neighbours that are certain to get what this node delivers."""
    return [link.peer for link in safe_links_of(multicast).links.values() if link.safe_out]


def all_came_in_turn(multicast: Multicast) -> bool:
    """No neighbour brought what could not be next; in a simulation everybody is honest."""
    return safe_links_of(multicast).out_of_turn == 0


def nothing_is_owed(multicast: Multicast) -> bool:
    """At rest every neighbour has sent all its tokens."""
    return not any(link.owed for link in safe_links_of(multicast).links.values())
