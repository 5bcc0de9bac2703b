"""FIFO flood: a protocol of your own in one file.

Every new publication goes to every neighbour, and is delivered after all earlier ones of its
origin. An answer may still come before its question: causal order is not promised.
"""

from causalcast.core import (
    LinkId,
    Message,
    MessageId,
    Multicast,
    Needs,
    NodeId,
    Outbox,
    ProtocolSpec,
    Publication,
    Wire,
    message_id,
    number_of,
    origin_of,
)


class Copy(Message):
    """A publication, one hop further: pass it on if new, deliver it when its turn comes."""

    wire = Wire("fifo_flood.copy", publication=Publication)

    def __init__(self, publication: Publication) -> None:
        self.publication = publication


class FifoFlood(Multicast):
    """How many publications of each origin were delivered, and those that came too early."""

    def __init__(self, me: NodeId) -> None:
        self.me = me
        self.neighbours: dict[NodeId, None] = {}  # a set that keeps its order
        self.delivered: dict[NodeId, int] = {}
        self.early: dict[MessageId, Publication] = {}

    def on_neighbour_up(self, peer: NodeId, link: LinkId, newborn: bool, out: Outbox) -> None:
        self.neighbours[peer] = None

    def on_neighbour_down(self, peer: NodeId, link: LinkId, out: Outbox) -> None:
        self.neighbours.pop(peer, None)

    def on_publish(self, publication: Publication, out: Outbox) -> None:
        self._accept(publication, self.me, out)

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> None:
        assert isinstance(message, Copy)
        self._accept(message.publication, sender, out)

    def _accept(self, publication: Publication, sender: NodeId, out: Outbox) -> None:
        origin = origin_of(publication.id)
        turn = self.delivered.get(origin, 0) + 1
        if number_of(publication.id) < turn or publication.id in self.early:
            out.duplicate(publication.id)
            return
        for peer in self.neighbours:
            if peer != sender:
                out.send(peer, Copy(publication))
        self.early[publication.id] = publication
        while (ready := self.early.pop(message_id(origin, turn), None)) is not None:
            out.deliver(ready)
            self.delivered[origin] = turn
            turn += 1


SPEC = ProtocolSpec(
    name="fifo_flood",
    summary="Flood, and deliver each origin's publications in their order.",
    build=lambda setup: FifoFlood(setup.me),
    messages=[Copy],
    guarantees=["no_creation", "no_duplication", "validity", "agreement", "fifo_order"],
    needs=Needs(links="reliable"),
)
