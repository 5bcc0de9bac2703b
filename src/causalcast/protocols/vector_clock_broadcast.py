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
    Needs,
    ProtocolSpec,
    Setup,
    number_of,
    origin_of,
)
from causalcast.parts.broadcast import stamped_broadcast
from causalcast.parts.broadcast.reliable_sending import ReliableSending
from causalcast.parts.broadcast.stamped_broadcast import Stamped, StampedBroadcast, id_of, size_of
from causalcast.parts.vector_clock import VectorClock

MANY: Final = 16


def clock_of(stamped: Stamped) -> VectorClock:
    """The vector clock as the paper prints it, the origin's own slot included."""
    publication = stamped.publication
    return {**stamped.needs, origin_of(publication.id): number_of(publication.id)}


class VectorClockBroadcast(StampedBroadcast):
    """Names every publication that was delivered here."""

    def causes_of_next(self) -> VectorClock:
        causes = dict(self.delivery.delivered)
        causes.pop(self.me, None)
        # In the order of ids many of them need no names on the wire.
        return causes if len(causes) < MANY else dict(sorted(causes.items()))


def build(setup: Setup) -> VectorClockBroadcast:
    return VectorClockBroadcast(setup.me, ReliableSending(setup, id_of, size_of=size_of))


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
    offers=["explain"],
)
