"""Runs the steps of a real node: writes each step to the journal, then performs its effects.

A step is one input to the stack. What it must not lose is one entry of the journal; what others
can see of it happens when that entry is durable, and what later steps show waits behind it, in
order. Timers act at once. Where no entry is under way and a step has nothing to keep, its effects
happen at once.

At the end of a turn of the loop everything leaves together: the entries to the journal's thread,
the rows to the trace log, and then, one write per link, the frames to the sockets.

This half of the world knows how effects happen; `host` adds the inputs and the node's life.
"""

import asyncio
import collections
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any

from causalcast.core.duration import SECOND
from causalcast.core.effects import (
    Belief,
    CancelTimer,
    CloseLink,
    Deliver,
    Duplicate,
    Effect,
    Hold,
    Joined,
    Note,
    OpenLink,
    Release,
    Send,
    Stable,
    StartTimer,
)
from causalcast.core.ids import GroupId, LinkId, MessageId, NodeId, number_of, origin_of
from causalcast.core.message import Message, Publication
from causalcast.core.outbox import Outbox, Record
from causalcast.core.stack import Stack
from causalcast.core.world import World, perform
from causalcast.errors import CausalcastError
from causalcast.runtime import wall_clock
from causalcast.runtime.held_steps import Action, HeldStep, HeldSteps
from causalcast.runtime.inbox import Inbox
from causalcast.runtime.links.address_book import AddressBook
from causalcast.runtime.links.introductions import Addresses
from causalcast.runtime.links.outlet import Outlets
from causalcast.runtime.links.tcp import TcpLinks
from causalcast.runtime.node_config import NodeConfig
from causalcast.runtime.node_trace import (
    DELIVER,
    DROP,
    DUPLICATE,
    HOLD,
    JOIN,
    NOTE,
    RELEASE,
    SEND,
    SUSPECT,
    TRUST,
)
from causalcast.runtime.observing.events import Event, Events
from causalcast.runtime.security.signatures import MOST_OVERHEAD, body_in
from causalcast.runtime.stability import Stability
from causalcast.runtime.storage import durable_entry
from causalcast.runtime.storage.durable_entry import NO_GROUP, Step, count, in_short
from causalcast.runtime.storage.journal import Journal
from causalcast.runtime.storage.journal_frames import Place
from causalcast.runtime.storage.stored_bodies import StoredBodies
from causalcast.trace.node_log import NodeLog
from causalcast.wire.codec import Codec, Description
from causalcast.wire.framing import frame

log = logging.getLogger(__name__)


class SteppingHost(World):
    """A stack that takes steps, and everything that lets its effects happen."""

    def __init__(self, config: NodeConfig) -> None:
        self.config = config
        self.blueprint = config.blueprint
        self.me = config.node
        self.stack: Stack
        self.links: TcpLinks
        self.outlets: Outlets  # of the links
        self.journal: Journal | None = None
        self.bodies: StoredBodies | None = None  # in the journal
        self.trace: NodeLog | None = None
        self.wants = [False] * 32  # kinds of rows; set with the trace
        layers = self.blueprint.messages()
        # Which nodes a message of the overlay names matters where nodes have to be found.
        # What detectors say all the time is of use to few, and would fill an idle node's trace.
        self._beats: set[type[Message]] = set()
        if config.trace_level != "full":
            self._beats.update(self.blueprint.detector.messages)
        self._naming = set(self.blueprint.overlay.messages) if config.is_changing() else set()
        self.naming_layer = len(layers) if config.is_changing() else -1
        if config.is_changing():
            layers = [*layers, [Addresses]]
        overhead = MOST_OVERHEAD if config.security.sign else 0
        self.codec = Codec(layers, config.limits.body_bytes + overhead)
        self.book = AddressBook(config.peers)
        self.loop = asyncio.get_running_loop()
        self.stopped = asyncio.Event()
        self.is_over = False  # the same, for those who only look
        # It has said that it leaves, and takes nothing in any more: whatever came after its last
        # row would look like a life that ended without one.
        self.has_gone = False
        self.inbox = Inbox(
            config.limits.inbox_bytes, self.load_body, self._inbox_is_full, self.beside
        )
        self.stability = Stability()
        self.membership_news = asyncio.Event()  # who waits to be a member of a group looks again
        self.notes: collections.Counter[str] = collections.Counter()
        self.events = Events()
        self.published_in: dict[int, int] = {}  # per group, over all lives
        self.delivered_in: dict[int, int] = {}
        self._wall_offset = wall_clock.now_us() - self._monotonic_us()
        self._timers: dict[tuple[int, str, int], asyncio.TimerHandle] = {}
        self._turn_planned = False
        self.has_left = False  # something that was published in this turn
        # The step that is under way.
        self.out = Outbox()
        self.at_us = 0  # wall clock, for the trace
        self._actions: list[Action] = []
        self._deliveries: list[Publication] = []
        self._encoded_message: Message | None = None  # the last one: copies go to many links
        self._encoded = b""
        self._encoded_as: Description | None = None
        # Steps that wait for the disk.
        self.held = HeldSteps()
        self.relief = asyncio.Event()  # publishers that wait look again
        self.waiting_publishers = 0
        self.performed = 0  # sequence of the last entry whose effects happened
        self.persisting: dict[int, None] = {}  # layers that have records
        self._place: Place | None = None  # of the entry whose effects happen now

    # What the other half knows

    def fail(self, error: BaseException, what: str) -> None:
        """A bug or a broken disk: this node stops at once, as if it had crashed."""
        raise AssertionError("a host must know how to stop")

    def beside(self, work: Coroutine[None, None, None]) -> None:
        """Let something go on beside the steps, until the node stops."""
        raise AssertionError("a host must know what goes on beside its steps")

    def keep_journal_short(self, journal: Journal) -> None:
        """Compact the journal if it has grown large; called between two steps."""
        raise AssertionError("a host must know how to compact its journal")

    def is_overloaded(self) -> bool:
        """Whether publishers have to wait."""
        raise AssertionError("a host must know when it has too much to do")

    # Steps

    def step(self, call: Callable[[], None]) -> None:
        """One input to the stack, from its beginning to its end."""
        self.start_step()
        self.finish_step(call)

    def start_step(self) -> None:
        """Take the time: it stands still for the stack and for the rows until the next step."""
        self.out.now = self._monotonic_us()
        self.at_us = self.out.now + self._wall_offset

    def finish_step(
        self,
        call: Callable[[], None],
        publication: Publication | None = None,
        left: int = NO_GROUP,
        last: Action | None = None,
    ) -> None:
        """Let the stack act and settle what it asks for; a bug stops the node."""
        try:
            call()
            self.settle(publication, left, last)
        except Exception as error:
            self.step_failed(error)

    def step_failed(self, error: Exception) -> None:
        """A bug in a protocol stops this node and nobody else."""
        if isinstance(error, CausalcastError):
            self.fail(error, "a step")
        else:
            self.fail(error, f"a bug in {self.blueprint.protocol.name} or the layers below it")

    def settle(
        self,
        publication: Publication | None = None,
        left: int = NO_GROUP,
        last: Action | None = None,
        publisher: "asyncio.Future[None] | None" = None,
    ) -> None:
        """The stack has acted: keep what must be kept, and let the rest happen or wait for it."""
        out = self.out
        out.closes_link = False
        if self.journal is None:
            self._settle_at_once(last)
            return
        if out.effects:
            effects, out.effects = out.effects, []
            perform(effects, self.me, self)
        records, out.records = out.records, []
        joined, out.joins = out.joins, []
        actions, self._actions = self._actions, []
        deliveries, self._deliveries = self._deliveries, []
        if last is not None:
            actions.append(last)
        if records or deliveries or publication or joined or left != NO_GROUP:
            step = self._entry(publication, records, deliveries, joined, left)
            data = durable_entry.encode(step)
            sequence = self.journal.append(data)
            self.held.add(HeldStep(sequence, actions, step, len(data), deliveries, publisher))
        elif self.held:
            if actions:
                self.held.add(HeldStep(0, actions))
        else:
            self._happen(actions)
        self._plan_turn_end()

    def _settle_at_once(self, last: Action | None) -> None:
        """Nothing is kept, so nothing is waited for: what `later` was told has happened."""
        out = self.out
        if out.effects:
            out.joins.clear()
            effects, out.effects = out.effects, []
            if self.trace is not None:
                perform(effects, self.me, self)
            else:
                self._perform_untraced(effects)
            self._deliveries.clear()
        if last is not None:
            function, arguments = last
            function(*arguments)
        if not self._turn_planned:
            self._turn_planned = True
            self.loop.call_soon(self.end_turn)

    def _perform_untraced(self, effects: list[Effect]) -> None:
        """The same as `perform`, with the two commonest effects written out."""
        groups, delivered = self.stack.groups, self.delivered_in
        inbox, outlets = self.inbox, self.outlets
        signed = self.config.security.sign
        for effect in effects:
            if isinstance(effect, Send):
                if self._naming:
                    self._name_strangers(effect.to, effect.message)
                if not outlets.put(effect.to, effect.message, effect.link):
                    self._send_otherwise(effect)
            elif isinstance(effect, Deliver):
                publication = effect.publication
                if publication.group in groups:
                    if signed:
                        publication = self._unsigned(publication)
                    delivered[publication.group] = delivered.get(publication.group, 0) + 1
                    inbox.add(publication, None, 0)
            else:
                perform([effect], self.me, self)
                groups = self.stack.groups  # it may have joined one

    def _send_otherwise(self, effect: Send) -> None:
        """There is no link on which it can leave at once."""
        if not self.links.send(effect.to, self.codec.encode(effect.message), effect.link):
            self.notes["send_on_lost_link"] += 1

    def _entry(
        self,
        publication: Publication | None,
        records: list[Record],
        deliveries: list[Publication],
        joined: list[GroupId],
        left: int,
    ) -> Step:
        stored = []
        for record in records:
            self.persisting[record.layer] = None
            stored.append((record.layer, self.codec.encode(record.message)))
        own = None if publication is None else publication.id
        published = None
        if publication is not None:
            body = self._unsigned(publication).body
            published = (number_of(publication.id), int(publication.group), body)
        return Step(
            self.at_us,
            published,
            stored,
            [(p.id, p.group, None if p.id == own else p.body) for p in deliveries],
            in_short(joined),
            left,
        )

    def on_durable(self, sequence: int, places: list[Place]) -> None:
        """Entries up to `sequence` are durable: let their effects happen, and what waited."""
        if self.is_over:
            return
        first = sequence - len(places) + 1
        try:
            for step in self.held.durable_up_to(sequence):
                if step.sequence:
                    self._place = places[step.sequence - first]
                if step.publisher is not None:
                    self._announce_published(step)  # first: it is, whatever comes of the rest
                self._happen(step.actions)
                if step.sequence:  # only now: a restart writes the rows of all behind it
                    self.performed = step.sequence
        except (OSError, CausalcastError) as error:
            self.fail(error, "its trace log or a socket")
            return
        except Exception as error:
            self.fail(error, "a bug in what follows a durable step")
            return
        self.performed = max(self.performed, sequence)
        self.relief.set()
        self.end_turn()

    def _announce_published(self, step: HeldStep) -> None:
        entry, publisher = step.entry, step.publisher
        assert entry is not None and entry.publication is not None and publisher is not None
        group = entry.publication[1]
        self.published_in[group] = self.published_in.get(group, 0) + 1
        if not publisher.done():
            publisher.set_result(None)

    def _happen(self, actions: list[Action]) -> None:
        for function, arguments in actions:
            function(*arguments)

    def later(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Do this when the step's entry is durable, in order with its other effects."""
        if self.journal is None:
            function(*arguments)
        else:
            self._actions.append((function, arguments))

    # Turns

    def _plan_turn_end(self) -> None:
        if not self._turn_planned:
            self._turn_planned = True
            self.loop.call_soon(self.end_turn)

    def end_turn(self) -> None:
        """Let everything of this turn leave: entries, then rows, then frames."""
        self._turn_planned = self.has_left = False
        if self.is_over:
            return
        try:
            if self.journal is not None:
                self.keep_journal_short(self.journal)
                self.journal.commit()
            if self.trace is not None:
                self.trace.write(self.performed)
        except (OSError, CausalcastError) as error:
            self.fail(error, "its journal or trace log")
            return
        self.links.flush()
        if self.waiting_publishers and not self.is_overloaded():
            self.relief.set()

    # What the stack asks for

    def send(self, node: NodeId, effect: Send) -> None:
        message = effect.message
        if message is not self._encoded_message:
            self._encode(message)
        if self._naming:
            self._name_strangers(effect.to, message)
        if self.wants[SEND] and type(message) not in self._beats:
            if self._encoded_as is None:
                self._encoded_as = self.codec.describe(message, len(self._encoded))
            row = self.row_about(SEND, effect.to, self._encoded_as)
            self.later(self._transmit, effect.to, self._encoded, effect.link, row)
        else:
            self.later(self._transmit, effect.to, self._encoded, effect.link, None)

    def _encode(self, message: Message) -> None:
        """Once for all links: copies of one message follow one another."""
        self._encoded = self.codec.encode(message)
        self._encoded_message = message
        self._encoded_as = None

    def _name_strangers(self, to: NodeId, message: Message) -> None:
        if type(message) in self._naming:
            named = self.codec.nodes_named(message)
            if named:
                self.later(self._introduce, to, named)

    def _introduce(self, to: NodeId, named: list[NodeId]) -> None:
        """Tell `to` where those it is about to hear of can be reached."""
        link = self.links.current_link(to)
        if link is not None:
            strangers = [node for node in named if node not in (to, self.me)]
            addresses = link.introduced.of_strangers(strangers, self.book)
            if addresses:
                link.write(frame(self.codec.encode(Addresses(addresses))))

    def _transmit(self, to: NodeId, data: bytes, link: LinkId, row: tuple[Any, ...] | None) -> None:
        if not self.links.send(to, data, link):
            self.notes["send_on_lost_link"] += 1
            self.add_row(self.wall_us(), DROP, peer=to, note="link is no longer current")
        elif row is not None:
            self.add_row(*row)

    def open_link(self, node: NodeId, effect: OpenLink) -> None:
        self.later(self.links.dial, effect.to)

    def close_link(self, node: NodeId, effect: CloseLink) -> None:
        self.later(self.links.hang_up, effect.to)

    def deliver(self, node: NodeId, effect: Deliver) -> None:
        publication = self._unsigned(effect.publication)
        if publication.group not in self.stack.groups:
            return
        if self.wants[DELIVER]:
            size = len(publication.body)
            self.later(
                self.add_row, self.at_us, DELIVER, publication.id, publication.group, -1, size
            )
        self.later(self._hand_over, publication, len(self._deliveries))
        self._deliveries.append(publication)

    def joined(self, node: NodeId, effect: Joined) -> None:
        self.stack.note_joined(effect.group)
        self.later(self.add_row, self.at_us, JOIN, -1, effect.group)
        self.later(self.membership_news.set)

    def _unsigned(self, publication: Publication) -> Publication:
        """As the application knows it."""
        if not self.config.security.sign:
            return publication
        return Publication(publication.id, publication.group, body_in(publication.body))

    def _hand_over(self, publication: Publication, index: int) -> None:
        count(self.delivered_in, publication.group)
        place = self._place if self.journal is not None else None
        self.inbox.add(publication, place, index)

    def _inbox_is_full(self, is_full: bool) -> None:
        """There is no disk to spool to: let those who publish wait."""
        log.info("the application %s", "does not keep up" if is_full else "keeps up again")
        self.links.read_on(not is_full)
        if not is_full:
            self.relief.set()

    def load_body(self, place: Place, index: int) -> bytes:
        """The body of a delivery, from the journal."""
        assert self.bodies is not None
        return self.bodies.load(place, index)

    def hold(self, node: NodeId, effect: Hold) -> None:
        if self.wants[HOLD]:
            note = f"waits for {effect.words()}"
            row = (self.at_us, HOLD, effect.message, -1, -1, -1, -1, effect.waits_for, note)
            self.later(self.add_row, *row)

    def release(self, node: NodeId, effect: Release) -> None:
        if self.wants[RELEASE]:
            self.later(self.add_row, self.at_us, RELEASE, effect.message)

    def duplicate(self, node: NodeId, effect: Duplicate) -> None:
        if self.wants[DUPLICATE]:
            self.later(self.add_row, self.at_us, DUPLICATE, effect.message)

    def stable(self, node: NodeId, effect: Stable) -> None:
        self.later(self._tell_stable, effect.message)
        row = (self.at_us, NOTE, effect.message, -1, -1, -1, -1, -1, "stable")
        self.later(self.add_row, *row)

    def _tell_stable(self, message: MessageId) -> None:
        if origin_of(message) == self.me:
            self.stability.told(message)

    def belief(self, node: NodeId, effect: Belief) -> None:
        kind = TRUST if effect.up else SUSPECT
        self.later(self.add_row, self.at_us, kind, -1, -1, effect.peer)

    def note(self, node: NodeId, effect: Note) -> None:
        self.notes[effect.name] += 1
        log.debug("note %s %d", effect.name, effect.subject)
        meaning = self.blueprint.protocol.events.get(effect.name)
        if meaning is not None:
            log.warning("%s (%s, node %d)", meaning, effect.name, effect.subject)
            self.later(self.events.add, Event(effect.name, effect.subject, self.at_us, meaning))
            self.membership_news.set()  # it may be that nobody can admit this node any more
        row = (self.at_us, NOTE, -1, -1, -1, -1, -1, effect.subject, effect.name)
        self.later(self.add_row, *row)

    # Timers

    def start_timer(self, node: NodeId, effect: StartTimer) -> None:
        key = (effect.layer, effect.name, effect.subject)
        before = self._timers.get(key)
        if before is not None:
            before.cancel()
        self._timers[key] = self.loop.call_later(effect.after / SECOND, self._expire, key)

    def cancel_timer(self, node: NodeId, effect: CancelTimer) -> None:
        handle = self._timers.pop((effect.layer, effect.name, effect.subject), None)
        if handle is not None:
            handle.cancel()

    def cancel_timers(self) -> None:
        """No timer runs out any more: the node stops."""
        for handle in self._timers.values():
            handle.cancel()
        self._timers.clear()

    def _expire(self, key: tuple[int, str, int]) -> None:
        del self._timers[key]
        layer, name, subject = key
        self.out.congested = self.links.busy_peers()  # it is timers that repeat messages
        self.step(lambda: self.stack.expire(layer, name, subject, self.out))

    # Rows of the trace

    def add_row(self, at_us: int, kind: int, *columns: Any, **named: Any) -> None:
        """Write a row at the end of this turn."""
        if self.trace is not None:
            self.trace.add(at_us, kind, *columns, **named)
            self._plan_turn_end()

    def row_about(self, kind: int, peer: NodeId, about: Description) -> tuple[Any, ...]:
        """The row for a message that goes to `peer` or comes from it."""
        sizes = (about.payload_bytes, about.metadata_bytes)
        value = about.clock_entries
        return (self.at_us, kind, about.message, about.group, peer, *sizes, value, about.name)

    # Small things

    def wall_us(self) -> int:
        """The time of day, which never jumps back in one life."""
        return self._monotonic_us() + self._wall_offset

    def _monotonic_us(self) -> int:
        return time.monotonic_ns() // 1000
