"""Vector-clock broadcast: one clock for everybody.

K. Birman, A. Schiper, P. Stephenson, "Lightweight causal and atomic group multicast", 1991; as told
by de Juan-Marín et al., "Scalability approaches for causal multicast: a survey", 2016, section 3.2.

A publication carries how many publications of every other node its origin had delivered. A node
delivers it when it has delivered as many itself, and the origin's earlier ones.

Where we differ from the paper, and why
- The survey's rule cannot deliver a sender's own message (its clock is never one behind); a sender
  delivers its own at once, inside the publish.
- The slot of the origin is the publication's own number and is not sent twice. Slots that are zero
  are not sent.
- The paper assumes reliable channels and no crashes. `reliable_sending` makes both true:
  copies are acknowledged, repeated and persisted, and a node that was away catches up.
"""

from typing import Final

from causalcast.core import (
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
    number_of,
    origin_of,
)
from causalcast.core.message import Single
from causalcast.parts.broadcast import stamped_broadcast
from causalcast.parts.broadcast.stamped_broadcast import Stamped, StampedBroadcast, deliver
from causalcast.parts.vector_clock import VectorClock

MANY: Final = 16


def clock_of(stamped: Stamped) -> VectorClock:
    """The vector clock as the paper prints it, the origin's own slot included."""
    publication = stamped.publication
    return {**stamped.needs, origin_of(publication.id): number_of(publication.id)}


class VectorClockBroadcast(Multicast):
    """Names every publication that was delivered here."""

    def __init__(self, setup: Setup) -> None:
        self.me = setup.me
        self.broadcast = StampedBroadcast(setup)

    def on_publish(self, publication: Publication, out: Outbox) -> None:
        # Section 3.2: it carries how many of everybody's were delivered here.
        deliver(self.broadcast.publish(publication, self._causes_of_next(), out), out)

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> None:
        # Section 3.2: it is delivered when as many were delivered here; until then it is held.
        deliver(self.broadcast.arrived(sender, message, out), out)

    def on_run(
        self, sender: NodeId, first: Single, publications: tuple[Publication, ...], out: Outbox
    ) -> None:
        # Not in the paper: publications of which each follows the one before are looked at once.
        if self.broadcast.takes_run(sender, first, publications, out):
            for publication in publications:
                out.deliver(publication)
        else:
            super().on_run(sender, first, publications, out)

    def _causes_of_next(self) -> VectorClock:
        causes = dict(self.broadcast.delivery.delivered)
        causes.pop(self.me, None)
        # In the order of ids many of them need no names on the wire.
        return causes if len(causes) < MANY else dict(sorted(causes.items()))

    # Time and neighbours: `reliable_sending` makes channels reliable, which papers take for granted

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        # Not in the paper: what was not acknowledged is repeated.
        self.broadcast.sending.on_timer(name, subject, out)

    def on_neighbour_up(self, peer: NodeId, link: LinkId, newborn: bool, out: Outbox) -> None:
        # Not in the paper: who comes back catches up.
        self.broadcast.sending.on_neighbour_up(peer, out)

    def on_neighbour_down(self, peer: NodeId, link: LinkId, out: Outbox) -> None:
        # Not in the paper: what it lacks is kept.
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
        return self.broadcast.size()


def build(setup: Setup) -> VectorClockBroadcast:
    return VectorClockBroadcast(setup)


SPEC = ProtocolSpec(
    name="vector_clock_broadcast",
    summary="One vector clock for everybody (Birman, Schiper, Stephenson 1991).",
    build=build,
    messages=stamped_broadcast.MESSAGES,
    guarantees=CAUSAL_WHEN_ALL_ARE_BACK,
    options=stamped_broadcast.OPTIONS,
    needs=Needs(overlay="static"),
    restart="resume",
    tolerates=stamped_broadcast.tolerates,
    invariants=stamped_broadcast.INVARIANTS,
    at_rest=stamped_broadcast.AT_REST,
    rare=stamped_broadcast.RARE,
    events=stamped_broadcast.EVENTS,
    cost="one entry per origin heard of: 0 to n - 1 of 1 to 10 bytes",
    offers=["explain", "new_groups", "made_groups", "states"],
)
