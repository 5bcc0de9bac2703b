"""Naive causal broadcast: flood over FIFO links, in a system that never changes.

Every node sends every message once on every link, at its first receipt. So whoever sends a message
on a link has sent its causes on the same link before, and FIFO does the rest: no clock is needed.
A further copy is recognised because its sender owed it; once all neighbours have sent theirs, a
message is forgotten.

Source: P. Dias, "Tree-based Decentralized and Robust Causal Dissemination", MSc thesis, NOVA, 2020,
Algorithm 1 (and its figure 3.2 for what goes wrong on an overlay that changes: a new link brings a
message that nobody owed, so it is delivered a second time).

Where we differ from the paper: a copy is old if *its sender* owed it, not if anybody did, which is
the same here and cheaper; messages are sent on before they are delivered (as printed, an answer
made inside the delivery overtakes its cause); ids are counters, not clocks.
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
    """A publication, one hop further: deliver it and pass it on, unless the sender owed it."""

    __slots__ = ("publication",)

    wire = Wire("naive_causal.copy", publication=Publication)

    def __init__(self, publication: Publication) -> None:
        self.publication = publication


class NaiveCausal(Multicast):
    """For each neighbour, the messages that are here and that it still owes us."""

    def __init__(self, me: NodeId) -> None:
        self.me = me
        self.owed: dict[NodeId, set[object]] = {}

    def on_neighbour_up(self, peer: NodeId, link: LinkId, newborn: bool, out: Outbox) -> None:
        # Not in the paper's Algorithm 1, in which links are there from the beginning.
        self.owed[peer] = set()

    def on_neighbour_down(self, peer: NodeId, link: LinkId, out: Outbox) -> None:
        # Not in the paper's Algorithm 1, in which links never go.
        self.owed.pop(peer, None)

    def on_publish(self, publication: Publication, out: Outbox) -> None:
        # Alg. 1, l. 8-10.
        self._accept(Copy(publication), self.me, out)

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> None:
        # Alg. 1, l. 11-19.
        assert isinstance(message, Copy)
        owed = self.owed.get(sender)
        if owed is None:
            out.note("naive_causal.from_stranger", sender)
        elif message.publication.key in owed:
            owed.remove(message.publication.key)
            out.duplicate(message.publication.id)
        else:
            self._accept(message, sender, out)

    def _accept(self, copy: Copy, sender: NodeId, out: Outbox) -> None:
        for peer, owed in self.owed.items():
            if peer != sender:
                owed.add(copy.publication.key)
            out.send(peer, copy)  # also back to the sender, which waits for ours
        out.deliver(copy.publication)

    def state_size(self) -> int:
        return sum(len(owed) for owed in self.owed.values())


def build(setup: Setup) -> NaiveCausal:
    return NaiveCausal(setup.me)


def nothing_is_owed(multicast: Multicast) -> bool:
    assert isinstance(multicast, NaiveCausal)
    return multicast.state_size() == 0


SPEC = ProtocolSpec(
    name="naive_causal",
    summary="Flood over FIFO links; causal as long as no link comes or goes.",
    build=build,
    messages=[Copy],
    guarantees=[
        "no_creation",
        "no_duplication",
        "validity",
        "agreement",
        "fifo_order",
        "causal_order",
    ],
    needs=Needs(overlay="static", links="fifo"),
    at_rest=[nothing_is_owed],
    cost="no entries; the id and the group",
)
