"""Passes messages on over a tree, around nodes that seem to be down, until all targets confirm.

A message that was processed here is a record with targets. Each target that is the first live node
on its way is sent a copy, once enough numbers are known for it to be recognised there, and again
when more numbers are known. What a target has not confirmed is repeated, less and less often.
"""

from typing import Final

from causalcast.core.ids import NodeId
from causalcast.core.outbox import Outbox
from causalcast.limits import Limit
from causalcast.parts.tree.neighbourhood import NOBODY
from causalcast.protocols.locamu.headers import Headers
from causalcast.protocols.locamu.link_header import Header
from causalcast.protocols.locamu.local_past import nested
from causalcast.protocols.locamu.message_log import Record
from causalcast.protocols.locamu.messages import HandedOn, Probe, with_header
from causalcast.protocols.locamu.node_state import NodeState
from causalcast.protocols.locamu.own_names import OwnNames

MOST_DOUBLINGS: Final = Limit(
    "protocols.locamu.forwarding.most_doublings",
    3,
    least=0,
    most=16,
    unit="times",
    about="how often the time until something is repeated doubles",
)
KNOWN_DOUBLINGS: Final = Limit(
    "protocols.locamu.forwarding.known_doublings",
    8,
    least=0,
    most=16,
    unit="times",
    about="the same for questions after numbers that somebody who is away gave",
)
FIRST_DOUBLINGS: Final = Limit(
    "protocols.locamu.forwarding.first_doublings",
    2,
    least=0,
    most=16,
    unit="times",
    about="how often it has doubled already where links lose nothing",
)


class Forwarding:
    """Copies under way from here, and those that a window was too small for."""

    def __init__(
        self, state: NodeState, headers: Headers, own_names: OwnNames, window: int
    ) -> None:
        self._me = state.me
        self._peers = state.peers
        self._around = state.around
        self._paths = state.paths
        self._log = state.log
        self._headers = headers
        self._own_names = own_names
        self._window = window
        self._under_way: dict[NodeId, dict[Record, None]] = {}  # sent, not acknowledged
        self._behind: dict[NodeId, dict[Record, None]] = {}  # what a window was too small for

    # Sending on

    def forward(self, record: Record, out: Outbox) -> None:
        """Offer a message to those of its targets that are the first live node on their way."""
        # Alg. 1, l. 1-5: (RE)TRANSMIT.
        for node in self._peers.active:
            if node in record.targets:
                self.offer(record, node, False, out)

    def offer(self, record: Record, node: NodeId, again: bool, out: Outbox) -> None:
        """Send a copy to a target that lacks it, or lacks numbers that are known here."""
        if node in record.complete_at or node not in self._peers.links:
            return
        before = self.before(record, node)
        if not self._is_wanted(record, node, before):
            return
        if not self._paths.is_enough(record, before, node):
            out.note("locamu.unsafe", node)
        elif self._has_room(record, node):
            self._send_copy(record, node, before, again, out)
        else:
            self._behind.setdefault(node, {})[record] = None

    def before(self, record: Record, node: NodeId) -> list[NodeId]:
        """The issuers before a target on the message's way."""
        if node not in record.handed_on:
            return self._paths.upstream(record, node)
        way = self._around.between(self._me, node)
        fell = next(x for x in way if record.is_numbered(x, node))
        return [
            issuer
            for issuer in record.numbers
            if issuer not in (self._me, node)
            and (issuer == fell or fell in self._around.between(self._me, issuer))
            and self._around.distance(issuer, node) <= self._paths.window
        ]

    def _is_wanted(self, record: Record, node: NodeId, before: list[NodeId]) -> bool:
        """Whether a copy with these issuers' numbers has something that a target was not sent, and
        has not confirmed."""
        sent = record.sent.get(node)
        if sent is not None and all(issuer in sent for issuer in before):
            return False
        known = record.known_at.get(node)
        return known is None or not all(issuer in known for issuer in before)

    def _has_room(self, record: Record, node: NodeId) -> bool:
        """A node that was away is not sent everything at once. It acknowledges in the order things
        were sent; what it cannot process because something later is missing, it asks for."""
        under_way = self._under_way.get(node, {})
        return len(under_way) < self._window or record in under_way

    def _send_copy(
        self, record: Record, node: NodeId, before: list[NodeId], again: bool, out: Outbox
    ) -> None:
        origin = record.origin
        if origin != NOBODY and self._around.distance(origin, node) > self._paths.window:
            origin = NOBODY
        numbers = {issuer: record.numbers[issuer] for issuer in before}
        if node in record.handed_on:
            numbers[self._me] = {node: record.targets[node]}
            message = with_header(record.message, b"")
            handed = HandedOn(message, origin, record.epoch, numbers, nested(record.needs))
            out.note("locamu.handed_on", node)
            self._note_sent(record, node, before, out)
            out.send(node, handed, self._peers.links[node])
            return
        header = Header(origin, record.epoch, numbers, record.needs)
        if self._peers.goes_on:
            whole = self._headers.is_whole(node, again)
            header.names = self._own_names.to_tell(node, record, whole, out)
        data = self._headers.write(node, header, again)
        if self._around.distance(self._me, node) > 1:
            out.note("locamu.jump", node)
        self._note_sent(record, node, before, out)
        out.send(node, with_header(record.message, data), self._peers.links[node])

    def _note_sent(self, record: Record, node: NodeId, before: list[NodeId], out: Outbox) -> None:
        record.sent[node] = before
        record.given[node] = None
        record.tried_at[node] = out.now
        if node not in record.complete_at:  # it may ask for what it has got meanwhile
            self._under_way.setdefault(node, {})[record] = None

    def send_what_is_asked_for(self, node: NodeId, numbers: list[int], out: Outbox) -> None:
        """Send the messages with these numbers to a node that asks, even if others should bring
        them."""
        for number in numbers:
            record = self._log.at((self._me, node, number))
            if record is not None and node in self._peers.links:
                before = self.before(record, node)
                if self._paths.is_enough(record, before, node):
                    out.note("locamu.pulled", node)
                    self._send_copy(record, node, before, True, out)

    # What targets confirm

    def confirm(self, record: Record, node: NodeId) -> None:
        """A target has a message, and knows all its numbers."""
        self._log.close_for(record, node)
        self._settle(record, node)

    def confirm_in_part(self, record: Record, node: NodeId, issuers: list[NodeId]) -> None:
        """A target has a message, and knows the numbers of these issuers."""
        record.known_at.setdefault(node, {}).update(dict.fromkeys(issuers))
        record.held_at.pop(node, None)
        self._settle(record, node)

    def _settle(self, record: Record, node: NodeId) -> None:
        if node in self._under_way:
            self._under_way[node].pop(record, None)

    def send_waiting(self, node: NodeId, out: Outbox) -> None:
        """Acknowledgements made room in the window: send what it was too small for."""
        behind = self._behind.get(node)
        if behind is None or node not in self._peers.active:
            return
        under_way = self._under_way.setdefault(node, {})
        while behind and len(under_way) < self._window:
            record = next(iter(behind))
            del behind[record]
            if record in self._log.records:
                self.offer(record, node, False, out)

    def is_passed_on(self, record: Record) -> bool:
        """Whether its numbers are complete here and at every target."""
        if len(record.complete_at) < len(record.targets):
            return False
        for node in record.targets:
            if node not in record.complete_at:
                return False
        return record.is_complete or self._paths.is_complete(record)

    def is_idle(self) -> bool:
        """Whether everything that was sent is confirmed."""
        return not any(self._under_way.values())

    # What was lost

    def repeat_to(self, node: NodeId, after: int, someone_is_gone: bool, out: Outbox) -> None:
        """Send again, ever less often, what a node has not confirmed, or ask after it."""
        if out.world.congested and self._is_behind(node, out.world.congested):
            self._wait_for_link(node, out)
            return
        probes: list[int] = []
        # Who answers late is busy, where nothing is lost.
        late = FIRST_DOUBLINGS.value if out.world.links_lose_nothing else 0
        under_way, behind = self._under_way.get(node, {}), self._behind.get(node, {})
        for record in list(self._log.open.get(node, ())):
            if record in behind and len(under_way) >= self._window and record not in under_way:
                continue  # it is sent when there is room
            tries = record.tries.get(node, 0)
            tried = record.tried_at.get(node, record.since)
            # Somebody nearer brings it, or it waits there, or it is there and nothing is missing
            # since somebody is gone: just ask.
            asks = node not in self._peers.active or node in record.held_at
            # Who has it and lacks numbers of somebody who is away says so when they come.
            lacks = asks and bool(self._peers.suspected) and node in record.known_at
            most = KNOWN_DOUBLINGS if lacks and not someone_is_gone else MOST_DOUBLINGS
            if out.now - tried < after << min(tries + late, most.value):
                continue
            if not asks:
                record.sent.pop(node, None)
                self.offer(record, node, True, out)
            if asks or (someone_is_gone and node in record.known_at):
                record.tried_at[node] = out.now
                probes.append(record.targets[node])
            if record.tried_at.get(node) == out.now:  # there was room, and it was safe
                record.tries[node] = tries + 1
        if probes:
            self._peers.tell(node, Probe(probes), out)

    def _is_behind(self, node: NodeId, congested: dict[NodeId, None]) -> bool:
        """Whether what is for a node waits on a link from here, to it or to somebody before it."""
        return any(near in congested for near in [node, *self._around.between(self._me, node)])

    def _wait_for_link(self, node: NodeId, out: Outbox) -> None:
        """A link that takes nothing more has not lost what it was given: what it has is late from
        when it has left."""
        for record in self._log.open.get(node, ()):
            record.tried_at[node] = out.now

    def forget_link(self, peer: NodeId) -> None:
        """There is another link to a node, or none: what was sent to it may be lost."""
        self._under_way.pop(peer, None)
        self._behind.pop(peer, None)
        for record in self._log.open.get(peer, ()):
            record.forget_tries(peer)

    def send_all_to(self, peer: NodeId, out: Outbox) -> None:
        """A new link: send everything that a node has not confirmed."""
        self.forget_link(peer)
        if peer in self._peers.active:
            for record in list(self._log.open.get(peer, ())):
                self.offer(record, peer, False, out)
