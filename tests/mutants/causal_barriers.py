"""Planted bugs of `causal_barriers`: what a barrier names, and what a delivery does to it."""

from causalcast.core import Message, NodeId, Outbox
from causalcast.parts.addressed.addressed_messages import Spreading
from causalcast.parts.addressed.addressed_sending import AddressedSending
from causalcast.parts.addressed.member_lists import Joined, MemberLists
from causalcast.parts.addressed.reliable_links import Direction, Got, Parcel, ReliableLinks, Sent
from causalcast.protocols.causal_barriers import Barred, Barrier, CausalBarriers
from causalcast.swarm.mutant import Mutant, Patch

_count = CausalBarriers._count
_on_message = ReliableLinks.on_message


def nothing_missing(self: CausalBarriers, message: Barred) -> Barrier:
    return {}


def first_missing(self: CausalBarriers, message: Barred) -> Barrier:
    """Only the first entry of a barrier is looked at."""
    barrier = list(message.barriers.get(self.me, {}).items())[:1]
    return {s: n for s, n in barrier if self.delivered.get(s, 0) < n}


def barriers_of_others_not_added(self: CausalBarriers, sender: NodeId, message: Barred) -> None:
    """What was not sent to a node does not touch the barrier for it."""
    mine = {node: b for node, b in message.barriers.items() if node in message.to}
    _count(self, sender, Barred(message.number, message.to, mine, message.content))


def delivered_not_added(self: CausalBarriers, sender: NodeId, message: Barred) -> None:
    """A delivered message does not stand before the next ones to its other destinations."""
    before = {node: dict(barrier) for node, barrier in self.barriers.items()}
    _count(self, sender, message)
    for node in message.to:
        if node in before:
            self.barriers[node] = before[node]
        else:
            self.barriers.pop(node, None)


def barrier_replaced(self: CausalBarriers, sender: NodeId, message: Barred) -> None:
    """A delivered message stands for everything, also for what it does not imply."""
    _count(self, sender, message)
    for node in message.to:
        if node not in (self.me, sender):
            self.barriers[node] = {sender: message.number}


def own_messages_unbarred(self: CausalBarriers, message: Barred) -> None:
    self.sent = message.number
    self.delivered[self.me] = message.number


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


def hand_nothing_over(
    self: AddressedSending, peer: NodeId, origin: NodeId, message: Message, out: Outbox
) -> None:
    """What an origin that is away cannot bring, nobody brings."""


def everywhere_at_once(self: AddressedSending, spreading: Spreading) -> bool:
    return True


def entrust_nothing(self: AddressedSending, node: NodeId, out: Outbox) -> None:
    """Who is no member gets effects alone."""
    self._to_entrust.pop(node, None)


MUTANTS = [
    Mutant(
        "barrier_not_checked",
        "a message waits for what the barrier names",
        ["causal_order", "fifo_order", "agreement"],
        [Patch(CausalBarriers, "_missing", nothing_missing)],
    ),
    Mutant(
        "barrier_half_checked",
        "… for all of it",
        ["causal_order"],
        [Patch(CausalBarriers, "_missing", first_missing)],
    ),
    Mutant(
        "others_barriers_dropped",
        "barriers for nodes that a message was not sent to are passed on",
        ["causal_order"],
        [Patch(CausalBarriers, "_count", barriers_of_others_not_added)],
    ),
    Mutant(
        "delivered_not_in_barrier",
        "a delivered message stands before the next ones to its destinations",
        ["causal_order"],
        [Patch(CausalBarriers, "_count", delivered_not_added)],
    ),
    Mutant(
        "concurrent_pruned",
        "only what a message implies is taken out of a barrier",
        ["causal_order", "fifo_order"],
        [Patch(CausalBarriers, "_count", barrier_replaced)],
    ),
    Mutant(
        "own_messages_unbarred",
        "own messages stand before one's next ones",
        ["agreement", "causal_order", "fifo_order", "no_duplication"],
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
    Mutant(
        "nothing_handed_over",
        "what an origin that died cannot bring, others bring",
        ["agreement"],
        [Patch(AddressedSending, "hand_over", hand_nothing_over)],
    ),
    Mutant(
        "forgotten_too_soon",
        "a copy is kept until it is at all its destinations",
        ["agreement"],
        [Patch(AddressedSending, "_has_arrived", everywhere_at_once)],
    ),
    Mutant(
        "outsiders_not_entrusted",
        "who is no member keeps the causes of what it delivers",
        ["agreement"],
        [Patch(AddressedSending, "entrust", entrust_nothing)],
    ),
]
