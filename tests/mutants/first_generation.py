"""Planted bugs of `first_generation`: what a packet carries, and the order packets are taken in."""

from causalcast.core import Message, NodeId, Outbox, Publication, number_of, origin_of
from causalcast.parts.broadcast.reliable_sending import ReliableSending
from causalcast.protocols.first_generation import FirstGeneration, Packet, Progress
from causalcast.swarm.mutant import Mutant, Patch

_take = FirstGeneration._take


def publish_alone(self: FirstGeneration, publication: Publication, out: Outbox) -> None:
    self._accept(Packet([publication]), self.me, out)


def publish_with_the_last(self: FirstGeneration, publication: Publication, out: Outbox) -> None:
    self._accept(Packet([*self.recent[-1:], publication]), self.me, out)


def take_the_newest_only(self: FirstGeneration, packet: Packet) -> list[Publication]:
    return _take(self, Packet(packet.publications[-1:]))


def take_everything(self: FirstGeneration, packet: Packet) -> list[Publication]:
    for publication in packet.publications:
        origin, number = origin_of(publication.id), number_of(publication.id)
        self.delivered[origin] = max(number, self.delivered.get(origin, 0))
    self.recent += packet.publications
    if origin_of(packet.publications[-1].id) == self.me:
        self.recent = []
    return list(packet.publications)


def take_at_once(self: FirstGeneration, packet: Packet) -> list[Publication]:
    """Without waiting for the origin's earlier packets."""
    newest = packet.publications[-1].id
    self.fifo.delivered[origin_of(newest)] = number_of(newest)
    return self._take(packet)


def take_and_forget_too_soon(self: FirstGeneration, packet: Packet) -> list[Publication]:
    new = _take(self, packet)
    self.recent = self.recent[-2:]
    return new


def snapshot_without_the_recent(self: FirstGeneration) -> list[Message]:
    progress = Progress(dict(self.delivered), dict(self.fifo.delivered), [])
    return [progress, *self.sending.snapshot([*self._early.values()])]


def hand_nothing_over(
    self: ReliableSending, peer: NodeId, origin: NodeId, message: Message, out: Outbox
) -> None:
    """Where copies go straight: what an origin that is away cannot bring, nobody brings."""


MUTANTS = [
    Mutant(
        "nothing_carried",
        "a packet carries what its origin delivered",
        ["causal_order"],
        [Patch(FirstGeneration, "on_publish", publish_alone)],
    ),
    Mutant(
        "only_the_last_carried",
        "a packet carries all that was delivered since the last one",
        ["causal_order", "fifo_order", "agreement"],
        [Patch(FirstGeneration, "on_publish", publish_with_the_last)],
    ),
    Mutant(
        "carried_not_delivered",
        "what is carried is delivered first",
        ["causal_order"],
        [Patch(FirstGeneration, "_take", take_the_newest_only)],
    ),
    Mutant(
        "carried_delivered_again",
        "what was delivered is not delivered again",
        ["no_duplication"],
        [Patch(FirstGeneration, "_take", take_everything)],
    ),
    Mutant(
        "packets_out_of_order",
        "packets of one origin are taken in their order",
        ["fifo_order", "causal_order", "agreement"],
        [Patch(FirstGeneration, "_take_in_order", take_at_once)],
    ),
    Mutant(
        "carried_forgotten_too_soon",
        "it is carried until the next own publication",
        ["causal_order", "fifo_order", "agreement"],
        [Patch(FirstGeneration, "_take", take_and_forget_too_soon)],
    ),
    Mutant(
        "recent_not_in_snapshot",
        "what is to be carried survives a restart",
        ["causal_order", "fifo_order"],
        [Patch(FirstGeneration, "snapshot", snapshot_without_the_recent)],
    ),
    Mutant(
        "nothing_handed_over",
        "where copies go straight: what an origin that died cannot bring, others bring",
        ["agreement"],
        [Patch(ReliableSending, "hand_over", hand_nothing_over)],
        {"spread": "direct"},
        for_good=True,
    ),
]
