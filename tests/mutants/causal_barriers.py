"""Planted bugs of `causal_barriers`: what a barrier names, and what a delivery does to it."""

from causalcast.core import Message, NodeId, Outbox
from causalcast.parts.member_lists import Joined, MemberLists
from causalcast.parts.reliable_links import Direction, Got, Parcel, ReliableLinks, Sent
from causalcast.protocols.causal_barriers import Barred, CausalBarriers
from causalcast.swarm.mutant import Mutant, Patch

_pass = CausalBarriers._pass
_on_message = ReliableLinks.on_message


def nothing_missing(self: CausalBarriers, barred: Barred) -> list[tuple[NodeId, int]]:
    return []


def only_the_sender_missing(self: CausalBarriers, barred: Barred) -> list[tuple[NodeId, int]]:
    barrier = barred.barriers.get(self.me, {})
    return [(s, n) for s, n in list(barrier.items())[:1] if self.delivered.get(s, 0) < n]


def barriers_of_others_not_added(self: CausalBarriers, sender: NodeId, barred: Barred) -> bool:
    """What was not sent to a node does not touch the barrier for it."""
    mine = {node: b for node, b in barred.barriers.items() if node in barred.to}
    return _pass(self, sender, Barred(barred.number, barred.to, mine, barred.content))


def delivered_not_added(self: CausalBarriers, sender: NodeId, barred: Barred) -> bool:
    """A delivered message does not stand before the next ones to its other destinations."""
    before = {node: dict(barrier) for node, barrier in self.barriers.items()}
    meant = _pass(self, sender, barred)
    for node in barred.to:
        if node in before:
            self.barriers[node] = before[node]
        else:
            self.barriers.pop(node, None)
    return meant


def barrier_replaced(self: CausalBarriers, sender: NodeId, barred: Barred) -> bool:
    """A delivered message stands for everything, also for what it does not imply."""
    meant = _pass(self, sender, barred)
    for node in barred.to:
        if node not in (self.me, sender):
            self.barriers[node] = {sender: barred.number}
    return meant


def own_messages_unbarred(self: CausalBarriers, barred: Barred) -> None:
    self.sent = barred.number
    self.delivered[self.me] = barred.number


def take_as_they_come(
    self: ReliableLinks, sender: NodeId, message: Message, out: Outbox
) -> list[Message]:
    """Parcels are taken as they come."""
    if not isinstance(message, Parcel):
        return _on_message(self, sender, message, out)
    direction = self.peers[sender]
    if message.number <= direction.taken:
        return []
    direction.taken = message.number - 1
    return _on_message(self, sender, message, out)


def never_sent_again(self: ReliableLinks, peer: NodeId, direction: Direction, out: Outbox) -> None:
    last = direction.sent
    if direction.up and direction.heard and direction.under_way < last:
        direction.under_way = last
        out.send(peer, Parcel(last, direction.kept[last]))


def sent_not_restored(self: ReliableLinks, record: Message) -> Message:
    if not isinstance(record, Sent):
        return _restore(self, record)
    for peer in record.to:
        self.peers[peer].sent += 1
    return record


_restore = ReliableLinks.restore


def acknowledged_too_much(
    self: ReliableLinks, peer: NodeId, direction: Direction, got: Got, out: Outbox
) -> None:
    _on_got(self, peer, direction, Got(got.count + 1, got.answer), out)


_on_got = ReliableLinks._on_got


def join_kept_secret(self: MemberLists, node: NodeId, joined: Joined) -> None:
    return


def everything_is_meant(self: MemberLists, group: int, sender: NodeId) -> bool:
    return True


MUTANTS = [
    Mutant(
        "barrier_not_checked",
        "a message waits for what the barrier names",
        ["causal_order", "fifo_order"],
        [Patch(CausalBarriers, "_missing", nothing_missing)],
    ),
    Mutant(
        "barrier_half_checked",
        "… for all of it",
        ["causal_order"],
        [Patch(CausalBarriers, "_missing", only_the_sender_missing)],
    ),
    Mutant(
        "others_barriers_dropped",
        "barriers for nodes that a message was not sent to are passed on",
        ["causal_order"],
        [Patch(CausalBarriers, "_pass", barriers_of_others_not_added)],
    ),
    Mutant(
        "delivered_not_in_barrier",
        "a delivered message stands before the next ones to its destinations",
        ["causal_order"],
        [Patch(CausalBarriers, "_pass", delivered_not_added)],
    ),
    Mutant(
        "concurrent_pruned",
        "only what a message implies is taken out of a barrier",
        ["causal_order", "fifo_order"],
        [Patch(CausalBarriers, "_pass", barrier_replaced)],
    ),
    Mutant(
        "own_messages_unbarred",
        "own messages stand before one's next ones",
        ["causal_order", "fifo_order"],
        [Patch(CausalBarriers, "_count_sent", own_messages_unbarred)],
    ),
    Mutant(
        "parcels_out_of_order",
        "a link takes parcels in their order",
        ["agreement", "causal_order", "fifo_order", "at_rest", "no_exception"],
        [Patch(ReliableLinks, "on_message", take_as_they_come)],
    ),
    Mutant(
        "parcels_not_repeated",
        "what was not acknowledged is sent again",
        ["agreement", "validity", "at_rest"],
        [Patch(ReliableLinks, "_send_waiting", never_sent_again)],
    ),
    Mutant(
        "acknowledged_too_much",
        "only what arrived is acknowledged",
        ["agreement", "validity", "at_rest", "no_exception"],
        [Patch(ReliableLinks, "_on_got", acknowledged_too_much)],
    ),
    Mutant(
        "sent_not_restored",
        "what was sent before a crash is sent to all after it",
        ["agreement", "at_rest", "no_exception"],
        [Patch(ReliableLinks, "restore", sent_not_restored)],
    ),
    Mutant(
        "join_not_heard",
        "who joined is addressed",
        ["agreement"],
        [Patch(MemberLists, "on_joined", join_kept_secret)],
    ),
    Mutant(
        "old_copies_taken",
        "what was meant for an earlier membership is not delivered",
        ["agreement", "causal_order", "fifo_order"],
        [Patch(MemberLists, "is_meant", everything_is_meant)],
    ),
]
