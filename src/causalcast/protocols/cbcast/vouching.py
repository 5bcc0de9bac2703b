"""Welcomes and farewells that will never come, because who owes them is away (sub-automaton).

A new member waits for each node's welcome, which says which of its publications to the group were
not meant for the member. If that node died, the others vouch for it: whatever of its publications
is in their past and not kept for the member was not meant for it. In the same way others answer for
a farewell (`farewells`). Questions are asked less and less often, and again when something changed.

Not in the paper: it agrees on the members by a flush, and nobody waits for a welcome.
"""

from typing import Final, final

from causalcast.core import GroupId, Message, NodeId, Outbox, Wire
from causalcast.limits import Limit
from causalcast.parts.addressed.addressed_messages import EVERYBODY, Numbered
from causalcast.parts.addressed.addressed_sending import AddressedSending
from causalcast.parts.addressed.member_lists import MemberLists
from causalcast.parts.addressed.waiting_room import WaitingRoom
from causalcast.parts.vector_clock import VectorClock
from causalcast.protocols.cbcast.farewells import Farewells, Unheard
from causalcast.protocols.cbcast.timestamped import Clocks, Timestamped

ASK: Final = "cbcast.ask"
MOST_PATIENCE: Final = Limit(
    "protocols.cbcast.vouching.most_patience",
    64,
    least=1,
    most=1 << 16,
    unit="times",
    about="the first pause; then nothing is asked until something changes",
)


class Unwelcomed(Message):
    """The sender's `time`-th membership of a group was not welcomed by these, who seem to be away.

    The sender assumes that their publications to the group up to these counts were not addressed to
    it. Reply if you know a higher count.
    """

    wire = Wire("cbcast.unwelcomed", group=GroupId, time=int, counts=dict[NodeId, int])

    def __init__(self, group: GroupId, time: int, counts: VectorClock) -> None:
        self.group = group
        self.time = time
        self.counts = counts


class Vouched(Message):
    """Up to these counts no publication to the group was meant for your `time`-th membership."""

    wire = Wire("cbcast.vouched", group=GroupId, time=int, counts=dict[NodeId, int])

    def __init__(self, group: GroupId, time: int, counts: VectorClock) -> None:
        self.group = group
        self.time = time
        self.counts = counts


@final
class Vouching:
    """When to ask next about what waits for somebody who is away."""

    def __init__(
        self,
        first_pause: int,
        me: NodeId,
        lists: MemberLists,
        waiting: WaitingRoom,
        farewells: Farewells,
        sending: AddressedSending,
    ) -> None:
        self.me = me
        self._lists = lists
        self._waiting = waiting
        self._farewells = farewells
        self._sending = sending
        self._first_pause = first_pause
        self._pause = first_pause
        self._asking = False

    def begin_again(self, done: Clocks, out: Outbox) -> None:
        """Something changed: ask soon, if there is something to ask."""
        self._pause = self._first_pause
        self.ask_soon(done, out)

    def ask_soon(self, done: Clocks, out: Outbox) -> None:
        """Ask after a pause, if something waits for a node that is away."""
        is_patient = self._pause > MOST_PATIENCE.value * self._first_pause
        if not self._asking and not is_patient and (self._unwelcoming(done) or self._unheard()):
            self._asking = True
            out.start_timer(ASK, self._pause)

    def ask(self, done: Clocks, out: Outbox) -> None:
        """The pause is over: ask everybody who is there."""
        self._asking = False
        present = self._sending.safe.present()
        for group, counts in self._unwelcoming(done).items():
            time = self._lists.time_of(group, self.me)
            self._sending.tell(present, Unwelcomed(group, time, counts), out)
        for unheard in self._unheard().values():
            out.note("cbcast.unheard")
            self._sending.tell(present, unheard, out)
        self._pause *= 2
        self.ask_soon(done, out)

    def vouch(self, member: NodeId, asked: Unwelcomed, past: Clocks, out: Outbox) -> None:
        """Say what is in this node's past and was not meant for a new member.

        Whatever was meant for it and is in the past is kept here, for the member lacks it.
        """
        group = asked.group
        if self._lists.time_of(group, member) != asked.time:
            return  # its join is not known here yet, or it is an old one
        counts = {}
        for node, known in asked.counts.items():
            not_meant = past.get(group, {}).get(node, 0)
            for origin, _, kept in self._sending.safe.copies():
                if origin == node and self._is_addressed(kept, group, member, asked.time):
                    assert isinstance(kept, Timestamped)
                    not_meant = min(not_meant, kept.before)
            if not_meant > known:
                counts[node] = not_meant
        if counts:
            out.note("cbcast.vouched", member)
            self._sending.tell([member], Vouched(group, asked.time, counts), out)

    def _is_addressed(self, kept: Message, group: GroupId, member: NodeId, time: int) -> bool:
        assert isinstance(kept, Numbered)
        return self._sending.is_addressed(kept, group, member, time)

    def _unwelcoming(self, done: Clocks) -> Clocks:
        """Per group: nodes that are away, did not welcome this one, and that something waits for;
        with how many of their publications are known not to be meant for it."""
        found: Clocks = {}
        for missing in self._waiting.missing():
            group, node = GroupId(missing[0]), NodeId(missing[1])
            is_member = group != EVERYBODY and self._lists.has(group, self.me)
            is_late = is_member and not self._lists.is_welcomed(group, node)
            if is_late and self._sending.safe.is_away(node):
                found.setdefault(group, {})[node] = done.get(group, {}).get(node, 0)
        return found

    def _unheard(self) -> dict[GroupId, Unheard]:
        """The leaves that something waits for whose sender is away."""
        found: dict[GroupId, Unheard] = {}
        if self._farewells.size() > 0:
            for sender, message in self._waiting.entries():
                if self._sending.safe.is_away(sender) and isinstance(message, Timestamped):
                    for unheard in self._farewells.unheard(sender):
                        if unheard.group in message.clocks:
                            found[unheard.group] = unheard
        return found
