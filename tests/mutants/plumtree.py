"""Planted bugs of `plumtree`."""

from causalcast.core import LinkId, MessageId, NodeId, Outbox
from causalcast.protocols.plumtree import Gossip, Graft, Peer, Plumtree
from causalcast.swarm.mutant import Mutant, Patch


def deliver_again(self: Plumtree, sender: NodeId, peer: Peer, gossip: Gossip, out: Outbox) -> None:
    if self.seen.has(gossip.publication.id):
        out.deliver(gossip.publication)
    else:
        self._take(gossip.publication, gossip.hops, sender, out)


def never_ask(self: Plumtree, message: MessageId, out: Outbox) -> None:
    self.missing.pop(message, None)


def ask_for_the_link_only(
    self: Plumtree, sender: NodeId, peer: Peer, graft: Graft, out: Outbox
) -> None:
    peer.modes.make_eager(graft.message)


def begin_in_silence(
    self: Plumtree, peer: NodeId, link: LinkId, newborn: bool, out: Outbox
) -> None:
    kept, self.kept = self.kept, {}
    _on_neighbour_up(self, peer, link, newborn, out)
    self.kept = kept


def announce_to_nobody(self: Plumtree, out: Outbox) -> None:
    self._announcing = False
    for peer in self.peers.values():
        peer.to_announce = {}


_on_neighbour_up = Plumtree.on_neighbour_up

MUTANTS = [
    Mutant(
        "duplicates_delivered",
        "a further copy is recognised",
        ["no_duplication"],
        [Patch(Plumtree, "_on_gossip", deliver_again)],
    ),
    Mutant(
        "never_grafted",
        "what is announced and does not come is asked for",
        ["agreement"],
        [Patch(Plumtree, "_graft", never_ask)],
    ),
    Mutant(
        "graft_not_answered",
        "a graft brings the payload",
        ["agreement"],
        [Patch(Plumtree, "_on_graft", ask_for_the_link_only)],
    ),
    Mutant(
        "new_link_not_told",
        "on a new link both ends announce what they keep",
        ["agreement"],
        [Patch(Plumtree, "on_neighbour_up", begin_in_silence)],
    ),
    Mutant(
        "nothing_announced",
        "lazy links announce",
        ["agreement"],
        [Patch(Plumtree, "_announce", announce_to_nobody)],
    ),
]
