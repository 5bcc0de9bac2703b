"""Compaction per link: a vector clock of which each link carries only what changed on it.

M. Singhal, A. Kshemkalyani, "An efficient implementation of vector clocks", 1992; as told by
de Juan-Marín et al., "Scalability approaches for causal multicast: a survey", 2016, section 3.3
(figure 6).

Two messages that leave on one link one after the other have similar clocks. So a copy carries only
the slots in which its clock differs from the one before it on the same link. The other end keeps
the clock it heard last on that link and puts the whole one together again. A new link begins with
nothing said, so its first copy carries the whole clock.

Where we differ from the paper, and why
- The paper timestamps point-to-point messages and orders nothing; a vector clock does not say what
  was addressed to whom. This is causal *broadcast*, whose clock ticks on publications only.
- Nodes pass on what others published, so clocks on a link do not only grow; what shrank is sent
  too. `changed_entries` is the paper's device (LU, LS) with a count of turns in place of
  the node's own slot.
- It needs links that keep their order and lose nothing while they last, as in the paper. Repetition
  after a reconnection, restarts and catching up come from `reliable_sending`.
"""

from causalcast.core import (
    ANY_LINK,
    CAUSAL_WHEN_ALL_ARE_BACK,
    LinkId,
    Message,
    Needs,
    NodeId,
    Outbox,
    ProtocolSpec,
    Publication,
    Setup,
    Wire,
    number_of,
    origin_of,
)
from causalcast.parts.broadcast import stamped_broadcast
from causalcast.parts.broadcast.reliable_sending import ReliableSending
from causalcast.parts.broadcast.stamped_broadcast import Stamped, StampedBroadcast, id_of, size_of
from causalcast.parts.vector_clock import VectorClock
from causalcast.protocols.compaction_pairwise.changed_entries import ChangedEntries


class Changed(Message):
    """A publication and the slots of its clock that differ from the last one on this link."""

    __slots__ = ("changes", "publication")

    wire = Wire("compaction_pairwise.changed", publication=Publication, changes=dict[NodeId, int])

    def __init__(self, publication: Publication, changes: VectorClock) -> None:
        self.publication = publication
        self.changes = changes


class CompactionPairwise(StampedBroadcast):
    """Names everything that was delivered here; links say only what changed."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup.me, ReliableSending(setup, id_of, self.for_link, size_of))
        self.outgoing = ChangedEntries()
        self.incoming: dict[NodeId, VectorClock] = {}  # per peer: the last clock on its link
        self.links: dict[NodeId, LinkId] = {}

    def causes_of_next(self) -> VectorClock:
        causes = dict(self.delivery.delivered)
        causes.pop(self.me, None)
        return causes

    def for_link(self, peer: NodeId, message: Message) -> tuple[Message, LinkId]:
        """A copy as it leaves on the link to `peer`, and on no later one: there it would say what
        changed since something that was never said."""
        assert isinstance(message, Stamped)
        publication = message.publication
        own_slot = origin_of(publication.id)
        self.outgoing.turn += 1
        self.outgoing.become({**message.needs, own_slot: number_of(publication.id)})
        changes = self.outgoing.changed_for(peer)
        changes.pop(own_slot, None)  # the publication's number says it
        return Changed(publication, changes), self.links.get(peer, ANY_LINK)

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> None:
        if isinstance(message, Changed):
            super().on_message(sender, self._whole(sender, message), out)
        elif isinstance(message, Stamped):
            out.note("compaction_pairwise.stray", sender)
        else:
            super().on_message(sender, message, out)

    def on_neighbour_up(self, peer: NodeId, link: LinkId, newborn: bool, out: Outbox) -> None:
        self.outgoing.forget(peer)
        self.incoming[peer] = {}
        self.links[peer] = link
        super().on_neighbour_up(peer, link, newborn, out)

    def on_neighbour_down(self, peer: NodeId, link: LinkId, out: Outbox) -> None:
        self.outgoing.forget(peer)
        self.incoming.pop(peer, None)
        self.links.pop(peer, None)
        super().on_neighbour_down(peer, link, out)

    def state_size(self) -> int:
        heard = sum(len(clock) for clock in self.incoming.values())
        return heard + len(self.outgoing.clock) + super().state_size()

    def _whole(self, sender: NodeId, changed: Changed) -> Stamped:
        """The copy with its whole clock again."""
        publication = changed.publication
        clock = self.incoming.setdefault(sender, {})
        clock.update(changed.changes)
        own_slot = origin_of(publication.id)
        clock[own_slot] = number_of(publication.id)
        needs = {node: count for node, count in clock.items() if count > 0 and node != own_slot}
        return Stamped(publication, needs)


def build(setup: Setup) -> CompactionPairwise:
    return CompactionPairwise(setup)


SPEC = ProtocolSpec(
    name="compaction_pairwise",
    summary="A vector clock of which each link carries what changed (Singhal, Kshemkalyani 1992).",
    build=build,
    messages=[Changed, *stamped_broadcast.MESSAGES],
    guarantees=CAUSAL_WHEN_ALL_ARE_BACK,
    options=stamped_broadcast.OPTIONS,
    needs=Needs(overlay="static", links="fifo"),
    restart="resume",
    tolerates=stamped_broadcast.tolerates,
    invariants=stamped_broadcast.INVARIANTS,
    at_rest=stamped_broadcast.AT_REST,
    rare=["reliable_sending.caught_up"],
    events=stamped_broadcast.EVENTS,
    cost="one entry per slot that changed on the link: 0 to n - 1 of 2 to 10 bytes",
    offers=["explain"],
)
