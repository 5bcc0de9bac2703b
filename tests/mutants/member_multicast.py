"""Planted bugs of `member_multicast`."""

from causalcast.core import Outbox, Publication
from causalcast.protocols.member_multicast import protocol as member_multicast
from causalcast.protocols.member_multicast.members import Copy, MemberMulticast, Stamped, Taken
from causalcast.protocols.member_multicast.protocol import MemberCausalMulticast
from causalcast.swarm.mutant import Mutant, Patch

_multicast = MemberMulticast.multicast


def own_slot_alone(
    self: MemberMulticast, text: bytes, to: list[int], group: int = 0
) -> tuple[Taken, list[Copy]]:
    """Copies count what their sender sent, and nothing that it had delivered."""
    own, copies = _multicast(self, text, to, group)
    alone = [count if slot == self.me else 0 for slot, count in enumerate(own.stamped.vector)]
    return own, [Copy(one.to, Stamped(alone, True, text, group)) for one in copies]


def receptions_counted(self: MemberMulticast, sender: int, stamped: Stamped) -> list[Taken]:
    """The last rule of the report's section 2.2.1: a reception counts in one's own slot."""
    taken = _receive(self, sender, stamped)
    for one in taken:
        me = self._delivery.delivered
        me[self.me] = me.get(self.me, 0) + (one.sender != self.me)  # type: ignore[index, call-overload]
    return taken


def at_once(self: MemberMulticast, sender: int, stamped: Stamped) -> list[Taken]:
    """There is no hold-back queue."""
    number = stamped.vector[sender]
    counts = self._delivery.delivered
    counts[sender] = max(number, counts.get(sender, 0))  # type: ignore[index, call-overload]
    return [Taken(sender, number, stamped)]


def not_delivered_here(self: MemberCausalMulticast, publication: Publication, out: Outbox) -> None:
    """A member waits for its own message to come back, which it never does."""
    everybody = list(range(len(self.members)))
    _, copies = self.multicast.multicast(publication.body, everybody, publication.group)
    for copy in copies:
        whole = member_multicast.Copy(publication, copy.stamped.vector)
        self._send(self.members[copy.to], whole, out)


_receive = MemberMulticast.receive

MUTANTS = [
    Mutant(
        "own_slot_alone",
        "the vector counts what the sender had delivered",
        ["causal_order"],
        [Patch(MemberMulticast, "multicast", own_slot_alone)],
    ),
    Mutant(
        "no_hold_back",
        "a message is held back until its causes are delivered",
        ["causal_order"],
        [Patch(MemberMulticast, "receive", at_once)],
    ),
    Mutant(
        "receptions_counted",
        "only sending counts in a member's own slot (section 1.1, not 2.2.1)",
        ["no_exception", "at_rest"],
        [Patch(MemberMulticast, "receive", receptions_counted)],
    ),
    Mutant(
        "not_delivered_here",
        "a member delivers what it sends at once",
        ["validity"],
        [Patch(MemberCausalMulticast, "on_publish", not_delivered_here)],
    ),
]
