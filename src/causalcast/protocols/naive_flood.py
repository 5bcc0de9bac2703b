"""Naive flood: hand every new publication to every neighbour.

Reliable while the overlay stays connected, and blind to order: the yardstick the causal protocols
are measured against, and the one the checks must catch.
"""

from typing import final

from mypy_extensions import mypyc_attr

from causalcast.core import (
    LinkId,
    Message,
    Multicast,
    Needs,
    NodeId,
    Outbox,
    ProtocolSpec,
    Publication,
    Setup,
    Wire,
)


@final
@mypyc_attr(acyclic=True)
class Copy(Message):
    """A publication, one hop further: deliver it and pass it on, if it is new."""

    __slots__ = ("publication",)

    wire = Wire("naive_flood.copy", publication=Publication)

    def __init__(self, publication: Publication) -> None:
        self.publication = publication


class NaiveFlood(Multicast):
    """Remembers what it saw, so that each publication is passed on once."""

    def __init__(self, me: NodeId) -> None:
        self.me = me
        self.neighbours: dict[NodeId, None] = {}  # a set that keeps its order
        self.seen: set[object] = set()

    def on_neighbour_up(self, peer: NodeId, link: LinkId, newborn: bool, out: Outbox) -> None:
        self.neighbours[peer] = None

    def on_neighbour_down(self, peer: NodeId, link: LinkId, out: Outbox) -> None:
        self.neighbours.pop(peer, None)

    def on_publish(self, publication: Publication, out: Outbox) -> None:
        self._accept(Copy(publication), self.me, out)

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> None:
        assert isinstance(message, Copy)
        if message.publication.key in self.seen:
            out.duplicate(message.publication.id)
        else:
            self._accept(message, sender, out)

    def _accept(self, copy: Copy, sender: NodeId, out: Outbox) -> None:
        self.seen.add(copy.publication.key)
        out.deliver(copy.publication)
        for peer in self.neighbours:
            if peer != sender:
                out.send(peer, copy)


def build(setup: Setup) -> NaiveFlood:
    return NaiveFlood(setup.me)


SPEC = ProtocolSpec(
    name="naive_flood",
    summary="Hand every new publication to every neighbour; no order.",
    build=build,
    messages=[Copy],
    guarantees=["no_creation", "no_duplication", "validity", "agreement"],
    needs=Needs(links="reliable"),
    cost="no entries; the id and the group",
)
