"""The World of one real node: the same stack the simulator runs, driven by asyncio.

Here are the node's life (it starts, remembers, stops or fails), what the application does, what
links tell, and when the journal is compacted. Each of these is a step; `stepping_host` says what
becomes of it.
"""

import asyncio
import collections
import contextlib
import logging
import os
import random
import ssl
import weakref
from collections.abc import Coroutine
from typing import Any, Final

from causalcast.core.command import Command
from causalcast.core.effects import Belief
from causalcast.core.ids import (
    NUMBER_BITS,
    NUMBER_MASK,
    GroupId,
    LinkId,
    MessageId,
    NodeId,
    link_id,
    message_id,
    number_of,
    origin_of,
)
from causalcast.core.message import Message, Publication, Single
from causalcast.core.outbox import Record
from causalcast.core.stack import MULTICAST
from causalcast.errors import CausalcastError, ConfigError, NodeError, WireError
from causalcast.runtime.compaction import Compaction
from causalcast.runtime.links.carrier import Carrier, TcpCarrier
from causalcast.runtime.links.enrolment import grant
from causalcast.runtime.links.greeting import Greeting, first_greeting
from causalcast.runtime.links.introductions import Addresses, greeting_at, take_in, who_is_at
from causalcast.runtime.links.tcp import DIAL_TIMEOUT, Connection, TcpLinks
from causalcast.runtime.links.udp.carrier import UdpCarrier
from causalcast.runtime.links.udp.sealing import membership
from causalcast.runtime.lives import ADVICE, MOST_PAST, UNKNOWN, Known, Life, PastLife
from causalcast.runtime.node_config import NodeConfig
from causalcast.runtime.node_trace import (
    DROP,
    LEAVE,
    NOTE,
    PUBLISH,
    RECEIVE,
    complete_log,
    open_log,
)
from causalcast.runtime.observing.events import Event
from causalcast.runtime.security.admission import Admission
from causalcast.runtime.security.identity import Passport
from causalcast.runtime.security.signatures import Signatures
from causalcast.runtime.security.tls import Tls, objection_to
from causalcast.runtime.stepping_host import SteppingHost
from causalcast.runtime.storage import durable_entry
from causalcast.runtime.storage.durable_entry import (
    Acknowledged,
    Identity,
    Memory,
    Met,
    Snapshot,
    Started,
    count,
)
from causalcast.runtime.storage.journal import Journal, JournalFile
from causalcast.runtime.storage.journal_frames import Place
from causalcast.runtime.storage.stored_bodies import StoredBodies
from causalcast.wire.runs import Arrived, one_by_one

log = logging.getLogger(__name__)

LINK_BITS_PER_LIFE: Final = 20  # a million dials before the numbers of the next life begin
PUBLISH_PER_TURN: Final = 128  # where no disk is waited for
# Bytes that wait for the window of a neighbour: it has a window's worth to do as it is, and what is
# further ahead only waits in memory.
MOST_WAITING: Final = 1 << 18
PAUSE_AFTER: Final = 1 << 18  # bytes: large bodies have shorter turns
LOOK_AT_KEYS_EVERY: Final = 1.0  # seconds between looks whether files of the identity changed
CONTACT_AGAIN: Final = 1.0  # seconds between looks whether a contact is needed
LOOK_AT_SILENT_EVERY: Final = 0.5  # seconds between looks whether publishers wait for the silent
# Seconds for which a node must have listened before it may hold silence against somebody.
LISTEN_FIRST: Final = 1.0
ACKNOWLEDGE_WITHIN: Final = 0.05  # seconds: acknowledgements of the application share one entry


class Host(SteppingHost):
    """One node: its life, and what comes to it from the application and the links."""

    def __init__(self, config: NodeConfig) -> None:
        super().__init__(config)
        self.starts = 1
        self.failure: CausalcastError | None = None
        self._is_stopping = False  # nothing new begins
        self._life = Life()
        self._lives: list[PastLife] = []  # this one and those before, the oldest first
        self._met: dict[int, Known] = {}  # what is known of neighbours, by node
        self._last_of: dict[NodeId, int] = {}  # the last number that a neighbour brought of its own
        self._told: set[tuple[str, NodeId]] = set()  # what operators were told, about whom
        self._older_than: dict[NodeId, str] = {}  # who knows more of this node than itself, and why
        self._has_let_go = False  # of its files
        self._storage: JournalFile
        self._identity = Identity(
            self.me,
            config.cluster,
            # A life that kept nothing must not be taken for one that had nothing to keep.
            config.protocol_as_kept(),
            # The order of groups numbers them; what was not signed cannot be delivered as signed.
            self.codec.digest(
                self.blueprint.groups.names, *(["signed"] if config.security.sign else [])
            ),
        )
        self._rights = config.rights
        # To publish to a group; joins are rare, and always asked about.
        self._may_refuse = config.blueprint.protocol.closes_groups
        self._body_bytes = config.limits.body_bytes
        self._held_bytes = config.limits.held_bytes
        self._send_buffer = config.limits.send_buffer_bytes
        self._kept_bytes = config.limits.kept_bytes
        self._keeps_much = False  # more than half of that: an operator has heard of it
        self._most_waiting = min(self._send_buffer, MOST_WAITING)
        self._admission: Admission
        self._signatures: Signatures | None = None
        self._since_pause = 0  # bytes published in this turn
        self._published = 0  # the number of the last publication, durable or not
        self._acknowledged: list[int] = []
        self._marking: asyncio.Future[None] | None = None  # done when those are durable
        self._marked_later: dict[asyncio.Future[None], None] = {}  # all that are not done
        self._marks: collections.deque[tuple[int, asyncio.Future[None]]] = collections.deque()
        # Tasks that take messages. One that waited for itself to take them would wait for ever.
        self.readers: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()
        self._dials = 0
        self.suspected: dict[NodeId, None] = {}  # whom the detector believes to be down
        self._looks_at_silent = False
        self._listens_since = self.loop.time()
        # A link that was cut may have lost something: not every protocol brings that again.
        self._may_cut = config.blueprint.protocol.restart == "resume" or config.is_changing()
        self._compact_at = config.limits.compact_bytes
        self._compacting = False
        self._tasks: set[asyncio.Task[None]] = set()  # beside the steps; cancelled at the end

    # Life

    async def start(self) -> None:
        """Read what an earlier life left, listen, and start the stack."""
        tls = self._open_identity()
        memory = self._remember()
        self.starts = memory.starts + 1
        self._make_life(memory)
        self._make_admission(tls)
        self.links = self._make_links(tls)
        self.outlets = self.links.outlets
        try:
            self.trace = open_log(self.config, memory.has_all_rows, self._trace_trouble)
            if self.trace is not None:
                self.wants = self.trace.wants
            await self.links.bind(self.config.listen)
            self._open_journal()
            newcomer = bool(self.config.contacts) and memory.starts == 0
            self.stack = self.blueprint.build(
                self.me,
                os.urandom(8).hex(),
                newcomer=newcomer,
                incarnation=self._life.incarnation,
                life=self._life.life,
            )
            self.stack.groups = dict(memory.groups)
            self.out.keeps_records = self.journal is not None
            self.out.links_lose_nothing = True
            self._begin(memory)
            if self.failure is not None:
                raise self.failure
            await self.links.listen()  # only now: no link may come up before the stack is ready
            if self.config.contacts:
                self.beside(self._stay_linked())
            if tls is not None:
                self.beside(self._watch_keys(tls))
        except OSError as error:
            self._give_up()
            raise NodeError(f"cannot listen at {self.config.listen}: {error.strerror}") from None
        except CausalcastError:
            self._give_up()
            raise

    def beside(self, work: Coroutine[None, None, None]) -> None:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _open_identity(self) -> Tls | None:
        security = self.config.security
        if not security.tls:
            return None
        tls = Tls(security.identity, self.config.cluster, security.authority)
        objection = objection_to(tls.identity.passport, self.me)
        if objection:
            raise ConfigError(f"{security.identity}: {objection}")
        return tls

    def _make_life(self, memory: Memory) -> None:
        """Who this node is beside its id; nobody in particular if it keeps nothing."""
        if self.config.restart() == "resume":
            incarnation = memory.incarnation or _drawn()
            past = memory.lives[::-1]
            self._life = Life(incarnation, self.starts, _drawn(), past, memory.published)
            this = PastLife(self._life.life, self._life.began)
            self._lives = [*memory.lives, this][-MOST_PAST:]
            self._met = memory.met

    def _make_admission(self, tls: Tls | None) -> None:
        config = self.config
        if config.security.sign:
            assert tls is not None
            self._signatures = Signatures(tls)
        self._admission = Admission(
            self.me,
            self.blueprint.groups,
            None if config.is_changing() else list(self.blueprint.topology.neighbours),
            config.rights,
            lambda: self._published,
            lambda origin: self.stack.multicast.furthest(origin),
            self._signatures,
        )

    def _make_links(self, tls: Tls | None) -> TcpLinks:
        config = self.config
        greeting = first_greeting(
            config.cluster,
            self.me,
            self.starts,
            str(config.advertise),
            self.codec.digest(sorted(config.facts().items())),
            config.facts(),
            self._life,
        )
        return TcpLinks(
            greeting,
            self.book,
            self,
            self.codec.max_frame,
            self.codec.encode_run,
            config.limits.send_buffer_bytes,
            tls,
            config.limits.control_per_second,
            self._make_carrier(),
        )

    def _make_carrier(self) -> Carrier:
        if self.config.transport == "tcp":
            return TcpCarrier()
        return UdpCarrier(membership(self.config.cluster, self.config.cluster_key))

    async def stop(self) -> None:
        """Leave in good order: everybody hears of it, and nothing that is durable is lost."""
        if self._is_stopping:
            await self.stopped.wait()
        if self.stopped.is_set():
            return
        self._is_stopping = True
        self.relief.set()  # publishers that wait for room hear of it
        for peer in self.links.current_peers():
            self._write_down(peer, self.known_of(peer))
        self.step(lambda: self.stack.leave(self.out))
        self.cancel_timers()
        await self._drain()
        if self.stopped.is_set():
            return
        self.add_row(self.wall_us(), LEAVE)
        self.end_turn()
        self.has_gone = True
        self.cancel_timers()
        await self.links.close()
        self._finish_life(None)

    async def _drain(self) -> None:
        """Wait until everything is durable, and all of it has happened."""
        self._write_acknowledgements()
        if self.journal is not None:
            drained = asyncio.ensure_future(self.journal.drain())
            broken = asyncio.ensure_future(self.stopped.wait())
            await asyncio.wait([drained, broken], return_when=asyncio.FIRST_COMPLETED)
            drained.cancel()
            broken.cancel()

    def fail(self, error: BaseException, what: str) -> None:
        """Stop at once, as if it had crashed."""
        if self.stopped.is_set():
            return
        if isinstance(error, CausalcastError):
            log.critical("node %s stops: %s: %s", self.me, what, error)
            failure = error
        else:
            log.critical("node %s stops: %s", self.me, what, exc_info=error)
            failure = NodeError(f"node {self.me} stopped: {what}: {error!r}")
        self.cancel_timers()
        self.links.abort()
        self._finish_life(failure)

    def _finish_life(self, failure: CausalcastError | None) -> None:
        if self.stopped.is_set():
            return  # it failed while it stopped
        self.failure = failure
        self.cancel_timers()
        waiting = [*self.held.publishers(), *self._marked_later]
        self.held.clear()
        self.is_over = self.has_gone = True
        self.stopped.set()
        gone = failure or NodeError("the node was stopped")
        for future in waiting:
            if not future.done():
                future.set_exception(gone)
        self.stability.wake_all()
        self.membership_news.set()
        self.relief.set()
        self.inbox.wake_all()
        self.events.wake()
        self._let_go()

    def _give_up(self) -> None:
        """Starting failed."""
        self.links.abort()
        if not self.stopped.is_set():
            self._let_go()

    def _let_go(self) -> None:
        if self._has_let_go:
            return
        self._has_let_go = True
        for task in self._tasks:
            task.cancel()
        if self.journal is not None:
            self.journal.close()
        else:
            self._storage.close()
        if self.trace is not None:
            self.trace.close()

    # What an earlier life left

    def _remember(self) -> Memory:
        memory = Memory(self.me)
        folder = self.config.storage
        if self.config.always_new and not self.config.contacts and folder.parent.exists():
            raise NodeError(
                f"{folder.parent}: an earlier life of this node founded the cluster; "
                "to come back it needs a [cluster] contact"
            )
        self._storage = JournalFile(folder / "journal")
        try:
            memory.take_in(self._storage.found, self.blueprint.groups.groups_of(self.me))
            memory.check_identity(self._identity, self.config.restart(), folder)
            if not self.config.is_changing():
                memory.check_nodes([*self.blueprint.topology.neighbours], folder)
            self._storage.found = []  # it may be large
        except CausalcastError:
            self._storage.close()
            raise
        self.performed = self._storage.next_sequence - 1
        if self._storage.cut_bytes:
            log.info("cut %d bytes of a torn tail off the journal", self._storage.cut_bytes)
        self._published = memory.published
        self.published_in = memory.published_in
        self.delivered_in = memory.delivered_in
        return memory

    def _open_journal(self) -> None:
        """Keep a journal where the protocol resumes; else only the mark that this life began."""
        started = durable_entry.encode(
            Started(self.starts, self._identity, self._life.incarnation, self._life.life)
        )
        # The others write down which life this is: it is on disk before anybody hears of it.
        self._storage.append([started])
        self.performed = self._storage.next_sequence - 1
        if self.config.restart() == "reborn":
            return
        self.journal = Journal(
            self._storage, self.loop, self.on_durable, lambda e: self.fail(e, "its disk")
        )
        self.bodies = StoredBodies(self.journal.read, self.me)

    def _check_trace(self) -> None:
        """Rows follow entries of the journal, so the trace never knows of more than there were."""
        trace = self.trace
        if trace is not None and self.journal is not None and trace.sequence > self.performed:
            raise NodeError(
                f"{self.config.storage}: the trace in {self.config.trace} knows entry "
                f"{trace.sequence} of the journal, which ends with {self.performed}; {ADVICE} "
                "and another [trace] path"
            )

    def _begin(self, memory: Memory) -> None:
        self._check_trace()
        if memory.starts == 0:
            self.step(lambda: self.stack.start(self.out))
            for group in self.config.late_groups:
                self.join_group(group)
            return
        if self.trace is not None:
            complete_log(self.trace, memory.rows, self.performed, self.wall_us())
        records = [Record(layer, self.codec.decode(data)[1]) for layer, data in memory.records]
        self.persisting.update((record.layer, None) for record in records)
        self._know_again(records)
        for stored in memory.inbox.values():
            self.inbox.restore(stored)
            self.add_row(self.wall_us(), NOTE, stored.id, stored.group, note="redelivered")
        log.info(
            "start %d: %d records, %d deliveries to hand over again",
            self.starts,
            len(records),
            len(memory.inbox),
        )
        self.step(lambda: self.stack.recover(records, self.out))

    # Contacts

    async def _stay_linked(self) -> None:
        """Join through a contact; again whenever no link is left, or none that leads anywhere:
        two newcomers that have only one another never find their place."""
        while not self.stopped.is_set():
            if not self.links.current_peers() or not self.stack.multicast.takes_part():
                await self._join_through_a_contact()
            await asyncio.sleep(CONTACT_AGAIN)

    async def _join_through_a_contact(self) -> None:
        for address in self.config.contacts:
            if address in (self.config.listen, self.config.advertise):
                continue
            try:
                contact = await who_is_at(
                    self.links.carrier,
                    address,
                    self.links.greeting,
                    DIAL_TIMEOUT,
                    self._client_context(),
                )
            except (OSError, TimeoutError) as error:
                log.warning("the contact at %s does not answer: %s", address, error)
            except NodeError as error:
                log.error("%s", error)
            else:
                self.book.learn(contact, address)
                if contact in self.links.current_peers():
                    return
                log.info("joining through node %s at %s", contact, address)
                self.step(lambda: self.stack.join(contact, self.out))  # noqa: B023 - at once
                return

    def _client_context(self) -> ssl.SSLContext | None:
        return None if self.links.tls is None else self.links.tls.client

    # Keys

    async def _watch_keys(self, tls: Tls) -> None:
        """Use a new identity as soon as it is there, and act on new revocations."""
        while not self.stopped.is_set():
            await asyncio.sleep(LOOK_AT_KEYS_EVERY)
            if tls.refresh():
                self.links.cut_off_revoked()
                self.revoked()

    def revoked(self) -> None:
        """Tell the neighbours of a newer list of revocations: each tells its own."""
        self.beside(self._tell_revocations())

    async def _tell_revocations(self) -> None:
        """One after the other, in any order; most have heard of it before their turn comes."""
        peers = self.links.current_peers()
        random.shuffle(peers)
        for peer in peers:
            address = self.book.find(peer)
            if address is None or peer in self.links.informed:
                continue
            with contextlib.suppress(OSError, TimeoutError, NodeError):
                greeting, context = self.links.greeting, self._client_context()
                await greeting_at(self.links.carrier, address, greeting, DIAL_TIMEOUT, context)

    def enrol(self, passport: Passport, greeting: Greeting) -> bytes:
        """Give somebody who came with a token an identity, where this node may."""
        return grant(self.config.security.authority, passport, greeting)

    # What the application does

    async def publish(self, group: GroupId, body: bytes) -> MessageId:
        """Publish `body`; returns when it is durable. Waits while links or disk cannot keep up."""
        if self.journal is None:
            await asyncio.sleep(0)  # nothing else makes it wait: let frames leave
            self._since_pause = 0
        if self.is_overloaded():
            await self._wait_for_room()
        if self.journal is None:
            return self._publish_at_once(self._next_publication(group, body), len(body))
        message, durable = self.start_publishing(group, body)
        await durable
        return message

    def start_publishing(
        self, group: GroupId, body: bytes
    ) -> "tuple[MessageId, asyncio.Future[None]]":
        """Publish `body`; done when it is durable."""
        publication = self._next_publication(group, body)
        durable: asyncio.Future[None] = self.loop.create_future()
        self.start_step()
        if self.wants[PUBLISH]:
            size = len(body)
            self.later(self.add_row, self.at_us, PUBLISH, publication.id, group, -1, size)
        try:
            self.stack.publish(publication, self.out)
            self.settle(publication, publisher=durable)
        except Exception as error:
            self.step_failed(error)
        if self.is_over:
            self.check_alive()
        return publication.id, durable

    def try_publish(self, group: GroupId, body: bytes) -> MessageId | None:
        """Publish `body` at once; None if `publish` has to be awaited: for the disk, for room on
        the way, or because others must have their turn."""
        self._since_pause += len(body) + PAUSE_AFTER // PUBLISH_PER_TURN
        if self.journal is not None or self._since_pause > PAUSE_AFTER:
            return None
        if self.inbox.is_full or self.outlets.congested:
            return None
        return self._publish_at_once(self._next_publication(group, body), len(body))

    def _next_publication(self, group: GroupId, body: bytes) -> Publication:
        if len(body) > self._body_bytes:
            raise NodeError(
                f"a body of {len(body)} bytes; at most {self._body_bytes} are accepted "
                "([limits] body_bytes)"
            )
        if not self._rights.may_publish(self.me, group):
            raise NodeError(f"no right to publish to {self._name_of(group)}")
        if self._may_refuse:
            self._check_refusal(group, joining=False)
        self._check_open()
        if self._older_than:
            self._refuse_to_publish()
        self._published += 1
        message = message_id(self.me, self._published)
        if self._signatures is not None:
            body = self._signatures.sign(message, group, body)
        return Publication(message, group, body)

    def _publish_at_once(self, publication: Publication, size: int) -> MessageId:
        self.start_step()
        if self.wants[PUBLISH]:
            about = (publication.id, publication.group, -1, size)
            self.add_row(self.at_us, PUBLISH, *about)
        group = publication.group
        self.published_in[group] = self.published_in.get(group, 0) + 1
        try:
            self.stack.publish(publication, self.out)
            self.settle()
        except Exception as error:
            self.step_failed(error)
        if self.is_over:
            self.check_alive()
        if not self.has_left and self.trace is None:
            # The first one of a turn leaves at once: those that follow it come together.
            self.has_left = True
            self.links.flush()
        return publication.id

    async def _wait_for_room(self) -> None:
        """Wait until links, disk and application keep up again."""
        self.waiting_publishers += 1
        try:
            while self.is_overloaded():
                self.relief.clear()
                await self.relief.wait()
        finally:
            self.waiting_publishers -= 1

    def _name_of(self, group: GroupId) -> str:
        return repr(self.blueprint.groups.names[group])

    def join_group(self, group: GroupId) -> None:
        """Become a member of `group`, or ask to become one where somebody has to admit it."""
        self._check_open()
        if not self.config.rights.may_subscribe(self.me, group):
            raise NodeError(f"no right to be a member of {self._name_of(group)}")
        self._check_refusal(group, joining=True)
        self.step(lambda: self.stack.join_group(group, self.out))

    def is_member(self, group: GroupId) -> bool:
        """Whether this node is in `group`."""
        return group in self.stack.groups

    async def wait_member(self, group: GroupId) -> None:
        """Wait until this node is a member of a group that it has asked to join."""
        while not self.is_member(group):
            self.check_alive()
            if not self.stack.is_joining(group):
                reason = self.stack.multicast.refusal(group, joining=True) or "it was withdrawn"
                raise NodeError(f"the join of {self._name_of(group)} came to nothing: {reason}")
            self.membership_news.clear()
            await self.membership_news.wait()

    def _check_refusal(self, group: GroupId, joining: bool) -> None:
        reason = self.stack.multicast.refusal(group, joining)
        if reason:
            what = "join" if joining else "publish to"
            raise NodeError(f"cannot {what} {self._name_of(group)} now: {reason}")

    def leave_group(self, group: GroupId) -> None:
        """Be a member of `group` no longer, or ask no longer to become one."""
        self._check_open()
        self.membership_news.set()
        if not self.is_member(group):
            self.step(lambda: self.stack.leave_group(group, self.out))
            return
        self.start_step()
        at_us = self.at_us
        self.finish_step(
            lambda: self.stack.leave_group(group, self.out),
            left=group,
            last=(self.add_row, (at_us, LEAVE, -1, group)),
        )

    def acknowledge(self, message: MessageId) -> "asyncio.Future[None] | None":
        """The application has handled `message`: a restart does not hand it over again.

        Returns what is done when that is durable; None if there is nothing to wait for.
        """
        if self.is_over:
            self.check_alive()  # its mark would never be written
        if self.journal is None:
            self.inbox.acknowledge(message)
            return None
        if not self.inbox.acknowledge(message):
            # Marked before: the newest mark is durable no sooner than its own.
            return next(reversed(self._marked_later), None)
        if self._marking is None:
            self._marking = self.loop.create_future()
            self._marking.add_done_callback(_mark_retrieved)
            self._marked_later[self._marking] = None
            self.loop.call_later(ACKNOWLEDGE_WITHIN, self._write_acknowledgements)
        self._acknowledged.append(message)
        return self._marking

    async def wait_stable(self, message: MessageId) -> None:
        """Wait until every member has delivered `message`, as far as the protocol tells."""
        while not self.stability.has(message):
            self.check_alive()
            await self.stability.word_of(message)

    def explain(self, message: MessageId) -> list[MessageId]:
        """What a held message waits for."""
        return self.stack.multicast.explain(message)

    def reasons(self, message: MessageId) -> list[str]:
        """The same in words."""
        return self.stack.multicast.reasons(message)

    def conditions(self) -> dict[str, int]:
        """What an operator watches, as numbers."""
        return self.stack.multicast.conditions()

    def preview(self, words: str) -> list[str]:
        """What may be lost if a command is carried out; raises where it cannot be."""
        return self.stack.multicast.preview(self._understand(words))

    def command(self, words: str) -> None:
        """Carry out what an operator commands, such as `gone 3`."""
        self.check_alive()
        command = self._understand(words)
        self.step(lambda: self.stack.command(command, self.out))

    def _understand(self, words: str) -> Command:
        try:
            command = self.blueprint.command(words)
        except ValueError as error:
            raise NodeError(str(error)) from None
        objection = self.stack.multicast.objection(command)
        if objection:
            raise NodeError(f"{command}: {objection}")
        return command

    def _refuse_to_publish(self) -> None:
        """Others have seen the numbers that would be given out now, on other publications."""
        peer, reason = next(iter(self._older_than.items()))
        raise NodeError(
            f"nothing can be published: node {peer} knows more of this node than its storage does "
            f"({reason}); {ADVICE}"
        )

    def _check_open(self) -> None:
        """Raise if nothing new may begin here: the node was stopped, or is about to be."""
        if self._is_stopping or self.is_over:
            self.check_alive()
            raise NodeError("the node is about to stop")

    def check_alive(self) -> None:
        """Raise what stopped the node, if something did."""
        if self.stopped.is_set():
            raise self.failure or NodeError("the node was stopped")

    def link_counts(self) -> dict[str, int]:
        """What went wrong on links, by kind."""
        counts = dict(self.links.counts)
        if self.links.strangers.turned_away:
            counts["turned_away"] = self.links.strangers.turned_away
        return counts

    def certificate_expires(self) -> int | None:
        """When the certificate lapses, in seconds since 1970; None without TLS."""
        return None if self.links.tls is None else self.links.tls.expires()

    def journal_numbers(self) -> dict[str, float]:
        """How large it is, how much is on its way to it, and what syncs have cost."""
        storage = self._storage
        return {
            "bytes": storage.size,
            "held_bytes": self.held.bytes,
            "syncs": storage.syncs,
            "sync_seconds": round(storage.sync_seconds, 6),
        }

    def trace_numbers(self) -> dict[str, int]:
        """What the trace takes on disk, and how many rows could not be written."""
        if self.trace is None:
            return {}
        return {"bytes": self.trace.disk_bytes(), "lost_rows": self.trace.lost_rows}

    def linked_peers(self) -> list[NodeId]:
        """Who has a link to this node now."""
        return self.links.current_peers()

    def is_overloaded(self) -> bool:
        if self.is_over or self._is_stopping:
            return False
        return (
            self._links_do_not_keep_up()
            or self.held.bytes > self._held_bytes
            or self.stack.multicast.kept_bytes() > self._kept_bytes
            or (self.inbox.is_full and asyncio.current_task() not in self.readers)
        )

    def _links_do_not_keep_up(self) -> bool:
        return (
            bool(self.outlets.congested)
            or self.outlets.queued_bytes > self._send_buffer
            or self.stack.multicast.waiting_bytes() > self._most_waiting
        )

    def reasons_to_wait(self) -> list[str]:
        """In words what makes publishers wait now."""
        reasons = [f"node {peer} does not take what is sent" for peer in self.links.slow_peers()]
        if self.stack.multicast.waiting_bytes() > self._most_waiting:
            silent = [peer for peer in self.suspected if self.links.current_link(peer)]
            whom = f"node {', '.join(map(str, silent))}" if silent else "a neighbour"
            reasons.append(f"{whom} does not acknowledge what was sent")
        if self.stack.multicast.kept_bytes() > self._kept_bytes:
            reasons.append(f"too much is kept for {self._who_is_away()} ([limits] kept_bytes)")
        if self.held.bytes > self._held_bytes:
            reasons.append("the disk does not keep up ([limits] held_bytes)")
        if self.inbox.is_full:
            reasons.append("the application does not keep up ([limits] inbox_bytes)")
        return reasons

    # What neighbours lack

    def end_turn(self) -> None:
        super().end_turn()
        if not self.is_over:
            self._look_at_what_is_kept()

    def _look_at_what_is_kept(self) -> None:
        """Tell operators when half of what may be kept is: they have time to act."""
        kept = self.stack.multicast.kept_bytes()
        if not self._keeps_much and 2 * kept > self._kept_bytes:
            self._keeps_much = True
            meaning = (
                f"{kept} bytes are kept for {self._who_is_away()}; publishers will wait at "
                f"{self._kept_bytes} ([limits] kept_bytes)"
            )
            self.tell("keeps_much", self.me, meaning)
        elif self._keeps_much and 4 * kept < self._kept_bytes:
            self._keeps_much = False
            self.tell("keeps_little", self.me, "what was kept for neighbours has reached them")

    def _who_is_away(self) -> str:
        neighbours = self.blueprint.topology.neighbours.get(self.me, [])
        away = [str(peer) for peer in neighbours if self.links.current_link(peer) is None]
        return f"node {', '.join(away)}" if away else "neighbours that do not keep up"

    # Neighbours that are silent

    def belief(self, node: NodeId, effect: Belief) -> None:
        """The detector changed its mind about a neighbour."""
        super().belief(node, effect)
        if effect.up:
            self.suspected.pop(effect.peer, None)
            return
        self.suspected[effect.peer] = None
        if self.links.current_link(effect.peer) is not None:
            self.tell(
                "neighbour_silent",
                effect.peer,
                "nothing comes from this neighbour although its link stands",
            )
            if not self._looks_at_silent:
                self._looks_at_silent = True
                self.loop.call_soon(self._look_at_silent)

    def _look_at_silent(self) -> None:
        """Cut the links of silent neighbours if publishers would have to wait for them.

        A process that stands still keeps its links, and they fill up. It is to cost no more than a
        killed one, which keeps none.
        """
        self._looks_at_silent = False
        silent = [peer for peer in self.suspected if self.links.current_link(peer) is not None]
        if self.is_over or not silent:
            return
        if self._has_listened() and self._may_cut and self._links_do_not_keep_up():
            for peer in silent:
                meaning = "the link to this silent neighbour was cut, so that nobody waits for it"
                self.tell("neighbour_cut_off", peer, meaning)
                self.links.cut_silent(peer)
        self._looks_at_silent = True
        self.loop.call_later(LOOK_AT_SILENT_EVERY, self._look_at_silent)

    def _has_listened(self) -> bool:
        """Who read nothing for a while must not wonder about silence."""
        return self.links.reads and self.loop.time() - self._listens_since > LISTEN_FIRST

    def _inbox_is_full(self, is_full: bool) -> None:
        super()._inbox_is_full(is_full)
        self._listens_since = self.loop.time()

    def _trace_trouble(self, text: str) -> None:
        self.tell("trace", self.me, text)

    def tell(self, name: str, subject: int, meaning: str) -> None:
        """Let operators hear of something."""
        log.warning("%s (%s, node %d)", meaning, name, subject)
        self.events.add(Event(name, subject, self.wall_us(), meaning))

    def _write_acknowledgements(self) -> None:
        if self._acknowledged and self.journal is not None and not self.stopped.is_set():
            messages, marking = self._acknowledged, self._marking
            self._acknowledged, self._marking = [], None
            sequence = self.journal.append(durable_entry.encode(Acknowledged(messages)))
            if marking is not None:
                self._marks.append((sequence, marking))
            self.journal.commit()

    def on_durable(self, sequence: int, places: list[Place]) -> None:
        """Entries up to `sequence` are durable, acknowledgements among them."""
        super().on_durable(sequence, places)
        while self._marks and self._marks[0][0] <= sequence:
            self._resolve_marking(self._marks.popleft()[1])

    def _resolve_marking(self, marking: "asyncio.Future[None] | None") -> None:
        if marking is not None:
            self._marked_later.pop(marking, None)
            if not marking.done():
                marking.set_result(None)

    # What links tell

    def next_link(self) -> LinkId:
        self._dials += 1
        # Cut to the 32 bits of a link's number: it comes round after thousands of lives.
        return link_id(self.me, (self.starts << LINK_BITS_PER_LIFE | self._dials) & NUMBER_MASK)

    def link_up(self, peer: NodeId, link: LinkId, dialled: bool) -> None:
        if not self.has_gone:
            self._meet(peer)
            self.step(lambda: self.stack.link_up(peer, link, dialled, self.out))

    def link_lost(self, peer: NodeId, link: LinkId, reason: str) -> None:
        if not self.has_gone:
            self._write_down(peer, self.known_of(peer))
            self.step(lambda: self.stack.lose_link(peer, link, reason, self.out))

    # Who neighbours are

    def known_of(self, peer: NodeId) -> Known | None:
        known = self._met.get(peer)
        number = self._last_of.get(peer, 0)
        if known is None or number <= known.published:
            return known
        return Known(known.incarnation, known.start, known.life, number)

    def _meet(self, peer: NodeId) -> None:
        """There is a link to `peer`: write down who that is."""
        link = self.links.current_link(peer)
        if link is not None and link.greeted.done():
            life = link.greeted.result().life
            before = self.known_of(peer)
            published = 0 if before is None else before.published
            self._write_down(peer, Known(life.incarnation, life.start, life.life, published))

    def _write_down(self, peer: NodeId, known: Known | None) -> None:
        """It goes to the disk with what comes next."""
        if self.journal is None or known is None or known.incarnation == UNKNOWN:
            return
        if known != self._met.get(peer):
            self._met[peer] = known
            self.journal.append(durable_entry.encode(Met(peer, known)))

    def _know_again(self, records: list[Record]) -> None:
        """What neighbours published may be known from records alone, after a crash."""
        if self.blueprint.hosted():
            return  # numbers in records may be those of protocols inside
        for record in records:
            for publication in self.codec.publications(record.message):
                known = self._met.get(origin_of(publication.id))
                number = number_of(publication.id)
                if known is not None and number > known.published:
                    newer = Known(known.incarnation, known.start, known.life, number)
                    self._met[origin_of(publication.id)] = newer

    def peer_went_back(self, peer: NodeId, reason: str) -> None:
        log.error("the storage of node %s is older than what is known of it: %s", peer, reason)
        meaning = f"the storage of node {peer} is older than what is known of it: {reason}"
        self._tell_once("older_storage", peer, meaning)

    def went_back(self, peer: NodeId, reason: str) -> None:
        log.critical("this node's storage is older than node %s knows: %s", peer, reason)
        meaning = f"the storage of this node is older than node {peer} knows: {reason}"
        self._tell_once("own_storage_is_older", peer, meaning)
        self._older_than[peer] = reason

    def _tell_once(self, name: str, peer: NodeId, meaning: str) -> None:
        if (name, peer) not in self._told:
            self._told.add((name, peer))
            self.notes[name] += 1
            self.events.add(Event(name, peer, self.wall_us(), meaning))

    def heard(self, peer: NodeId) -> None:
        if not self.has_gone:
            self.step(lambda: self.stack.heard(peer, self.out))

    def frames_came(self, link: Connection, frames: list[memoryview]) -> None:
        """All frames of one read, with one `now`; raises WireError for one that is no message."""
        if self.has_gone:
            return
        self.start_step()
        messages, error = self.codec.decode_all(frames)
        if not self.wants[RECEIVE]:
            self.inbox.gather()
            try:
                control = self._receive_in_one_step(link, messages)
            finally:
                self.inbox.hand_over()
        else:
            # Each message is a step, so that its rows follow one another.
            control = 0
            for arrived in [one for some in messages for one in one_by_one(some)]:
                size = len(self.codec.encode(arrived[1]))
                control += self._receive_in_one_step(link, [arrived], size)
        if control:
            pause = link.control.take(control, self.loop.time())
            if pause and link.current:
                link.rest(pause)
        if error is not None and link.current:
            raise error

    def _receive_in_one_step(
        self, link: Connection, messages: list[Arrived], traced_size: int = 0
    ) -> int:
        """How many of them were for the layers below the multicast.

        `traced_size`: bytes of the one message there is, where rows tell what came.
        """
        peer, out, stack, admission = link.peer, self.out, self.stack, self._admission
        control = 0
        message: Message | None = None
        try:
            for layer, message, carried in messages:
                if not link.current:  # a message before it ended the link
                    break
                if layer != MULTICAST:
                    control += 1
                    if layer == self.naming_layer:
                        assert isinstance(message, Addresses)
                        take_in(message, self.book, self.links.tls is not None)
                        continue
                is_run = len(carried) > 1 and isinstance(message, Single)
                if is_run:
                    admission.check_run(carried)
                elif carried:
                    admission.check(carried)
                if admission.looks_at_members:
                    admission.check_members(peer, message)
                if carried and carried[-1].id >> NUMBER_BITS == peer:
                    number = carried[-1].id & NUMBER_MASK
                    if number > self._last_of.get(peer, 0):
                        self._last_of[peer] = number
                if traced_size and type(message) not in self._beats:
                    about = self.codec.describe(message, traced_size)
                    self.later(self.add_row, *self.row_about(RECEIVE, peer, about))
                if is_run and isinstance(message, Single):
                    stack.receive_run(peer, message, carried, out)
                else:
                    stack.receive(layer, peer, message, out)
                if out.closes_link:
                    self.settle()
            self.settle()
        except WireError:
            self.finish_step(_nothing_more)  # what came before it counts
            raise
        except Exception as error:  # a bug in a protocol stops this node and nobody else
            self.fail(error, f"a bug in {self.blueprint.protocol.name}, at {message!r}")
        return control

    def dropped(self, peer: NodeId, reason: str) -> None:
        self.add_row(self.wall_us(), DROP, peer=peer, note=reason)

    def relieved(self) -> None:
        self.relief.set()

    # Compaction

    def keep_journal_short(self, journal: Journal) -> None:
        if journal.size < self._compact_at or self._compacting:
            return
        if self.trace is not None and self.trace.waits():
            return  # after a crash the rows that wait would come from the entries
        records: list[tuple[int, bytes]] = []
        for layer, automaton in enumerate(self.stack.layers):
            snapshot = automaton.snapshot()
            if snapshot is None and layer in self.persisting:
                self._compact_at = 2 * journal.size  # all its records are needed: ask again later
                return
            records.extend((layer, self.codec.encode(record)) for record in snapshot or [])
        snapshot_of_all = Snapshot(
            self.starts,
            self._identity,
            self._published,
            [int(group) for group in self.stack.groups],
            records,
            *self._counts_with_held(),
            self.held.rows(self.me),
            self._life.incarnation,
            self._lives,
            [int(node) for node in self.blueprint.topology.neighbours],
            {peer: known for peer in self._met if (known := self.known_of(NodeId(peer)))},
        )
        bodies = StoredBodies(journal.read, self.me)  # another thread uses these
        compaction = Compaction(snapshot_of_all, self.inbox, self.held.deliveries(), bodies.load)
        # They are no longer in the inbox that is written.
        handled, marking = self._acknowledged, self._marking
        self._acknowledged, self._marking = [], None
        self._compacting = True
        size_before = journal.size

        def replaced(places: list[Place] | None) -> None:
            self._compacting = False
            if places is None:
                self._compact_at = 2 * size_before  # there was no room: try again later
                self._acknowledged += handled
                if self._marking is not None and marking is not None:
                    self._marking.add_done_callback(lambda _: self._resolve_marking(marking))
                else:
                    self._marking = self._marking or marking
                self._write_acknowledgements()
                return
            compaction.replaced(places)
            assert self.bodies is not None
            self.bodies.forget()
            self._resolve_marking(marking)
            self._compact_at = max(self.config.limits.compact_bytes, 2 * journal.size)
            log.info("journal compacted from %d to %d bytes", size_before, journal.size)

        journal.compact(compaction.entries(), replaced)

    def _counts_with_held(self) -> tuple[dict[int, int], dict[int, int]]:
        """Publications and deliveries per group, those included whose entries are under way."""
        published, delivered = dict(self.published_in), dict(self.delivered_in)
        for rows in self.held.rows(self.me):
            for _, group, _ in rows.published:
                count(published, group)
            for _, group, _ in rows.delivered:
                count(delivered, group)
        return published, delivered


def _drawn() -> int:
    """A number that nobody had before, and none that means "unknown"."""
    return int.from_bytes(os.urandom(7)) + 1


def _mark_retrieved(future: "asyncio.Future[None]") -> None:
    """Avoids the warning of asyncio when nobody awaits the future."""
    if not future.cancelled():
        future.exception()


def _nothing_more() -> None:
    """The stack has acted already."""
