"""Tells those who numbered a message that it is here, many messages at once.

A target acknowledges a message to everybody who numbered it for it, with the numbers that it knows:
only when all of them are known can a further copy be recognised, and the sender forget the message.
What there is to tell a node is collected for a while.
"""

from typing import Final

from causalcast.core.ids import NodeId
from causalcast.core.outbox import Outbox
from causalcast.protocols.locamu.message_log import Record
from causalcast.protocols.locamu.messages import Ack
from causalcast.protocols.locamu.node_state import NodeState

FLUSH_ACKS: Final = "word"  # the timer, as saved schedules name it


class Acknowledgements:
    """What is to be acknowledged, and what others have acknowledged."""

    def __init__(self, state: NodeState, acknowledge_after: int) -> None:
        self._me = state.me
        self._peers = state.peers
        self._paths = state.paths
        self._past = state.past
        self._log = state.log
        self._holdback = state.holdback
        self._acknowledge_after = acknowledge_after
        self._scheduled: dict[NodeId, None] = {}  # whom to tell something soon
        self._arrived: dict[NodeId, dict[int, None]] = {}  # numbers to acknowledge
        self._held: dict[NodeId, dict[int, None]] = {}  # numbers to say that they wait here
        self._incomplete: dict[NodeId, dict[int, None]] = {}  # arrived, but not all numbers known
        self._acknowledged_to: dict[NodeId, int] = {}  # by others: all up to this number

    def acknowledge(self, record: Record, out: Outbox) -> None:
        """Acknowledge a message to everybody who numbered it for this node, not only to who sent
        it."""
        numbers = self._to_confirm(record)
        self._mark_if_complete(record, numbers)
        for issuer, number in numbers.items():
            self.acknowledge_to(issuer, number, out)

    def acknowledge_to(self, issuer: NodeId, number: int, out: Outbox) -> None:
        """Acknowledge one number to the node that gave it."""
        self._arrived.setdefault(issuer, {})[number] = None
        self.schedule(issuer, out)

    def say_held(self, source: NodeId, number: int, out: Outbox) -> None:
        """Tell the sender of a copy that it waits here, if it still does when acknowledgements
        leave."""
        self._held.setdefault(source, {})[number] = None
        self.schedule(source, out)

    def schedule(self, node: NodeId, out: Outbox) -> None:
        """Let acknowledgements for a node leave soon, together."""
        if node not in self._scheduled:
            self._scheduled[node] = None
            out.start_timer(FLUSH_ACKS, self._acknowledge_after, node)

    def flush(self, node: NodeId, out: Outbox) -> None:
        """Send a node the acknowledgements that were collected for it."""
        del self._scheduled[node]
        due = self._arrived.pop(node, {})
        held = [n for n in self._held.pop(node, {}) if self._holdback.has(node, n)]
        if node not in self._peers.links:
            return  # it will send again, or ask, when there is a link
        if due or held:
            self._peers.tell(node, self._ack_for(node, due, held), out)

    def _ack_for(self, issuer: NodeId, due: dict[int, None], held: list[int]) -> Ack:
        incomplete = self._incomplete.get(issuer, {})
        complete_to = self._past.arrived[issuer].count
        if incomplete:
            complete_to = min(complete_to, min(incomplete) - 1)
        complete: list[int] = []
        partial: dict[int, list[NodeId]] = {}
        for number in due:
            if number in incomplete:
                record = self._log.at((issuer, self._me, number))
                assert record is not None
                partial[number] = self._paths.upstream(record, self._me)
            elif number > complete_to:
                complete.append(number)
        return Ack(complete_to, complete, partial, held)

    def watch_complete(self, record: Record) -> bool:
        """Check again whether all numbers of a message are known, and return that."""
        return self._mark_if_complete(record, self._to_confirm(record))

    def _mark_if_complete(self, record: Record, numbers: dict[NodeId, int]) -> bool:
        """Remember which numbers belong to messages whose numbers are not all known."""
        complete = record.is_complete or self._paths.is_complete(record)
        record.is_complete = complete
        for issuer, number in numbers.items():
            incomplete = self._incomplete.setdefault(issuer, {})
            if complete:
                incomplete.pop(number, None)
            else:
                incomplete[number] = None
        return complete

    def _to_confirm(self, record: Record) -> dict[NodeId, int]:
        """Who within reach wants to hear that it is here, and under which number."""
        numbers = {**record.apart, **record.numbers_for(self._me)}
        return {node: n for node, n in numbers.items() if node in self._peers.reachable}

    def newly_complete(self, sender: NodeId, ack: Ack) -> list[int]:
        """The numbers that an acknowledgement is the first to call complete."""
        before = self._acknowledged_to.get(sender, 0)
        to = min(ack.complete_to, self._past.numbers.get((self._me, sender), 0))
        self._acknowledged_to[sender] = max(before, to)
        if to - before <= len(self._log.records):
            found = list(range(before + 1, to + 1))
        else:
            given = [record.targets.get(sender, 0) for record in self._log.records]
            found = [number for number in given if before < number <= to]
        return found + ack.complete
