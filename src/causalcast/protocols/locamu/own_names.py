"""Which of this node's numbers others are told the messages of, and when they may forget that.

With a copy goes which messages this node numbered before, for nodes near its receiver that have not
confirmed them, unless the receiver was sent those messages too. With a publication of its own all
such numbers go: its receiver may have to stand in for this node, towards nodes that only this one
is near.
"""

from typing import Final

from causalcast.core.ids import NodeId
from causalcast.core.outbox import Outbox
from causalcast.limits import Limit
from causalcast.protocols.locamu.message_log import Record
from causalcast.protocols.locamu.messages import Key, Settled, key_of
from causalcast.protocols.locamu.node_state import NodeState

MOST_NAMES: Final = Limit(
    "protocols.locamu.own_names.most_names",
    1000,
    least=1,
    most=1 << 16,
    unit="messages",
    about="messages named in one header; the rest is named in the next ones",
)
_SPARE: Final = 64  # records that were forgotten and are not yet taken out of the list


class OwnNames:
    """How far each node was told of what was numbered here."""

    def __init__(self, state: NodeState) -> None:
        self._me = state.me
        self._peers = state.peers
        self._around = state.around
        self._past = state.past
        self._log = state.log
        self._numbered: list[Record] = []  # in the order they were; some may be forgotten
        self._told_near: dict[NodeId, int] = {}  # how many of them, on this link
        self._told_all: dict[NodeId, int] = {}
        self._before_link: dict[NodeId, int] = {}  # how many of them there were when it came up
        self._unsure: dict[NodeId, int] = {}  # how many when a header may have been lost
        self._to_settle: dict[NodeId, dict[NodeId, int]] = {}  # who was told -> the last word to it

    def add(self, record: Record) -> None:
        """A message was numbered here."""
        self._numbered.append(record)
        if len(self._numbered) > 2 * len(self._log.records) + _SPARE:
            self._compact()

    def restore(self) -> None:
        """After a crash: what was numbered before it is named after it, too."""
        self._numbered = list(self._log.records)

    def _compact(self) -> None:
        kept = [record in self._log.records for record in self._numbered]
        before = [0]
        for is_kept in kept:
            before.append(before[-1] + is_kept)
        self._told_near = {node: before[count] for node, count in self._told_near.items()}
        self._told_all = {node: before[count] for node, count in self._told_all.items()}
        self._before_link = {node: before[count] for node, count in self._before_link.items()}
        self._unsure = {node: before[count] for node, count in self._unsure.items()}
        self._numbered = [r for r, is_kept in zip(self._numbered, kept, strict=True) if is_kept]

    def to_tell(
        self, node: NodeId, copy: Record, whole: bool, out: Outbox
    ) -> list[tuple[Key, dict[NodeId, int]]]:
        """What to tell a node with a copy: messages, and their numbers for others. `whole`: its
        header can be read without those before it, so these may be lost."""
        self._to_settle.setdefault(node, {})
        tells_all = copy.origin == self._me
        lossless = out.world.links_lose_nothing
        if whole and not lossless:
            self._start_over(node)
        told = self._told_all if tells_all else self._told_near
        at = told.get(node, 0)
        found: list[tuple[Key, dict[NodeId, int]]] = []
        while at < len(self._numbered) and not (lossless and len(found) >= MOST_NAMES.value):
            record = self._numbered[at]
            was_before = at < self._before_link.get(node, 0)
            may_be_lost = at < self._unsure.get(node, 0)
            at += 1
            if record is not copy and record in self._log.records:
                # What it has of an earlier link it may have from others, without numbers of mine.
                was_sent = node in record.sent and not (was_before and node in record.complete_at)
                row = self._unknown_to(node, record, tells_all, was_sent and not may_be_lost)
                if row:
                    found.append((key_of(record.message), row))
        told[node] = at
        if tells_all:
            self._told_near[node] = max(at, self._told_near.get(node, 0))
        return found

    def _unknown_to(
        self, node: NodeId, record: Record, tells_all: bool, knows: bool
    ) -> dict[NodeId, int]:
        """The numbers of a message for nodes that may lack it; `knows`: of those near a node it
        knows already."""
        if knows and (record.origin == self._me or not tells_all):
            return {}
        distance, reach = self._around.distance, self._peers.reach
        row: dict[NodeId, int] = {}
        for other, number in record.targets.items():
            if other not in record.complete_at and other not in record.known_at:
                is_near = distance(other, node) <= reach
                if not knows if is_near else tells_all:
                    row[other] = number
        return row

    def _start_over(self, node: NodeId) -> None:
        """Headers to a node may have been lost, and copies with them."""
        self._told_near.pop(node, None)
        self._told_all.pop(node, None)
        self._unsure[node] = len(self._numbered)

    def forget_link(self, peer: NodeId) -> None:
        """There is another link to a node: what it was told may be lost."""
        self._told_near.pop(peer, None)
        self._told_all.pop(peer, None)
        self._unsure.pop(peer, None)
        self._before_link[peer] = len(self._numbered)

    # What need not be known any more

    def settle(self, out: Outbox) -> None:
        """Tell those who were sent something what the others have by now."""
        for node, last in list(self._to_settle.items()):
            if node not in self._peers.links:
                continue  # it asks when it is back
            settled = self._settled(node)
            news = {other: to for other, to in settled.items() if last.get(other, 0) != to}
            if news:
                self._peers.tell(node, Settled(news), out)
            if all(to == self._past.numbers[self._me, other] for other, to in settled.items()):
                del self._to_settle[node]
            else:
                self._to_settle[node] = settled

    def tell_settled(self, node: NodeId, out: Outbox) -> None:
        """Tell a node that asks."""
        self._peers.tell(node, Settled(self._settled(node)), out)

    def owes(self) -> bool:
        """Whether somebody linked is to be told what is settled."""
        return any(node in self._peers.links for node in self._to_settle)

    def _settled(self, asking: NodeId) -> dict[NodeId, int]:
        """For each node within reach, up to which number it has all."""
        return {
            node: self._settled_at(node)
            for node in self._peers.reachable
            if node != asking and (self._me, node) in self._past.numbers
        }

    def _settled_at(self, node: NodeId) -> int:
        for record in self._log.open.get(node, ()):
            if node not in record.known_at:
                return record.targets[node] - 1
        return self._past.numbers[self._me, node]
