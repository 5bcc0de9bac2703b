"""The World of one real node: the same stack the simulator runs, driven by asyncio.

A step is one input to the stack. What it must not lose is one entry of the journal; what others
can see of it happens when that entry is durable, and what later steps show waits behind it, in
order. Timers act at once. Where no entry is under way and a step has nothing to keep, its effects
happen at once.

At the end of a turn of the loop everything leaves together: the entries to the journal's thread,
the rows to the trace log, and then, one write per link, the frames to the sockets.
"""

import asyncio
import collections
import logging
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from causalcast.core.duration import SECOND
from causalcast.core.effects import (
    CancelTimer,
    CloseLink,
    Deliver,
    Duplicate,
    Hold,
    Note,
    OpenLink,
    Release,
    Send,
    Stable,
    StartTimer,
)
from causalcast.core.ids import (
    NUMBER_MASK,
    GroupId,
    LinkId,
    MessageId,
    NodeId,
    link_id,
    message_id,
    origin_of,
)
from causalcast.core.message import Message, Publication
from causalcast.core.outbox import Outbox, Record
from causalcast.core.stack import Stack
from causalcast.core.world import World, perform
from causalcast.errors import CausalcastError, ConfigError, NodeError
from causalcast.parts.duplicate_filter import DuplicateFilter
from causalcast.runtime import durable_entry
from causalcast.runtime.address_book import AddressBook
from causalcast.runtime.compaction import Compaction
from causalcast.runtime.durable_entry import (
    NO_GROUP,
    Acknowledged,
    Identity,
    Memory,
    Snapshot,
    Started,
    Step,
    count,
)
from causalcast.runtime.greeting import first_greeting
from causalcast.runtime.held_steps import Action, HeldStep, HeldSteps
from causalcast.runtime.inbox import Inbox
from causalcast.runtime.journal import Journal, JournalFile, Place
from causalcast.runtime.node_config import NodeConfig
from causalcast.runtime.node_trace import (
    DELIVER,
    DROP,
    DUPLICATE,
    HOLD,
    JOIN,
    LEAVE,
    NOTE,
    PUBLISH,
    RECEIVE,
    RELEASE,
    SEND,
    complete_log,
    open_log,
)
from causalcast.runtime.tcp import Connection, TcpLinks
from causalcast.trace.node_log import NodeLog
from causalcast.wire.codec import Codec, Description
from causalcast.wire.framing import frame

log = logging.getLogger(__name__)

LINK_BITS_PER_LIFE: Final = 20  # a million dials before the numbers of the next life begin
PUBLISH_PER_TURN: Final = 64  # where no disk is waited for
ACKNOWLEDGE_WITHIN: Final = 0.05  # seconds: acknowledgements of the application share one entry


class Host(World):
    """One node: its stack, and everything that lets its effects happen."""

    def __init__(self, config: NodeConfig) -> None:
        self.config = config
        self.me = config.node
        self.stack: Stack
        self.inbox = Inbox(config.limits.inbox_bytes, self._load_body)
        self.notes: collections.Counter[str] = collections.Counter()
        self.published_in: dict[int, int] = {}  # per group, over all lives
        self.delivered_in: dict[int, int] = {}
        self.starts = 1
        self.stopped: asyncio.Event = asyncio.Event()
        self.failure: CausalcastError | None = None
        self._blueprint = config.blueprint
        self._codec = Codec(self._blueprint.messages(), config.limits.body_bytes)
        self._loop = asyncio.get_running_loop()
        self._wall_offset = _wall_clock_us() - self._monotonic_us()
        self._out = Outbox()
        self._links: TcpLinks
        self._journal: Journal | None = None
        self._storage: JournalFile
        self._log: NodeLog | None = None
        self._wants = [False] * 32  # kinds of rows; set with the log
        self._identity = Identity(
            self.me,
            config.cluster,
            self._blueprint.protocol.name,
            self._codec.digest(self._blueprint.groups.names),  # their order numbers the groups
        )
        self._published = 0  # the number of the last publication, durable or not
        self._dials = 0
        self._timers: dict[tuple[int, str, int], asyncio.TimerHandle] = {}
        # The step that is under way.
        self._at_us = 0  # wall clock, for the trace
        self._actions: list[Action] = []
        self._deliveries: list[Publication] = []
        self._encoded_message: Message | None = None  # the last one: copies go to many links
        self._encoded_frame = b""
        self._encoded_as: Description | None = None
        # Steps that wait for the disk.
        self._held = HeldSteps()
        self._place: Place | None = None  # of the entry whose effects happen now
        self._performed = 0  # sequence of the last entry whose effects happened
        self._acknowledged: list[int] = []
        self._compact_at = config.limits.compact_bytes
        self._compacting = False
        self._persisting: dict[int, None] = {}  # layers that have records
        self._publishing: dict[asyncio.Future[None], None] = {}
        self._stable = DuplicateFilter()  # own messages that every member has
        self._waiting_for_stable: dict[MessageId, list[asyncio.Event]] = {}
        self._relief = asyncio.Event()
        self._turn_planned = False

    # Life

    async def start(self) -> None:
        """Read what an earlier life left, listen, and start the stack."""
        memory = self._remember()
        self.starts = memory.starts + 1
        self._links = self._make_links()
        try:
            self._log = open_log(self.config)
            if self._log is not None:
                self._wants = self._log.wants
            await self._links.bind(self.config.listen)
            self._open_journal()
            self.stack = self._blueprint.build(self.me, os.urandom(8).hex())
            self.stack.groups = dict(memory.groups)
            self._begin(memory)
            if self.failure is not None:
                raise self.failure
            await self._links.listen()  # only now: no link may come up before the stack is ready
        except OSError as error:
            self._give_up()
            raise NodeError(f"cannot listen at {self.config.listen}: {error.strerror}") from None
        except CausalcastError:
            self._give_up()
            raise

    def _make_links(self) -> TcpLinks:
        config = self.config
        greeting = first_greeting(
            config.cluster,
            self.me,
            self.starts,
            str(config.listen),
            self._codec.digest(sorted(config.facts().items())),
            config.facts(),
        )
        return TcpLinks(
            greeting,
            AddressBook(config.peers),
            self,
            self._codec.max_frame,
            config.limits.send_buffer_bytes,
        )

    async def stop(self) -> None:
        """Leave in good order: everybody hears of it, and nothing that is durable is lost."""
        if self.stopped.is_set():
            return
        self._step(lambda: self.stack.leave(self._out))
        self._cancel_timers()
        await self._drain()
        if self.stopped.is_set():
            return
        self._row(self._wall_us(), LEAVE)
        self._end_turn()
        await self._links.close()
        self._finish_life(None)

    async def _drain(self) -> None:
        """Wait until everything is durable, and all of it has happened."""
        self._write_acknowledgements()
        if self._journal is not None:
            drained = asyncio.ensure_future(self._journal.drain())
            broken = asyncio.ensure_future(self.stopped.wait())
            await asyncio.wait([drained, broken], return_when=asyncio.FIRST_COMPLETED)
            drained.cancel()
            broken.cancel()

    def fail(self, error: BaseException, what: str) -> None:
        """A bug or a broken disk: this node stops at once, as if it had crashed."""
        if self.stopped.is_set():
            return
        if isinstance(error, CausalcastError):
            log.critical("node %s stops: %s: %s", self.me, what, error)
            failure = error
        else:
            log.critical("node %s stops: %s", self.me, what, exc_info=error)
            failure = NodeError(f"node {self.me} stopped: {what}: {error!r}")
        self._cancel_timers()
        self._links.abort()
        self._finish_life(failure)

    def _finish_life(self, failure: CausalcastError | None) -> None:
        self.failure = failure
        self._held.clear()
        self.stopped.set()
        gone = failure or NodeError("the node was stopped")
        for future in self._publishing:
            if not future.done():
                future.set_exception(gone)
        for events in self._waiting_for_stable.values():
            for event in events:
                event.set()
        self._relief.set()
        self.inbox.wake_all()
        self._let_go()

    def _give_up(self) -> None:
        """Starting failed."""
        self._links.abort()
        if not self.stopped.is_set():
            self._let_go()

    def _let_go(self) -> None:
        if self._journal is not None:
            self._journal.close()
        else:
            self._storage.close()
        if self._log is not None:
            self._log.close()

    def _cancel_timers(self) -> None:
        for handle in self._timers.values():
            handle.cancel()
        self._timers.clear()

    # What an earlier life left

    def _remember(self) -> Memory:
        memory = Memory(self.me)
        folder = self.config.storage
        self._storage = JournalFile(folder / "journal")
        try:
            memory.take_in(self._storage.found, self._blueprint.groups.groups_of(self.me))
            self._check_identity(memory, folder)
            self._storage.found = []  # it may be large
        except CausalcastError:
            self._storage.close()
            raise
        self._performed = self._storage.next_sequence - 1
        if self._storage.cut_bytes:
            log.info("cut %d bytes of a torn tail off the journal", self._storage.cut_bytes)
        self._published = memory.published
        self.published_in = memory.published_in
        self.delivered_in = memory.delivered_in
        return memory

    def _check_identity(self, memory: Memory, folder: Path) -> None:
        before = memory.identity
        if before is None:
            return
        if self._blueprint.protocol.restart == "reborn":
            raise NodeError(
                f"{folder}: left by an earlier life of node {before.node}; {before.protocol} keeps "
                "nothing over a restart, so the node must come back under a new id with new storage"
            )
        for fact in ("node", "cluster", "protocol", "digest"):
            was, wanted = getattr(before, fact), getattr(self._identity, fact)
            if was != wanted:
                what = "messages and groups" if fact == "digest" else fact
                raise ConfigError(
                    f"{folder}: belongs to {what} {was}, this node has {wanted}; "
                    "choose another [storage] path"
                )

    def _open_journal(self) -> None:
        """Keep a journal where the protocol resumes; else only the mark that this life began."""
        started = durable_entry.encode(Started(self.starts, self._identity))
        if self._blueprint.protocol.restart == "reborn":
            self._storage.append([started])
            return
        self._journal = Journal(
            self._storage, self._loop, self._on_durable, lambda e: self.fail(e, "its disk")
        )
        self._held.add(HeldStep(self._journal.append(started), []))

    def _begin(self, memory: Memory) -> None:
        if memory.starts == 0:
            self._step(lambda: self.stack.start(self._out))
            return
        if self._log is not None:
            complete_log(self._log, memory.rows, self._performed, self._wall_us())
        records = [Record(layer, self._codec.decode(data)[1]) for layer, data in memory.records]
        self._persisting.update((record.layer, None) for record in records)
        for stored in memory.inbox.values():
            self.inbox.restore(stored)
            self._row(self._wall_us(), NOTE, stored.id, stored.group, note="redelivered")
        log.info(
            "start %d: %d records, %d deliveries to hand over again",
            self.starts,
            len(records),
            len(memory.inbox),
        )
        self._step(lambda: self.stack.recover(records, self._out))

    # What the application does

    async def publish(self, group: GroupId, body: bytes) -> MessageId:
        """Publish `body`; returns when it is durable. Waits while links or disk cannot keep up."""
        if len(body) > self.config.limits.body_bytes:
            raise NodeError(
                f"a body of {len(body)} bytes; at most {self.config.limits.body_bytes} are "
                "accepted ([limits] body_bytes)"
            )
        while self._is_overloaded():
            self._relief.clear()
            await self._relief.wait()
        self.check_alive()
        self._published += 1
        publication = Publication(message_id(self.me, self._published), group, body)
        durable: asyncio.Future[None] = self._loop.create_future()
        self._publishing[durable] = None
        self._start_step()
        if self._wants[PUBLISH]:
            size = len(body)
            self._later(self._row, self._at_us, PUBLISH, publication.id, group, -1, size)
        self._later(self._is_published, durable, group)
        self._finish_step(lambda: self.stack.publish(publication, self._out), publication)
        try:
            await durable
        finally:
            self._publishing.pop(durable, None)
        if self._journal is None and self._published % PUBLISH_PER_TURN == 0:
            await asyncio.sleep(0)  # nothing made it wait: let frames leave
        return publication.id

    def join_group(self, group: GroupId) -> None:
        """Become a member of `group`."""
        self.check_alive()
        self._start_step()
        self._later(self._row, self._at_us, JOIN, -1, group)
        self._finish_step(lambda: self.stack.join_group(group, self._out), joined=group)

    def leave_group(self, group: GroupId) -> None:
        """Be a member of `group` no longer."""
        self.check_alive()
        self._start_step()
        at_us = self._at_us
        self._finish_step(
            lambda: self.stack.leave_group(group, self._out),
            left=group,
            last=(self._row, (at_us, LEAVE, -1, group)),
        )

    def acknowledge(self, message: MessageId) -> None:
        """The application has handled `message`: a restart does not hand it over again."""
        if not self.inbox.acknowledge(message) or self._journal is None:
            return
        if not self._acknowledged:
            self._loop.call_later(ACKNOWLEDGE_WITHIN, self._write_acknowledgements)
        self._acknowledged.append(message)

    async def wait_stable(self, message: MessageId) -> None:
        """Wait until every member has delivered `message`, as far as the protocol tells."""
        while not self._stable.has(message):
            self.check_alive()
            told = asyncio.Event()
            self._waiting_for_stable.setdefault(message, []).append(told)
            await told.wait()

    def explain(self, message: MessageId) -> list[MessageId]:
        """What a held message waits for."""
        return self.stack.multicast.explain(message)

    def check_alive(self) -> None:
        """Raise what stopped the node, if something did."""
        if self.stopped.is_set():
            raise self.failure or NodeError("the node was stopped")

    def link_counts(self) -> dict[str, int]:
        """What went wrong on links, by kind."""
        return dict(self._links.counts)

    def linked_peers(self) -> list[NodeId]:
        """Who has a link to this node now."""
        return self._links.current_peers()

    def _is_overloaded(self) -> bool:
        if self.stopped.is_set():
            return False
        return self._links.is_congested() or self._held.bytes > self.config.limits.held_bytes

    def _is_published(self, durable: "asyncio.Future[None]", group: GroupId) -> None:
        count(self.published_in, group)
        if not durable.done():
            durable.set_result(None)

    def _write_acknowledgements(self) -> None:
        if self._acknowledged and self._journal is not None and not self.stopped.is_set():
            messages, self._acknowledged = self._acknowledged, []
            self._journal.append(durable_entry.encode(Acknowledged(messages)))
            self._journal.commit()

    # Steps

    def _step(self, call: Callable[[], None]) -> None:
        self._start_step()
        self._finish_step(call)

    def _start_step(self) -> None:
        self._out.now = self._monotonic_us()
        self._at_us = self._out.now + self._wall_offset

    def _finish_step(
        self,
        call: Callable[[], None],
        publication: Publication | None = None,
        joined: int = NO_GROUP,
        left: int = NO_GROUP,
        last: Action | None = None,
    ) -> None:
        """Let the stack act, then keep what must be kept and let the rest happen."""
        try:
            call()
            self._settle(publication, joined, left, last)
        except CausalcastError as error:
            self.fail(error, "a step")
        except Exception as error:  # a bug in a protocol stops this node and nobody else
            self.fail(error, f"a bug in {self._blueprint.protocol.name} or the layers below it")

    def _settle(
        self,
        publication: Publication | None = None,
        joined: int = NO_GROUP,
        left: int = NO_GROUP,
        last: Action | None = None,
    ) -> None:
        out = self._out
        if out.effects:
            effects, out.effects = out.effects, []
            perform(effects, self.me, self)
        records, out.records = out.records, []
        actions, self._actions = self._actions, []
        deliveries, self._deliveries = self._deliveries, []
        if last is not None:
            actions.append(last)
        changed = joined != NO_GROUP or left != NO_GROUP
        if self._journal is not None and (records or deliveries or publication or changed):
            step = self._entry(publication, records, deliveries, joined, left)
            data = durable_entry.encode(step)
            sequence = self._journal.append(data)
            self._held.add(HeldStep(sequence, actions, step, len(data), deliveries))
        elif self._held:
            if actions:
                self._held.add(HeldStep(0, actions))
        else:
            self._happen(actions)
        self._plan_turn_end()

    def _entry(
        self,
        publication: Publication | None,
        records: list[Record],
        deliveries: list[Publication],
        joined: int,
        left: int,
    ) -> Step:
        stored = []
        for record in records:
            self._persisting[record.layer] = None
            stored.append((record.layer, self._codec.encode(record.message)))
        own = None if publication is None else publication.id
        published = None
        if publication is not None:
            published = (self._published, int(publication.group), publication.body)
        return Step(
            self._at_us,
            published,
            stored,
            [(p.id, p.group, None if p.id == own else p.body) for p in deliveries],
            joined,
            left,
        )

    def _on_durable(self, sequence: int, places: list[Place]) -> None:
        """Entries up to `sequence` are durable: let their effects happen, and what waited."""
        if self.stopped.is_set():
            return
        first = sequence - len(places) + 1
        try:
            for step in self._held.durable_up_to(sequence):
                if step.sequence:
                    self._place = places[step.sequence - first]
                    self._performed = step.sequence
                self._happen(step.actions)
        except (OSError, CausalcastError) as error:
            self.fail(error, "its trace log or a socket")
            return
        self._performed = max(self._performed, sequence)
        self._relief.set()
        self._end_turn()

    def _happen(self, actions: list[Action]) -> None:
        for function, arguments in actions:
            function(*arguments)

    def _later(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Do this when the step's entry is durable, in order with its other effects."""
        self._actions.append((function, arguments))

    # Turns

    def _plan_turn_end(self) -> None:
        if not self._turn_planned:
            self._turn_planned = True
            self._loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        """Let everything of this turn leave: entries, then rows, then frames."""
        self._turn_planned = False
        if self.stopped.is_set():
            return
        try:
            if self._journal is not None:
                self._compact_if_large(self._journal)
                self._journal.commit()
            if self._log is not None:
                self._log.write(self._performed)
        except (OSError, CausalcastError) as error:
            self.fail(error, "its journal or trace log")
            return
        self._links.flush()

    # Compaction

    def _compact_if_large(self, journal: Journal) -> None:
        if journal.size < self._compact_at or self._compacting:
            return
        records: list[tuple[int, bytes]] = []
        for layer, automaton in enumerate(self.stack.layers):
            snapshot = automaton.snapshot()
            if snapshot is None and layer in self._persisting:
                self._compact_at = 2 * journal.size  # all its records are needed: ask again later
                return
            records.extend((layer, self._codec.encode(record)) for record in snapshot or [])
        snapshot_of_all = Snapshot(
            self.starts,
            self._identity,
            self._published,
            [int(group) for group in self.stack.groups],
            records,
            *self._counts_with_held(),
            self._held.rows(self.me),
        )
        compaction = Compaction(
            snapshot_of_all, self.inbox, self._held.deliveries(), self._load_body
        )
        self._acknowledged = []  # they are no longer in the inbox that is written
        self._compacting = True
        size_before = journal.size

        def replaced(places: list[Place]) -> None:
            compaction.replaced(places)
            self._compacting = False
            self._compact_at = max(self.config.limits.compact_bytes, 2 * journal.size)
            log.info("journal compacted from %d to %d bytes", size_before, journal.size)

        journal.compact(compaction.entries(), replaced)

    def _counts_with_held(self) -> tuple[dict[int, int], dict[int, int]]:
        """Publications and deliveries per group, those included whose entries are under way."""
        published, delivered = dict(self.published_in), dict(self.delivered_in)
        for rows in self._held.rows(self.me):
            for _, group, _ in rows.published:
                count(published, group)
            for _, group, _ in rows.delivered:
                count(delivered, group)
        return published, delivered

    def _load_body(self, place: Place, index: int) -> bytes:
        assert self._journal is not None
        entry = durable_entry.decode(self._journal.read(place))
        return durable_entry.delivery_in(entry, index, self.me)[2]

    # What links tell

    def next_link(self) -> LinkId:
        self._dials += 1
        # Cut to the 32 bits of a link's number: it comes round after thousands of lives.
        return link_id(self.me, (self.starts << LINK_BITS_PER_LIFE | self._dials) & NUMBER_MASK)

    def link_up(self, peer: NodeId, link: LinkId, dialled: bool) -> None:
        if not self.stopped.is_set():
            self._step(lambda: self.stack.link_up(peer, link, dialled, self._out))

    def link_lost(self, peer: NodeId, link: LinkId, reason: str) -> None:
        if not self.stopped.is_set():
            self._step(lambda: self.stack.lose_link(peer, link, reason, self._out))

    def frames_came(self, link: Connection, frames: list[memoryview]) -> None:
        """All frames of one read, with one `now`; raises WireError for one that is no message."""
        self._start_step()
        peer, out, receive, decode = link.peer, self._out, self.stack.receive, self._codec.decode
        for data in frames:
            layer, message = decode(data)
            if not link.current:  # a frame before it ended the link
                return
            if self._wants[RECEIVE]:
                about = self._codec.describe(message, len(data))
                self._later(self._row, *self._about(RECEIVE, peer, about))
            try:
                receive(layer, peer, message, out)
                self._settle()
            except Exception as error:  # a bug in a protocol stops this node and nobody else
                self.fail(error, f"a bug in {self._blueprint.protocol.name}, at {message!r}")
                return

    def dropped(self, peer: NodeId, reason: str) -> None:
        self._row(self._wall_us(), DROP, peer=peer, note=reason)

    def relieved(self) -> None:
        self._relief.set()

    # What the stack asks for

    def send(self, node: NodeId, effect: Send) -> None:
        message = effect.message
        if message is not self._encoded_message:
            self._encoded_frame = frame(self._codec.encode(message))
            self._encoded_message = message
            self._encoded_as = None
        if self._wants[SEND]:
            if self._encoded_as is None:
                size = len(self._encoded_frame) - 4
                self._encoded_as = self._codec.describe(message, size)
            row = self._about(SEND, effect.to, self._encoded_as)
            self._later(self._transmit, effect.to, self._encoded_frame, effect.link, row)
        else:
            self._later(self._transmit, effect.to, self._encoded_frame, effect.link, None)

    def _transmit(self, to: NodeId, data: bytes, link: LinkId, row: tuple[Any, ...] | None) -> None:
        if not self._links.send(to, data, link):
            self.notes["send_on_lost_link"] += 1
            self._row(self._wall_us(), DROP, peer=to, note="link is no longer current")
        elif row is not None:
            self._row(*row)

    def open_link(self, node: NodeId, effect: OpenLink) -> None:
        self._later(self._links.dial, effect.to)

    def close_link(self, node: NodeId, effect: CloseLink) -> None:
        self._later(self._links.hang_up, effect.to)

    def deliver(self, node: NodeId, effect: Deliver) -> None:
        publication = effect.publication
        if publication.group not in self.stack.groups:
            return
        if self._wants[DELIVER]:
            size = len(publication.body)
            self._later(
                self._row, self._at_us, DELIVER, publication.id, publication.group, -1, size
            )
        self._later(self._hand_over, publication, len(self._deliveries))
        self._deliveries.append(publication)

    def _hand_over(self, publication: Publication, index: int) -> None:
        count(self.delivered_in, publication.group)
        place = self._place if self._journal is not None else None
        self.inbox.add(publication, place, index)

    def start_timer(self, node: NodeId, effect: StartTimer) -> None:
        key = (effect.layer, effect.name, effect.subject)
        before = self._timers.get(key)
        if before is not None:
            before.cancel()
        self._timers[key] = self._loop.call_later(effect.after / SECOND, self._expire, key)

    def cancel_timer(self, node: NodeId, effect: CancelTimer) -> None:
        handle = self._timers.pop((effect.layer, effect.name, effect.subject), None)
        if handle is not None:
            handle.cancel()

    def _expire(self, key: tuple[int, str, int]) -> None:
        del self._timers[key]
        layer, name, subject = key
        self._step(lambda: self.stack.expire(layer, name, subject, self._out))

    def hold(self, node: NodeId, effect: Hold) -> None:
        if self._wants[HOLD]:
            waits_for = effect.waits_for
            note = f"waits for {waits_for >> 32}.{waits_for & 0xFFFFFFFF}"
            row = (self._at_us, HOLD, effect.message, -1, -1, -1, -1, waits_for, note)
            self._later(self._row, *row)

    def release(self, node: NodeId, effect: Release) -> None:
        if self._wants[RELEASE]:
            self._later(self._row, self._at_us, RELEASE, effect.message)

    def duplicate(self, node: NodeId, effect: Duplicate) -> None:
        if self._wants[DUPLICATE]:
            self._later(self._row, self._at_us, DUPLICATE, effect.message)

    def stable(self, node: NodeId, effect: Stable) -> None:
        self._later(self._is_stable, effect.message)
        row = (self._at_us, NOTE, effect.message, -1, -1, -1, -1, -1, "stable")
        self._later(self._row, *row)

    def _is_stable(self, message: MessageId) -> None:
        if origin_of(message) == self.me:
            self._stable.add(message)
            for waiting in self._waiting_for_stable.pop(message, []):
                waiting.set()

    def note(self, node: NodeId, effect: Note) -> None:
        self.notes[effect.name] += 1
        log.debug("note %s %d", effect.name, effect.subject)
        row = (self._at_us, NOTE, -1, -1, -1, -1, -1, effect.subject, effect.name)
        self._later(self._row, *row)

    # Small things

    def _row(self, at_us: int, kind: int, *columns: Any, **named: Any) -> None:
        if self._log is not None:
            self._log.add(at_us, kind, *columns, **named)
            self._plan_turn_end()

    def _about(self, kind: int, peer: NodeId, about: Description) -> tuple[Any, ...]:
        sizes = (about.payload_bytes, about.metadata_bytes)
        return (self._at_us, kind, about.message, about.group, peer, *sizes, -1, about.name)

    def _monotonic_us(self) -> int:
        return int(self._loop.time() * SECOND)

    def _wall_us(self) -> int:
        return self._monotonic_us() + self._wall_offset


def _wall_clock_us() -> int:
    return int(datetime.now(UTC).timestamp() * SECOND)
