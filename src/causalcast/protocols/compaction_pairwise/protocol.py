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
    MessageId,
    Multicast,
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
from causalcast.parts.broadcast.stamped_broadcast import Stamped, StampedBroadcast, deliver
from causalcast.parts.vector_clock import VectorClock
from causalcast.protocols.compaction_pairwise.changed_entries import ChangedEntries


class Changed(Message):
    """A publication and the slots of its clock that differ from the last one on this link."""

    __slots__ = ("changes", "publication")

    wire = Wire("compaction_pairwise.changed", publication=Publication, changes=dict[NodeId, int])

    def __init__(self, publication: Publication, changes: VectorClock) -> None:
        self.publication = publication
        self.changes = changes


class CompactionPairwise(Multicast):
    """Names everything that was delivered here; links say only what changed."""

    def __init__(self, setup: Setup) -> None:
        self.me = setup.me
        self.broadcast = StampedBroadcast(setup, self._for_link)
        self.outgoing = ChangedEntries()
        self.incoming: dict[NodeId, VectorClock] = {}  # per peer: the last clock on its link
        self.links: dict[NodeId, LinkId] = {}

    def on_publish(self, publication: Publication, out: Outbox) -> None:
        # Section 3.3: it has the whole clock; `_for_link` leaves out what a link knows.
        deliver(self.broadcast.publish(publication, self._causes_of_next(), out), out)

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> None:
        # Section 3.3, figure 6: put the clock together again, then wait for what it names.
        if isinstance(message, Changed):
            deliver(self.broadcast.arrived(sender, self._whole(sender, message), out), out)
        elif isinstance(message, Stamped):
            out.note("compaction_pairwise.stray", sender)
        else:
            deliver(self.broadcast.arrived(sender, message, out), out)

    def _causes_of_next(self) -> VectorClock:
        causes = dict(self.broadcast.delivery.delivered)
        causes.pop(self.me, None)
        return causes

    def _for_link(self, peer: NodeId, message: Message) -> tuple[Message, LinkId]:
        """A copy as it leaves on the link to `peer`, and on no later one: there it would say what
        changed since something that was never said (section 3.3, figure 6)."""
        assert isinstance(message, Stamped)
        publication = message.publication
        own_slot = origin_of(publication.id)
        self.outgoing.turn += 1
        self.outgoing.become({**message.needs, own_slot: number_of(publication.id)})
        changes = self.outgoing.changed_for(peer)
        changes.pop(own_slot, None)  # the publication's number says it
        return Changed(publication, changes), self.links.get(peer, ANY_LINK)

    def _whole(self, sender: NodeId, changed: Changed) -> Stamped:
        """The copy with its whole clock again."""
        publication = changed.publication
        clock = self.incoming.setdefault(sender, {})
        clock.update(changed.changes)
        own_slot = origin_of(publication.id)
        clock[own_slot] = number_of(publication.id)
        needs = {node: count for node, count in clock.items() if count > 0 and node != own_slot}
        return Stamped(publication, needs)

    # Time and neighbours: `reliable_sending` makes channels reliable, which papers take for granted

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        # Not in the paper: what was not acknowledged is repeated.
        self.broadcast.sending.on_timer(name, subject, out)

    def on_neighbour_up(self, peer: NodeId, link: LinkId, newborn: bool, out: Outbox) -> None:
        # Not in the paper: who comes back catches up, and nothing was said on the new link.
        self.outgoing.forget(peer)
        self.incoming[peer] = {}
        self.links[peer] = link
        self.broadcast.sending.on_neighbour_up(peer, out)

    def on_neighbour_down(self, peer: NodeId, link: LinkId, out: Outbox) -> None:
        # Not in the paper: what it lacks is kept, what was said is forgotten.
        self.outgoing.forget(peer)
        self.incoming.pop(peer, None)
        self.links.pop(peer, None)
        self.broadcast.sending.on_neighbour_down(peer, out)

    def on_suspect(self, peer: NodeId, out: Outbox) -> None:
        # Not in the paper: others bring what a dead origin cannot.
        self.broadcast.sending.on_suspect(peer, out)

    def on_trust(self, peer: NodeId, out: Outbox) -> None:
        # Not in the paper: it can be asked again.
        self.broadcast.sending.on_trust(peer, out)

    # After a restart, and what the node asks

    def on_recover(self, records: list[Message], out: Outbox) -> None:
        # Not in the paper, in which nobody crashes.
        for record in records:
            self.broadcast.restore(record)

    def snapshot(self) -> list[Message]:
        return self.broadcast.snapshot()

    def explain(self, message: MessageId) -> list[MessageId]:
        return self.broadcast.explain(message)

    def waiting_bytes(self) -> int:
        return self.broadcast.sending.waiting_bytes()

    def kept_bytes(self) -> int:
        return self.broadcast.kept_bytes()

    def kept_for(self) -> dict[NodeId, int]:
        return self.broadcast.sending.kept_for()

    def furthest(self, origin: NodeId) -> int:
        return self.broadcast.sending.furthest(origin)

    def state_size(self) -> int:
        heard = sum(len(clock) for clock in self.incoming.values())
        return heard + len(self.outgoing.clock) + self.broadcast.size()


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
    offers=["explain", "new_groups", "made_groups", "states"],
)
