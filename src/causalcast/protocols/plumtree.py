"""Plumtree: push along a tree that the messages themselves shape, announce everywhere else.

At first every link is eager: it pushes payloads. Whoever gets a payload twice prunes the link it
came on, which is lazy from then on and only announces. What is left eager is a spanning tree. A
node that hears of a message and does not get it in time asks an announcer for it (graft), which
makes that link eager again; so the tree mends itself.

Source: J. Leitão, J. Pereira, L. Rodrigues, "Epidemic Broadcast Trees", 2007. No order.

Where we differ from the paper:

- On a new link both ends announce what they still keep, so that a message whose only copy was lost
  with a link is found again as long as anybody keeps it.
- Ids are kept as one count per origin and what lies beyond a gap, payloads of the last `keep`
  messages. Not by time: a slow link would then decide whether a node gets everything.
- `tree = "source"` keeps one tree per origin: the fastest paths from there, once learnt by a flood.
- The tree is not optimized by the hops that announcements tell (its Algorithm 4).
"""

from typing import Final, final

from mypy_extensions import mypyc_attr

from causalcast.core import (
    MILLISECOND,
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
from causalcast.parts.duplicate_filter import DuplicateFilter
from causalcast.parts.push_modes import TREES, PushModes

GRAFT: Final = "graft"
ANNOUNCE: Final = "announce"


@final
@mypyc_attr(acyclic=True)
class Gossip(Message):
    """A publication, `hops` from its origin: deliver it and pass it on, if it is new."""

    __slots__ = ("hops", "publication")

    wire = Wire("plumtree.gossip", publication=Publication, hops=int)

    def __init__(self, publication: Publication, hops: int) -> None:
        self.publication = publication
        self.hops = hops


class Announce(Message):
    """The sender has these messages, each so many hops from its origin: ask for them if they do
    not come another way."""

    wire = Wire("plumtree.announce", messages=list[MessageId], hops=list[int])

    def __init__(self, messages: list[MessageId], hops: list[int]) -> None:
        self.messages = messages
        self.hops = hops


class Prune(Message):
    """This message came twice: only announce from now on."""

    wire = Wire("plumtree.prune", message=MessageId)

    def __init__(self, message: MessageId) -> None:
        self.message = message


class Graft(Message):
    """Push from now on, and send this message if it is `wanted`."""

    wire = Wire("plumtree.graft", message=MessageId, wanted=bool)

    def __init__(self, message: MessageId, wanted: bool) -> None:
        self.message = message
        self.wanted = wanted


@final
class Peer:
    """What is known of a neighbour: whether we push to it, and what it is still to be told."""

    def __init__(self, link: LinkId, modes: PushModes) -> None:
        self.link = link
        self.modes = modes
        self.to_announce: dict[MessageId, int] = {}  # -> hops


@final
class Kept:
    """A publication that may still be asked for, and its hops from the origin."""

    def __init__(self, publication: Publication, hops: int) -> None:
        self.publication = publication
        self.hops = hops


@final
class Settings:
    """The options of the protocol."""

    def __init__(self, setup: Setup) -> None:
        self.graft_after = setup.number("graft_after")
        self.graft_again = setup.number("graft_again")
        self.announce_after = setup.number("announce_after")
        self.keep = setup.number("keep")
        self.tree = setup.text("tree")
        self.most_origins = setup.number("most_origins")


class Plumtree(Multicast):
    """Neighbours and their modes, what was seen, what is kept, and what was only announced."""

    def __init__(self, me: NodeId, settings: Settings) -> None:
        self.me = me
        self.settings = settings
        self.peers: dict[NodeId, Peer] = {}
        self.seen = DuplicateFilter()
        self.kept: dict[MessageId, Kept] = {}
        self.missing: dict[MessageId, dict[NodeId, int]] = {}  # who announced it -> hops there
        self._announcing = False

    # Neighbours

    def on_neighbour_up(self, peer: NodeId, link: LinkId, newborn: bool, out: Outbox) -> None:
        # Alg. 3, NeighborUp: it begins eager; that it is told what is kept is not in the paper.
        modes = PushModes(self.settings.tree, self.settings.most_origins)
        new = Peer(link, modes)
        self.peers[peer] = new
        for message, kept in self.kept.items():
            new.to_announce[message] = kept.hops
        if new.to_announce:
            self._announce_soon(out)

    def on_neighbour_down(self, peer: NodeId, link: LinkId, out: Outbox) -> None:
        # Alg. 3, NeighborDown: forget it, also as an announcer.
        known = self.peers.get(peer)
        if known is None or known.link != link:
            return
        del self.peers[peer]
        for announcers in self.missing.values():
            announcers.pop(peer, None)  # the timer finds out if nobody is left

    # Messages

    def on_publish(self, publication: Publication, out: Outbox) -> None:
        # Alg. 1, Broadcast.
        self._take(publication, 0, self.me, out)

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> None:
        # Alg. 1 and 2, by kind of message; Prune makes a link lazy (Alg. 1).
        peer = self.peers.get(sender)
        if peer is None:
            out.note("plumtree.from_stranger", sender)
        elif isinstance(message, Gossip):
            self._on_gossip(sender, peer, message, out)
        elif isinstance(message, Announce):
            for announced, hops in zip(message.messages, message.hops, strict=False):
                self._on_announced(sender, announced, hops, out)
        elif isinstance(message, Prune):
            peer.modes.make_lazy(message.message)
        else:
            assert isinstance(message, Graft)
            self._on_graft(sender, peer, message, out)

    def _on_gossip(self, sender: NodeId, peer: Peer, gossip: Gossip, out: Outbox) -> None:
        # Alg. 1, Receive Gossip: new and eager, or old and pruned.
        message = gossip.publication.id
        if self.seen.has(message):
            out.duplicate(message)
            peer.modes.make_lazy(message)
            out.send(sender, Prune(message), peer.link)
        else:
            peer.modes.make_eager(message)
            self._take(gossip.publication, gossip.hops, sender, out)

    def _on_announced(self, sender: NodeId, message: MessageId, hops: int, out: Outbox) -> None:
        # Alg. 2, Receive IHave: note who has it, and wait.
        if self.seen.has(message):
            return
        if message not in self.missing:
            self.missing[message] = {}
            out.start_timer(GRAFT, self.settings.graft_after, message)
        self.missing[message][sender] = hops

    def _on_graft(self, sender: NodeId, peer: Peer, graft: Graft, out: Outbox) -> None:
        # Alg. 2, Receive Graft: eager again, and the payload.
        peer.modes.make_eager(graft.message)
        kept = self.kept.get(graft.message)
        if graft.wanted and kept is not None:
            out.send(sender, Gossip(kept.publication, kept.hops), peer.link)
        elif graft.wanted:
            out.note("plumtree.asked_too_late", graft.message)

    # Time

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        # Alg. 2, Timer (graft), and Alg. 1, Dispatch (announcements are collected).
        if name == GRAFT:
            self._graft(MessageId(subject), out)
        else:
            assert name == ANNOUNCE
            self._announce(out)

    def _graft(self, message: MessageId, out: Outbox) -> None:
        announcers = self.missing.get(message, {})
        if not announcers:
            self.missing.pop(message, None)
            return
        sender = next(iter(announcers))
        del announcers[sender]
        peer = self.peers[sender]
        peer.modes.make_eager(message)
        out.note("plumtree.grafted", message)
        out.send(sender, Graft(message, True), peer.link)
        out.start_timer(GRAFT, self.settings.graft_again, message)

    def _announce_soon(self, out: Outbox) -> None:
        if not self._announcing:
            self._announcing = True
            out.start_timer(ANNOUNCE, self.settings.announce_after)

    def _announce(self, out: Outbox) -> None:
        self._announcing = False
        for node, peer in self.peers.items():
            if peer.to_announce:
                hops = list(peer.to_announce.values())
                out.send(node, Announce(list(peer.to_announce), hops), peer.link)
                peer.to_announce = {}

    # A new publication

    def _take(self, publication: Publication, hops: int, sender: NodeId, out: Outbox) -> None:
        message = publication.id
        self.seen.add(message)
        self.kept[message] = Kept(publication, hops + 1)
        if len(self.kept) > self.settings.keep:
            del self.kept[next(iter(self.kept))]
        gossip = Gossip(publication, hops + 1)
        for node, peer in self.peers.items():
            if node == sender:
                continue
            if peer.modes.is_eager(message):
                out.send(node, gossip, peer.link)
            else:
                peer.to_announce[message] = hops + 1
                self._announce_soon(out)
        if self.missing.pop(message, None) is not None:
            out.cancel_timer(GRAFT, message)
        out.deliver(publication)

    def state_size(self) -> int:
        modes = sum(peer.modes.size() + len(peer.to_announce) for peer in self.peers.values())
        return self.seen.size() + len(self.kept) + len(self.missing) + modes


def build(setup: Setup) -> Plumtree:
    return Plumtree(setup.me, Settings(setup))


def tolerates(down: list[NodeId], setup: Setup) -> bool:
    return True  # whoever is up and connected gets what others keep


def neighbours_of(multicast: Multicast) -> list[NodeId]:
    assert isinstance(multicast, Plumtree)
    return list(multicast.peers)


def what_is_missing_was_not_seen(multicast: Multicast) -> bool:
    assert isinstance(multicast, Plumtree)
    return not any(multicast.seen.has(message) for message in multicast.missing)


def nothing_is_missing(multicast: Multicast) -> bool:
    assert isinstance(multicast, Plumtree)
    return not multicast.missing


SPEC = ProtocolSpec(
    name="plumtree",
    summary="Push along a tree that mends itself, announce elsewhere; no order.",
    build=build,
    messages=[Gossip, Announce, Prune, Graft],
    guarantees=["no_creation", "no_duplication", "validity", "agreement_per_part"],
    options=[
        Option(
            "tree",
            "shared",
            "one tree for all origins, or one for each",
            choices=TREES,
            change_if="the same few nodes publish again and again: a tree for each is faster",
        ),
        Option(
            "most_origins",
            1024,
            "trees remembered per link",
            least=1,
            change_if="more nodes publish than that, and their trees are learnt again and again",
        ),
        # Must exceed the difference between the fastest announcement and the slowest way along
        # the tree: 300 to 400 ms for hops of 5 to 50 ms.
        Option(
            "graft_after",
            400 * MILLISECOND,
            "wait for an announced message",
            unit="ms",
            change_if="links are faster or slower than 5 to 50 ms a hop",
        ),
        # At least a round trip of one link.
        Option(
            "graft_again",
            150 * MILLISECOND,
            "then ask the next announcer",
            unit="ms",
            change_if="a round trip of one link takes longer",
        ),
        Option(
            "announce_after",
            10 * MILLISECOND,
            "collect announcements",
            unit="ms",
            change_if="a lost copy must be noticed sooner, for more small messages",
        ),
        # Grafts come within a second; the rest is for links that are down for a while.
        Option(
            "keep",
            1000,
            "messages whose payload is kept for those who ask",
            least=1,
            change_if="links are down while more messages than these are sent",
        ),
    ],
    needs=Needs(links="reliable"),
    tolerates=tolerates,
    invariants=[what_is_missing_was_not_seen],
    at_rest=[nothing_is_missing],
    reaches=neighbours_of,
    rare=["plumtree.grafted"],
    cost="no entries; hops, and announcements of 12 bytes on links outside the tree",
)
