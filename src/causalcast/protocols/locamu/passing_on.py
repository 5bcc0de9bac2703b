"""Passes messages on over a tree, around nodes that seem to be down, until all targets confirm.

A message that was processed here is a record with targets. Each target that is the first live node
on its way is sent a copy, once enough numbers are known for it to be recognised there, and again
when more numbers are known. Targets acknowledge the numbers they know, many at once.
"""

from typing import Final

from mypy_extensions import mypyc_attr

from causalcast.core import LinkId, Message, Multicast, NodeId, Outbox, Setup
from causalcast.parts.tree.neighbourhood import Neighbourhood, Pair
from causalcast.parts.tree.safe_path import NOBODY, SafePath
from causalcast.protocols.locamu.departures import Departures
from causalcast.protocols.locamu.link_header import Header, HeaderReader, HeaderWriter, LinkPlan
from causalcast.protocols.locamu.local_past import LocalPast, nested
from causalcast.protocols.locamu.message_log import MessageLog, Record
from causalcast.protocols.locamu.messages import Ack, Finished, HandedOn, with_header

MOST_DOUBLINGS: Final = 3  # of the time until something is repeated
WORD: Final = "word"  # acknowledgements, and what is finished, for one node


@mypyc_attr(allow_interpreted_subclasses=True)
class PassingOn(Multicast):
    """Messages on their way onward from here."""

    def __init__(self, setup: Setup, around: Neighbourhood, paths: SafePath) -> None:
        self.me = setup.me
        self.f = setup.number("f")
        self.reach = self.f + 1
        self.horizon = 2 * self.f + 1
        self.acknowledge_after = setup.number("acknowledge_after")
        self.window = setup.number("window")
        self.compresses = setup.text("headers") == "compressed"
        self.around = around
        self.paths = paths
        self.extended = dict.fromkeys(around.within(self.reach))
        # Survives a crash.
        self.past = LocalPast(self.me, list(self.extended))
        self.log = MessageLog()
        self.departures = Departures(around, self.reach, self.horizon)
        # Does not.
        self.suspected: dict[NodeId, None] = {}
        self.active = self._first_live()
        self.links: dict[NodeId, LinkId] = {}
        self._plans: dict[Pair, LinkPlan] = {}
        self._writers: dict[NodeId, HeaderWriter] = {}
        self._readers: dict[NodeId, HeaderReader] = {}
        self._incomplete: dict[NodeId, dict[int, None]] = {}  # arrived, but not all numbers known
        self._under_way: dict[NodeId, dict[Record, None]] = {}  # sent, not acknowledged
        self._behind: dict[NodeId, dict[Record, None]] = {}  # what a window was too small for
        self._words_due: dict[NodeId, None] = {}  # whom to tell something soon
        self._to_acknowledge: dict[NodeId, dict[int, None]] = {}
        self._to_say_held: dict[NodeId, dict[int, None]] = {}
        self._acknowledged_to: dict[NodeId, int] = {}
        self._to_finish: dict[NodeId, None] = {}  # whom to tell what is finished here

    def __getstate__(self) -> dict[str, object]:
        """For searches that compare states: what was asked for before is no state."""
        return {**self.__dict__, "_plans": {}}

    # Sending on

    def _forward(self, record: Record, out: Outbox) -> None:
        for node in self.active:
            if node in record.targets:
                self._offer(record, node, False, out)

    def _offer(self, record: Record, node: NodeId, again: bool, out: Outbox) -> None:
        """Send a copy to a target that lacks it, or lacks numbers that are known here."""
        if node in record.complete_at or node not in self.links:
            return
        before = self._before(record, node)
        if not self._is_wanted(record, node, before):
            return
        if not self.paths.is_enough(record, before, node):
            out.note("locamu.unsafe", node)
        elif self._has_room(record, node):
            self._send_copy(record, node, before, again, out)
        else:
            self._behind.setdefault(node, {})[record] = None

    def _before(self, record: Record, node: NodeId) -> list[NodeId]:
        """The issuers before a target on the message's way."""
        if not self._is_handed_on(record, node):
            return self.paths.upstream(record, node)
        way = self.around.between(self.me, node)
        fell = next(x for x in way if self._numbered(record, x, node))
        return [
            issuer
            for issuer in record.numbers
            if issuer not in (self.me, node)
            and (issuer == fell or fell in self.around.between(self.me, issuer))
            and self.around.distance(issuer, node) <= self.paths.window
        ]

    def _is_handed_on(self, record: Record, node: NodeId) -> bool:
        """Whether a target is not on the message's way onward from here."""
        return node in record.handed_on

    def _numbered(self, record: Record, issuer: NodeId, node: NodeId) -> bool:
        return issuer in record.numbers and node in record.numbers[issuer]

    def _has_room(self, record: Record, node: NodeId) -> bool:
        """A node that was away is not sent everything at once. It acknowledges in the order things
        were sent; what it cannot process for want of something later, it asks for."""
        under_way = self._under_way.get(node, {})
        return len(under_way) < self.window or record in under_way

    def _send_waiting(self, node: NodeId, out: Outbox) -> None:
        """Acknowledgements made room: go on where it was too small."""
        behind = self._behind.get(node)
        if behind is None or node not in self.active:
            return
        under_way = self._under_way.setdefault(node, {})
        while behind and len(under_way) < self.window:
            record = next(iter(behind))
            del behind[record]
            if record in self.log.records:
                self._offer(record, node, False, out)

    def _is_wanted(self, record: Record, node: NodeId, before: list[NodeId]) -> bool:
        sent = record.sent.get(node)
        if sent is not None and all(issuer in sent for issuer in before):
            return False
        known = record.known_at.get(node)
        return known is None or not all(issuer in known for issuer in before)

    def _send_copy(
        self, record: Record, node: NodeId, before: list[NodeId], again: bool, out: Outbox
    ) -> None:
        origin = record.origin
        if origin != NOBODY and self.around.distance(origin, node) > self.paths.window:
            origin = NOBODY
        numbers = {issuer: record.numbers[issuer] for issuer in before}
        if self._is_handed_on(record, node):
            numbers[self.me] = {node: record.targets[node]}
            needs = nested(record.needs)
            message = with_header(record.message, b"")
            handed = HandedOn(message, origin, record.epoch, numbers, needs)
            out.note("locamu.handed_on", node)
            self._note_sent(record, node, before, out)
            out.send(node, handed, self.links[node])
            return
        header = Header(origin, record.epoch, numbers, record.needs)
        writer = self._writers.get(node)
        if writer is None:
            writer = HeaderWriter(self._plan(self.me, node))
            self._writers[node] = writer
        if again:
            writer.start_over()
        if self.compresses:
            data = writer.write(header)
        else:
            data = writer.write_alone(header)
        if self.around.distance(self.me, node) > 1:
            out.note("locamu.jump", node)
        self._note_sent(record, node, before, out)
        out.send(node, with_header(record.message, data), self.links[node])

    def _note_sent(self, record: Record, node: NodeId, before: list[NodeId], out: Outbox) -> None:
        record.sent[node] = before
        record.tried_at[node] = out.now
        if node not in record.complete_at:  # it may ask for what it has got meanwhile
            self._under_way.setdefault(node, {})[record] = None

    def _tell(self, node: NodeId, message: Message, out: Outbox) -> None:
        if node in self.links:
            out.send(node, message, self.links[node])

    def _first_live(self) -> dict[NodeId, None]:
        """The first node that is not suspected on every way; the neighbours if none is."""
        return {
            node: None
            for node in self.extended
            if node not in self.suspected
            and all(between in self.suspected for between in self.around.between(self.me, node))
        }

    # Acknowledging

    def _acknowledge(self, record: Record, out: Outbox) -> None:
        """Tell everybody who numbered it for me, not only who sent it."""
        for issuer, number in record.to_confirm(self.me).items():
            if issuer in self.extended:
                self._acknowledge_to(issuer, number, out)

    def _acknowledge_to(self, issuer: NodeId, number: int, out: Outbox) -> None:
        self._to_acknowledge.setdefault(issuer, {})[number] = None
        self._plan_word(issuer, out)

    def _plan_word(self, node: NodeId, out: Outbox) -> None:
        """Collect what there is to tell a node for a while."""
        if node not in self._words_due:
            self._words_due[node] = None
            out.start_timer(WORD, self.acknowledge_after, node)

    def _send_word(self, node: NodeId, out: Outbox) -> None:
        del self._words_due[node]
        due = self._to_acknowledge.pop(node, {})
        held = [n for n in self._to_say_held.pop(node, {}) if self._is_held(node, n)]
        finishes = node in self._to_finish
        self._to_finish.pop(node, None)
        if node in self.links:  # else it will send again, or ask, when there is a link
            if due or held:
                self._send_acknowledgements(node, due, held, out)
            if finishes:
                self._say_finished(node, out)

    def _is_held(self, source: NodeId, number: int) -> bool:
        """Whether a copy from a node waits here."""
        raise AssertionError("left to the protocol")

    def _say_held(self, source: NodeId, number: int, out: Outbox) -> None:
        """Tell who sent a copy that it waits here, if it does so for longer than a moment."""
        self._to_say_held.setdefault(source, {})[number] = None
        self._plan_word(source, out)

    def _send_acknowledgements(
        self, issuer: NodeId, due: dict[int, None], held: list[int], out: Outbox
    ) -> None:
        incomplete = self._incomplete.get(issuer, {})
        complete_to = self.past.arrived[issuer].count
        if incomplete:
            complete_to = min(complete_to, min(incomplete) - 1)
        complete: list[int] = []
        partial: dict[int, list[NodeId]] = {}
        for number in due:
            if number in incomplete:
                record = self.log.at((issuer, self.me, number))
                assert record is not None
                partial[number] = self.paths.upstream(record, self.me)
            elif number > complete_to:
                complete.append(number)
        out.send(issuer, Ack(complete_to, complete, partial, held), self.links[issuer])

    def _watch_complete(self, record: Record) -> bool:
        """Remember which numbers belong to messages whose numbers are not all known."""
        complete = self.paths.is_complete(record)
        for issuer, number in record.to_confirm(self.me).items():
            if issuer in self.extended:
                incomplete = self._incomplete.setdefault(issuer, {})
                if complete:
                    incomplete.pop(number, None)
                else:
                    incomplete[number] = None
        return complete

    def _newly_acknowledged(self, sender: NodeId, ack: Ack) -> list[int]:
        """The numbers that are complete at the sender and were not known to be."""
        before = self._acknowledged_to.get(sender, 0)
        to = min(ack.complete_to, self.past.numbers.get((self.me, sender), 0))
        self._acknowledged_to[sender] = max(before, to)
        if to - before <= len(self.log.records):
            found = list(range(before + 1, to + 1))
        else:
            given = [record.targets.get(sender, 0) for record in self.log.records]
            found = [number for number in given if before < number <= to]
        return found + ack.complete

    # What is finished

    def _is_passed_on(self, record: Record) -> bool:
        """Whether its numbers are complete here and at every target."""
        return all(node in record.complete_at for node in record.targets) and (
            self.paths.is_complete(record)
        )

    def _say_finished(self, node: NodeId, out: Outbox) -> None:
        to = self.past.numbers.get((self.me, node), 0)
        for record in self.log.own:
            if node in record.targets and not self._is_passed_on(record):
                to = record.targets[node] - 1
                break
        self._tell(node, Finished(to), out)

    # Headers

    def _reader(self, sender: NodeId) -> HeaderReader:
        reader = self._readers.get(sender)
        if reader is None:
            reader = HeaderReader(self._plan(sender, self.me))
            self._readers[sender] = reader
        return reader

    def _plan(self, source: NodeId, target: NodeId) -> LinkPlan:
        plan = self._plans.get((source, target))
        if plan is None:
            plan = LinkPlan(
                self.around, source, target, self.reach, self.paths.window, self.horizon
            )
            self._plans[source, target] = plan
        return plan
