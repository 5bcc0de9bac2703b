"""Makes a link safe in one round trip on the link itself, by comparing what was delivered.

Causal delivery is FIFO per origin, so what a node has delivered is one count per origin. On a new
link each end tells its counts; the other sends what lies beyond them, from a log of its last
deliveries, and the direction is safe from there. No path through others is needed, so a half that
was cut off, or a node that lost all neighbours at once, comes back with nothing missing, as far as
the log reaches. Where it does not reach, the link is not used, the gap is noted at both ends, and
the one behind learns how far it must come: when others have filled the gap it tells its counts
again. If that takes long, the overlay is asked for another neighbour. The link over which a
newcomer was told where its history begins is safe at once: it lacks what comes from then on.

Nobody can fill the gap of a node that hears nobody else. If it stays so, that node was left behind:
it can only come back as somebody new. Where each of two has forgotten what the other lacks, the one
stays that hears others, or else the one with the smaller id.

Not from the thesis; the price is one count per origin at every node and on every new link.
"""

from typing import Final, final

from causalcast.core.duration import SECOND
from causalcast.core.ids import (
    ANY_LINK,
    LinkId,
    MessageId,
    NodeId,
    message_id,
    number_of,
    origin_of,
)
from causalcast.core.message import Message, Publication, Wire
from causalcast.core.outbox import Outbox
from causalcast.core.spec import Option
from causalcast.parts.safe_links.links import Delivery, Link, LinkSetup, SafeLinks
from causalcast.parts.safe_links.pieces import Piece, Pieces

GIVE_UP: Final = "vector_setup.give_up"
ALONE: Final = "vector_setup.alone"
LEFT_BEHIND: Final = "vector_setup.left_behind"


class Counts(Message):
    """What the sender has delivered: the receiver sends whatever lies beyond, if it can."""

    wire = Wire("vector_setup.counts", delivered=dict[NodeId, int])

    def __init__(self, delivered: dict[NodeId, int]) -> None:
        self.delivered = delivered


class TooFarBehind(Message):
    """My log begins after these counts: tell yours again when they have come so far. I hear so many
    others."""

    wire = Wire("vector_setup.beyond_my_log", forgotten=dict[NodeId, int], hears=int)

    def __init__(self, forgotten: dict[NodeId, int], hears: int) -> None:
        self.forgotten = forgotten
        self.hears = hears


class NeedBase(Message):
    """A newcomer asks where its history shall begin."""

    wire = Wire("vector_setup.need_base")


class Base(Message):
    """Be born after all this. The log is there to serve others, it is never delivered; most of it
    came ahead, in pieces."""

    wire = Wire(
        "vector_setup.base",
        delivered=dict[NodeId, int],
        forgotten=dict[NodeId, int],
        publications=list[Publication],
        hops=list[int],
    )

    def __init__(
        self,
        delivered: dict[NodeId, int],
        forgotten: dict[NodeId, int],
        publications: list[Publication],
        hops: list[int],
    ) -> None:
        self.delivered = delivered
        self.forgotten = forgotten
        self.publications = publications
        self.hops = hops


class CatchUp(Message):
    """What you lack, in order, most of it ahead, in pieces; the sender has delivered so much, and
    sends tokens from here on."""

    wire = Wire(
        "vector_setup.catch_up",
        delivered=dict[NodeId, int],
        publications=list[Publication],
        hops=list[int],
    )

    def __init__(
        self, delivered: dict[NodeId, int], publications: list[Publication], hops: list[int]
    ) -> None:
        self.delivered = delivered
        self.publications = publications
        self.hops = hops


MESSAGES: Final[list[type[Message]]] = [Counts, TooFarBehind, NeedBase, Base, CatchUp]
OPTIONS: Final[list[Option]] = [
    # A minute of ten publications a second, and some.
    Option(
        "log",
        1000,
        "vector: deliveries kept for those who come back",
        least=0,
        change_if="nodes are away while more messages than these are sent",
    ),
    Option(
        "log_bytes",
        64 << 20,  # a quarter of what other protocols keep for those who are away, by default
        "vector: bytes of bodies in these; if there are more, the oldest are forgotten",
        least=0,
        change_if="bodies are large and the log does not reach back, or takes too much memory",
    ),
    Option(
        "give_up_after",
        # Long against many round trips: others have filled the gap by then if they can.
        9 * SECOND,
        "vector: how long a link stays that the log does not reach, before another is asked for",
        unit="ms",
        change_if="others need longer to bring what a link's log lacks",
    ),
]
# Notes that people hear of, and those after which a node cannot go on.
EVENTS: Final = {
    "vector_setup.unserved": "a neighbour has lacked for long what the log here has forgotten; "
    "another one is asked for",
}
ENDS: Final = {
    LEFT_BEHIND: "it hears nobody, and its neighbours have forgotten what it lacks: more was "
    "published while it was away than they keep (`log`, `log_bytes`); start it again, it comes "
    "back as somebody new",
}


@final
class Gap:
    """What a node lacks that a peer has forgotten, and how many others that peer hears."""

    def __init__(self, needed: dict[NodeId, int], hears: int) -> None:
        self.needed = needed
        self.hears = hears


@final
class VectorSetup(LinkSetup):
    """What was delivered, and the log of the last deliveries."""

    def __init__(self, owner: SafeLinks, most: int, most_bytes: int, give_up_after: int) -> None:
        self.owner = owner
        self.delivered: dict[NodeId, int] = {}
        self.log: dict[MessageId, Delivery] = {}  # in the order of delivery
        self.forgotten: dict[NodeId, int] = {}  # up to here the log lost what was delivered
        self._log_bytes = 0  # of bodies in the log
        self._most = most
        self._most_bytes = most_bytes
        self._give_up_after = give_up_after
        self._unserved: dict[LinkId, bool] = {}  # links that our log does not reach; told?
        self._behind: dict[LinkId, Gap] = {}  # what we need before a peer's log reaches us
        # Those who have forgotten what we lack and go on without us, while we hear nobody.
        self._left_by: dict[NodeId, None] = {}
        self._told: dict[LinkId, dict[NodeId, int]] = {}  # counts that came before our birth
        self._asked = ANY_LINK  # where we asked for a base
        self._pieces = Pieces()

    def on_up(self, link: Link, out: Outbox) -> None:
        if self.owner.born:
            self._tell_counts(link, out)

    def on_lost(self, link: Link, out: Outbox) -> None:
        self._told.pop(link.name, None)
        self._pieces.on_lost(link)
        if link.name == self._asked:
            self._asked = ANY_LINK
            self._ask_for_base(out)
        self._behind.pop(link.name, None)
        self._note_served(link, out)
        self._look_whether_alone(out)

    def is_next(self, publication: Publication) -> bool:
        number = number_of(publication.id)
        return self.delivered.get(origin_of(publication.id), 0) == number - 1

    def was_delivered(self, message: MessageId) -> bool:
        return number_of(message) <= self.delivered.get(origin_of(message), 0)

    def reach(self) -> int:
        return self._most

    def is_in_reach(self, link: Link) -> bool:
        return link.name not in self._unserved and link.name not in self._behind

    def is_left_behind(self) -> bool:
        return bool(self._left_by)

    def on_delivery(self, publication: Publication, hops: int, out: Outbox) -> None:
        origin, number = origin_of(publication.id), number_of(publication.id)
        assert self.delivered.get(origin, 0) == number - 1, "delivered out of order"
        self.delivered[origin] = number
        self._remember(Delivery(publication, hops))
        while len(self.log) > self._most or self._log_bytes > self._most_bytes:
            self._forget_oldest()
        for name, gap in list(self._behind.items()):
            if gap.needed.get(origin) == number:
                del gap.needed[origin]
                if not gap.needed:
                    self._tell_counts(self.owner.named[name], out)

    def _remember(self, entry: Delivery) -> None:
        self.log[entry.publication.id] = entry
        self._log_bytes += len(entry.publication.body)

    def _forget_oldest(self) -> None:
        oldest = next(iter(self.log))
        self._log_bytes -= len(self.log.pop(oldest).publication.body)
        self.forgotten[origin_of(oldest)] = number_of(oldest)

    # Messages

    def on_message(self, link: Link, message: Message, out: Outbox) -> None:
        if isinstance(message, Counts):
            self._on_counts(link, message.delivered, out)
        elif isinstance(message, Piece):
            self._pieces.on_piece(link, message, out)
        elif isinstance(message, CatchUp):
            self._on_catch_up(link, message, out)
        elif isinstance(message, Base):
            self._on_base(link, message, out)
        elif isinstance(message, NeedBase):
            if self.owner.born and not link.safe_out:
                self._send_base(link, out)
        elif isinstance(message, TooFarBehind):
            out.note("vector_setup.behind_the_log", link.peer)
            self._on_too_far_behind(link, message, out)
        else:
            out.note("vector_setup.not_for_me", link.peer)  # of the other set-up

    def _send_base(self, link: Link, out: Outbox) -> None:
        rest = self._pieces.send_ahead(link, list(self.log.values()), out)
        publications = [entry.publication for entry in rest]
        hops = [entry.hops for entry in rest]
        base = Base(dict(self.delivered), dict(self.forgotten), publications, hops)
        self._send(link, base, out)
        # The newcomer is born after all this: what follows is what it lacks, however fast it comes.
        self._note_served(link, out)
        self._hear(link, {}, out)
        self.owner.make_out_safe(link, out)

    def _ask_for_base(self, out: Outbox) -> None:
        """Ask one that told its counts, and so is born; another if this one is lost."""
        if not self.owner.born and self._asked == ANY_LINK and self._told:
            self._asked = next(iter(self._told))
            self._send(self.owner.named[self._asked], NeedBase(), out)

    def _on_base(self, source: Link, base: Base, out: Outbox) -> None:
        log = self._pieces.whole(source, base.publications, base.hops)
        if self.owner.born:
            return
        self.delivered = dict(base.delivered)
        self.forgotten = dict(base.forgotten)
        for entry in log:
            self._remember(entry)
        self._hear(source, {}, out)
        self.owner.make_out_safe(source, out)
        self.owner.be_born(out)
        for link in list(self.owner.links.values()):
            if link is not source:
                self._tell_counts(link, out)
        self._told.pop(source.name, None)
        told, self._told = self._told, {}
        for name, delivered in told.items():
            self._on_counts(self.owner.named[name], delivered, out)

    def _on_counts(self, link: Link, theirs: dict[NodeId, int], out: Outbox) -> None:
        if not self.owner.born:
            self._told[link.name] = theirs
            self._ask_for_base(out)
            return
        if link.safe_out:
            return
        if any(theirs.get(origin, 0) < count for origin, count in self.forgotten.items()):
            self._log_falls_short(link, out)
            return
        self._note_served(link, out)
        missing = [
            entry
            for message, entry in self.log.items()
            if number_of(message) > theirs.get(origin_of(message), 0)
        ]
        rest = self._pieces.send_ahead(link, missing, out)
        publications = [entry.publication for entry in rest]
        catch_up = CatchUp(dict(self.delivered), publications, [entry.hops for entry in rest])
        self._send(link, catch_up, out)
        self.owner.make_out_safe(link, out)

    def _log_falls_short(self, link: Link, out: Outbox) -> None:
        out.note("vector_setup.log_falls_short", link.peer)
        hears = sum(other.safe_in and other is not link for other in self.owner.links.values())
        self._send(link, TooFarBehind(dict(self.forgotten), hears), out)
        if link.name not in self._unserved:
            self._unserved[link.name] = False
            out.start_timer(GIVE_UP, self._give_up_after, link.name)

    def _note_served(self, link: Link, out: Outbox) -> None:
        if link.name in self._unserved:
            del self._unserved[link.name]
            out.cancel_timer(GIVE_UP, link.name)

    def _on_too_far_behind(self, link: Link, told: TooFarBehind, out: Outbox) -> None:
        needed = {
            origin: count
            for origin, count in told.forgotten.items()
            if self.delivered.get(origin, 0) < count
        }
        if needed:
            self._behind[link.name] = Gap(needed, told.hears)
            self._look_whether_alone(out)
        else:  # it came in the meantime
            self._tell_counts(link, out)

    # Left behind

    def _look_whether_alone(self, out: Outbox) -> None:
        """Whether only those are left that have forgotten what is lacking here."""
        if not self.owner.born or any(link.safe_in for link in self.owner.links.values()):
            return
        for name, gap in self._behind.items():
            peer = self.owner.named[name].peer
            if name not in self._unserved or gap.hears > 0 or peer < self.owner.me:
                if not self._left_by:
                    out.start_timer(ALONE, self._give_up_after)
                self._left_by[peer] = None

    def _hear(self, link: Link, owed: dict[MessageId, int], out: Outbox) -> None:
        """From now on a peer says everything it delivers: this node is not alone."""
        self.owner.make_in_safe(link, owed, out)
        if self._left_by:
            self._left_by.clear()
            out.cancel_timer(ALONE)

    def _tell_counts(self, link: Link, out: Outbox) -> None:
        self._behind.pop(link.name, None)
        self._send(link, Counts(dict(self.delivered)), out)

    def _on_catch_up(self, link: Link, catch_up: CatchUp, out: Outbox) -> None:
        lacking = self._pieces.whole(link, catch_up.publications, catch_up.hops)
        if link.safe_in or not self.owner.born:
            out.note("vector_setup.late_catch_up", link.peer)
            return
        self._hear(link, self._owed(catch_up.delivered), out)
        for entry in lacking:
            publication = entry.publication
            self.owner.tokens.peer_has(link, publication.id, out)
            if number_of(publication.id) > self.delivered.get(origin_of(publication.id), 0):
                self.owner.accept(publication, entry.hops, link, out)

    def _owed(self, theirs: dict[NodeId, int]) -> dict[MessageId, int]:
        """What is here and not there: the peer will deliver it, and send a token for it."""
        return {
            message_id(origin, number): 0
            for origin, count in self.delivered.items()
            for number in range(theirs.get(origin, 0) + 1, count + 1)
        }

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        if name == ALONE:
            out.note(LEFT_BEHIND, next(iter(self._left_by)))
            return
        assert name == GIVE_UP
        link = self.owner.named[LinkId(subject)]
        if not self._unserved[link.name]:
            self._unserved[link.name] = True
            out.note("vector_setup.unserved", link.peer)
        out.switch(link.name)
        out.start_timer(GIVE_UP, self._give_up_after, link.name)  # if there is no other now

    def size(self) -> int:
        behind = sum(len(gap.needed) for gap in self._behind.values()) + len(self._left_by)
        kept = len(self.delivered) + len(self.log) + len(self.forgotten)
        return kept + behind + self._pieces.size()

    def _send(self, link: Link, message: Message, out: Outbox) -> None:
        out.send(link.peer, message, link.name)
