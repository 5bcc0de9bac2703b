"""Planted bugs of `naive_flood`, which promises no order but agreement on reliable links."""

from causalcast.core import Message, NodeId, Outbox
from causalcast.protocols.naive_flood import Copy, NaiveFlood
from causalcast.swarm.mutant import Mutant, Patch


def accept_every_copy(self: NaiveFlood, sender: NodeId, message: Message, out: Outbox) -> None:
    assert isinstance(message, Copy)
    if message.publication.key in self.seen:
        out.deliver(message.publication)
    else:
        self._accept(message, sender, out)


def keep_to_oneself(self: NaiveFlood, copy: Copy, sender: NodeId, out: Outbox) -> None:
    self.seen.add(copy.publication.key)
    out.deliver(copy.publication)
    if sender == self.me:
        for peer in self.neighbours:
            out.send(peer, copy)


def pass_on_to_one(self: NaiveFlood, copy: Copy, sender: NodeId, out: Outbox) -> None:
    self.seen.add(copy.publication.key)
    out.deliver(copy.publication)
    for peer in list(self.neighbours)[:1]:
        out.send(peer, copy)


def deliver_to_others(self: NaiveFlood, copy: Copy, sender: NodeId, out: Outbox) -> None:
    self.seen.add(copy.publication.key)
    if sender != self.me:
        out.deliver(copy.publication)
    for peer in self.neighbours:
        if peer != sender:
            out.send(peer, copy)


MUTANTS = [
    Mutant(
        "duplicates_delivered",
        "a further copy is recognised",
        ["no_duplication"],
        [Patch(NaiveFlood, "on_message", accept_every_copy)],
    ),
    Mutant(
        "not_passed_on",
        "every node passes publications on",
        ["agreement"],
        [Patch(NaiveFlood, "_accept", keep_to_oneself)],
    ),
    Mutant(
        "passed_on_to_one",
        "to every neighbour",
        ["agreement"],
        [Patch(NaiveFlood, "_accept", pass_on_to_one)],
    ),
    Mutant(
        "own_not_delivered",
        "a publisher that is a member delivers its own",
        ["validity"],
        [Patch(NaiveFlood, "_accept", deliver_to_others)],
    ),
]
