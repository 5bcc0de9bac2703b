"""One real node: the same stack that the simulator runs, driven by asyncio.

Here stand its life (it starts, remembers, stops or fails) and the order in which things happen: at
the end of a turn of the loop everything leaves together, entries to the journal's thread, rows to
the trace log, and then, one write per link, frames to the sockets. What each thing is stands in the
parts that the host puts together.
"""

import asyncio
import logging
from collections.abc import Awaitable

from causalcast.core.command import Command
from causalcast.core.ids import GroupId, MessageId
from causalcast.core.outbox import Outbox, Record
from causalcast.core.world_facts import NOBODY
from causalcast.errors import CausalcastError, ConfigError, NodeError
from causalcast.runtime.host.acquaintances import Acquaintances
from causalcast.runtime.host.earlier_life import EarlierLife
from causalcast.runtime.host.inbox import Inbox
from causalcast.runtime.host.link_listener import LinkListener
from causalcast.runtime.host.observed import Observed
from causalcast.runtime.host.parts import Parts
from causalcast.runtime.host.remembered_addresses import RememberedAddresses
from causalcast.runtime.host.rows import Rows
from causalcast.runtime.host.running import Running
from causalcast.runtime.host.timers import Timers
from causalcast.runtime.host.turns import Turns
from causalcast.runtime.host.wire import Wire
from causalcast.runtime.links.address_book import AddressBook, why_not_listening
from causalcast.runtime.links.greeting import first_greeting
from causalcast.runtime.links.links import Links
from causalcast.runtime.machine import Machine, NodeClock
from causalcast.runtime.metadata import Metadata
from causalcast.runtime.node_config import NodeConfig
from causalcast.runtime.node_trace import LEAVE, NOTE, complete_log, open_log
from causalcast.runtime.security.authority import Authority
from causalcast.runtime.security.tls import Tls, objection_to
from causalcast.runtime.storage.durable_entry import Keyed
from causalcast.runtime.storage.journal import Journal
from causalcast.runtime.storage.journal_frames import Place
from causalcast.runtime.storage.stored_bodies import StoredBodies

log = logging.getLogger(__name__)


class Host:
    """One node: its life, and the parts it is made of.

    What needs links or the journal is made when the node starts, and is in `parts`.

    Large because a life begins and ends here: whatever is opened, wired and let go of in some order
    stands in one place.
    """

    def __init__(self, config: NodeConfig, machine: Machine | None = None) -> None:
        self.config = config
        self.machine = machine or Machine()
        self.blueprint = config.blueprint
        self.me = config.node
        self.loop = asyncio.get_running_loop()
        self.clock = NodeClock(self.machine.clock)
        self.running = Running(self.loop)
        self.observed = Observed(self.clock)
        self.turns = Turns(self.loop, self._end_turn)
        self.rows = Rows(self.clock, self.turns)
        self.membership_news = asyncio.Event()
        self.inbox = Inbox(
            config.limits.inbox_bytes, self._load_body, self._inbox_is_full, self.running.beside,
            config.limits.reader_bytes,
        )  # fmt: skip
        self.book = AddressBook(config.peers)
        self.out = Outbox()
        self.journal: Journal | None = None
        self._bodies: StoredBodies | None = None  # in the journal
        self._has_let_go = False  # of its files
        self.wire = Wire(config)
        self.links: Links
        self.parts: Parts
        self.earlier: EarlierLife
        self._acquaintances: Acquaintances
        self._listener: LinkListener
        self._timers: Timers

    # It starts

    async def start(self) -> None:
        """Read what an earlier life left, listen, and start the stack."""
        config = self.config
        tls = self._open_identity()
        self.earlier = EarlierLife(config, self.blueprint, self.wire.codec.digest, self.machine)
        memory = self.earlier.memory
        self.observed.published_in = memory.published_in
        self.observed.delivered_in = memory.delivered_in
        self.observed.late_groups = memory.late_groups
        self.inbox.handled = memory.handled
        self.inbox.readers = memory.readers
        self.inbox.lacking = memory.lacking
        met = memory.met if config.restart() == "resume" else {}
        self._acquaintances = Acquaintances(self.observed, met)
        self._listener = LinkListener(
            self.me, self.earlier.starts, self.loop, self.running, self.rows,
            self._acquaintances, config.security.authority,
        )  # fmt: skip
        self.links = self._make_links(tls)
        self._timers = Timers(self.loop, self._expire)
        remembered = None
        if config.is_changing() and config.restart() == "resume":
            remembered = RememberedAddresses(
                self.machine.disk, config.storage, self.book, self.running
            )
            remembered.read()
        try:
            self.rows.begin(
                open_log(config, memory.has_all_rows, self._trace_trouble, self.machine)
            )
            await self.links.bind(config.listen)
            self._open_journal()
            self.parts = self._make_parts(tls)
            self._listener.listen(self.parts, self.out)
            self._begin()
            if self.running.failure is not None:
                raise self.running.failure
            await self.links.listen()  # only now: no link may come up before the stack is ready
            if config.contacts:
                self.running.beside(self.parts.contacts.stay_linked())
            if remembered is not None:
                self.running.beside(remembered.keep_up())
            if tls is not None:
                self.running.beside(self.parts.key_watch.watch(tls))
        except OSError as error:
            self._give_up()
            raise NodeError(why_not_listening(config.listen, error, "[node] listen")) from None
        except CausalcastError:
            self._give_up()
            raise

    def _open_identity(self) -> Tls | None:
        security = self.config.security
        if not security.tls:
            return None
        # What a life keeps for itself is of no use to the next where each has a folder of its own.
        storage = self.config.storage.parent if self.config.always_new else self.config.storage
        tls = Tls(security.identity, self.config.cluster, security.authority, storage)
        objection = objection_to(tls.identity.passport, self.me)
        if objection:
            raise ConfigError(f"{security.identity}: {objection}")
        return tls

    def _make_links(self, tls: Tls | None) -> Links:
        config = self.config
        greeting = first_greeting(
            config.cluster,
            self.me,
            self.earlier.starts,
            str(config.advertise),
            self.wire.codec.digest(sorted(config.facts().items())),
            config.facts(),
            self.earlier.life,
        )
        return Links(
            greeting,
            self.book,
            self._listener,
            self.wire.codec.max_frame,
            self.wire.codec.encode_run,
            config.limits.send_buffer_bytes,
            tls,
            config.limits.control_per_second,
            self.machine.carrier(config),
        )

    def _open_journal(self) -> None:
        """Keep a journal where the protocol resumes; else only the mark that this life began."""
        self.earlier.write_start()
        if self.config.restart() == "reborn":
            return
        storage = self.earlier.storage
        self.journal = Journal(
            storage, self.loop, self._on_durable, lambda e: self.fail(e, "its disk")
        )
        self._bodies = StoredBodies(self.journal.read, self.me)
        self._acquaintances.journal = self.journal
        self.earlier.check_trace(self.rows.trace)

    def _make_parts(self, tls: Tls | None) -> Parts:
        return Parts(
            self.config, self.machine, self.loop, self.clock, self.running, self.observed,
            self.turns, self.rows, self.membership_news, self.inbox, self.book, self.out,
            self.wire, self.links, self._timers, self._acquaintances, self.earlier,
            self.journal, self._bodies, tls, self.fail,
        )  # fmt: skip

    def _begin(self) -> None:
        memory = self.earlier.memory
        if self.earlier.has_no_past():
            self.parts.steps.take(lambda: self.parts.stack.start(self.out))
            for group in self.config.late_groups:
                self.parts.memberships.join(group)
            return
        if self.rows.trace is not None:
            now = self.clock.wall_us()
            complete_log(self.rows.trace, memory.rows, self.parts.steps.performed, now)
        records = [Record(layer, self.wire.codec.decode(data)[1]) for layer, data in memory.records]
        records = self._without_strangers(records)
        self.parts.steps.persisting.update((record.layer, None) for record in records)
        self.parts.readers.restore()
        for stored in memory.inbox.values():
            self.inbox.restore(stored)
            self.rows.add_now(NOTE, stored.id, stored.group, note="redelivered")
        log.info(
            "start %d: %d records, %d deliveries to hand over again",
            self.earlier.starts,
            len(records),
            len(memory.inbox),
        )
        self.parts.steps.take(lambda: self.parts.stack.recover(records, self.out))

    def _without_strangers(self, records: list[Record]) -> list[Record]:
        """Publications that speak of nodes which there are not were taken in before that was
        looked at: they wait for ever, and are purged."""
        codec, admission = self.wire.codec, self.parts.admission
        kept = [
            record
            for record in records
            if not codec.publications(record.message)
            or admission.knows_all(codec.nodes_spoken_of(record.message))
        ]
        if len(kept) < len(records):
            purged = len(records) - len(kept)
            self.links.counts["purged_records"] += purged
            log.warning("%d records speak of unknown nodes and are purged", purged)
            if self.parts.keeper is not None:
                self.parts.keeper.compact_soon()
        return kept

    # It stops

    async def stop(self) -> None:
        """Leave in good order: everybody hears of it, and nothing that is durable is lost."""
        running = self.running
        if running.is_stopping:
            await running.stopped.wait()
        if running.is_over:
            return
        running.is_stopping = True
        self.parts.pressure.relieve()  # publishers that wait for room hear of it
        self.parts.steps.take(lambda: self.parts.stack.leave(self.out))
        self._timers.cancel_all()
        await self._drain()
        running.has_gone = True
        self._timers.cancel_all()
        await self._drain()  # what came meanwhile, too: its rows stand before the last one
        if running.stopped.is_set():
            return
        self._end_turn()  # what leaves still stands before the last row
        self.rows.add_now(LEAVE)
        self._end_turn()
        await self.links.close()
        self._finish_life(None)

    async def _drain(self) -> None:
        """Wait until everything is durable, and all of it has happened."""
        self.parts.acknowledgements.write()
        if self.journal is not None:
            drained = asyncio.ensure_future(self.journal.drain())
            broken = asyncio.ensure_future(self.running.stopped.wait())
            await asyncio.wait([drained, broken], return_when=asyncio.FIRST_COMPLETED)
            drained.cancel()
            broken.cancel()

    def fail(self, error: BaseException, what: str) -> None:
        """A bug or a broken disk: this node stops at once, as if it had crashed."""
        if self.running.is_over:
            return
        if isinstance(error, CausalcastError):
            log.critical("node %s stops: %s: %s", self.me, what, error)
            failure = error
        else:
            log.critical("node %s stops: %s", self.me, what, exc_info=error)
            failure = NodeError(f"node {self.me} stopped: {what}: {error!r}")
        self._timers.cancel_all()
        self.links.abort()
        self._finish_life(failure)

    def _finish_life(self, failure: CausalcastError | None) -> None:
        if self.running.is_over:
            return  # it failed while it stopped
        self._timers.cancel_all()
        held = self.parts.steps.held
        publishers, handled = held.publishers(), self.parts.acknowledgements.waiting()
        held.clear()
        self.running.end(failure)
        gone = failure or NodeError("the node was stopped")
        for publisher in publishers:
            if not publisher.done():
                publisher.set_exception(gone)
        for marking in handled:
            if not marking.done():
                marking.set_exception(gone)
        self.parts.direct.end()
        self.parts.effects.stability.wake_all()
        self.membership_news.set()
        self.parts.pressure.relieve()
        self.inbox.wake_all()
        self.observed.events.wake()
        self._let_go()

    def _give_up(self) -> None:
        """Starting failed."""
        self.links.abort()
        if not self.running.is_over:
            self._let_go()

    def _let_go(self) -> None:
        if self._has_let_go:
            return
        self._has_let_go = True
        self.running.cancel_tasks()
        if self.journal is not None:
            self.journal.close()
        else:
            self.earlier.storage.close()
        if self.rows.trace is not None:
            self.rows.trace.close()

    # Turns, timers and the disk

    def _end_turn(self) -> None:
        """Let everything of this turn leave: entries, then rows, then frames."""
        self.turns.ended()
        if self.running.is_over:
            return
        try:
            self.links.outlets.encode()  # what leaves has its rows before it does
        except Exception as error:
            self.fail(error, f"a bug in a message of {self.blueprint.protocol.name}")
            return
        try:
            if self.journal is not None:
                if self.parts.keeper is not None:
                    self.parts.keeper.keep_short()
                self.journal.commit()
            if self.rows.trace is not None:
                self.rows.trace.write(self.parts.steps.performed)
        except (OSError, CausalcastError) as error:
            self.fail(error, "its journal or trace log")
            return
        self.links.flush()
        self.parts.pressure.end_turn()

    def _on_durable(self, sequence: int, places: list[Place]) -> None:
        if self.parts.steps.on_durable(sequence, places):
            self.parts.pressure.relieve()
            self._end_turn()
        self.parts.acknowledgements.durable_up_to(sequence)

    def _expire(self, layer: int, name: str, subject: int) -> None:
        self.out.world.congested = self.links.busy_peers()  # it is timers that repeat messages
        self.parts.steps.take(lambda: self.parts.stack.expire(layer, name, subject, self.out))
        self.out.world.congested = NOBODY

    def _load_body(self, place: Place, index: int) -> bytes:
        """The body of a delivery, from the journal."""
        assert self._bodies is not None
        return self._bodies.load(place, index)

    def _inbox_is_full(self, is_full: bool) -> None:
        """There is no disk to spool to: let those who publish wait."""
        log.info("the application %s", "does not keep up" if is_full else "keeps up again")
        self.links.read_on(not is_full)
        if not is_full:
            self.parts.pressure.relieve()
        self.parts.silent.listens_anew()

    def _trace_trouble(self, text: str) -> None:
        self.observed.tell("trace", self.me, text)

    # What the application and the operator do

    def publish(
        self,
        group: GroupId,
        body: bytes,
        keyed: Keyed | None = None,
        said: Metadata | None = None,
    ) -> MessageId | Awaitable[MessageId]:
        """Publish `body`: its id if that is done, else what is done when it is durable. `keyed`:
        who wants to know it again, and by what key. `said`: what the application says of it."""
        return self.parts.publishing.publish(group, body, keyed, said)

    def acknowledge(self, message: MessageId) -> "asyncio.Future[None] | None":
        """The application has handled `message`; returns what is done when that is durable."""
        return self.parts.acknowledgements.add(message)

    async def wait_durable(self) -> None:
        """Wait until all that has happened so far is durable."""
        await self._drain()
        self.running.check_alive()

    async def wait_stable(self, message: MessageId) -> None:
        """Wait until every member has delivered `message`, as far as the protocol tells."""
        stability = self.parts.effects.stability
        while not stability.has(message):
            self.running.check_alive()
            await stability.word_of(message)

    def preview(self, words: str) -> list[str]:
        """What may be lost if a command is carried out; raises where it cannot be."""
        return self.parts.stack.multicast.preview(self._understand(words))

    def command(self, words: str) -> None:
        """Carry out what an operator commands, such as `gone 3`."""
        self.running.check_alive()
        command = self._understand(words)
        if self.blueprint.protocol.commands[command.name].gives_up:
            self._prove_gone(command.arguments[0])
        self.parts.steps.take(lambda: self.parts.stack.command(command, self.out))

    def _prove_gone(self, node: int) -> None:
        """Let the authority revoke a node that is given up, if it is here: else nobody with
        certificates would believe it."""
        tls, authority = self.links.tls, self.config.security.authority
        if tls is None or node in tls.revocations.nodes or node == self.me:
            return  # whoever leaves for good is believed
        if authority is None:
            raise NodeError(
                f"the authority has not revoked node {node}, so nobody would believe that it is "
                f"gone: `causalcast keys revoke AUTHORITY --id {node}`, or command it at the node "
                "with [security] authority"
            )
        Authority.open(authority).revoke(node=node)
        tls.refresh()
        self.links.cut_off_revoked()
        self.parts.key_watch.spread()

    def _understand(self, words: str) -> Command:
        try:
            command = self.blueprint.command(words)
        except ValueError as error:
            raise NodeError(str(error)) from None
        objection = self.parts.stack.multicast.objection(command)
        if objection:
            raise NodeError(f"{command}: {objection}")
        return command
