"""Puts the parts of a node together, once its links and its journal are there."""

import asyncio
from collections.abc import Callable

from causalcast.core.ids import NodeId, origin_of
from causalcast.core.message import Publication
from causalcast.core.outbox import Outbox
from causalcast.core.stack import Stack
from causalcast.core.world_facts import WorldFacts
from causalcast.runtime.host.acknowledgements import Acknowledgements
from causalcast.runtime.host.acquaintances import Acquaintances
from causalcast.runtime.host.arrivals import Arrivals
from causalcast.runtime.host.asking import Asking
from causalcast.runtime.host.back_pressure import BackPressure
from causalcast.runtime.host.contacts import Contacts
from causalcast.runtime.host.direct import Direct
from causalcast.runtime.host.earlier_life import EarlierLife
from causalcast.runtime.host.effects import Effects
from causalcast.runtime.host.group_directory import GroupDirectory
from causalcast.runtime.host.inbox import Inbox
from causalcast.runtime.host.journal_keeper import JournalKeeper
from causalcast.runtime.host.key_watch import KeyWatch
from causalcast.runtime.host.memberships import Memberships
from causalcast.runtime.host.newcomers import STATES, Newcomers
from causalcast.runtime.host.observed import Observed
from causalcast.runtime.host.publishing import Publishing
from causalcast.runtime.host.readers import Readers
from causalcast.runtime.host.rows import Rows
from causalcast.runtime.host.running import Running
from causalcast.runtime.host.sending import Sending
from causalcast.runtime.host.silent_neighbours import SilentNeighbours
from causalcast.runtime.host.state_desk import StateDesk
from causalcast.runtime.host.step_state import StepState
from causalcast.runtime.host.steps import Fail, Steps
from causalcast.runtime.host.timers import Timers
from causalcast.runtime.host.turns import Turns
from causalcast.runtime.host.wire import Wire
from causalcast.runtime.links.address_book import AddressBook
from causalcast.runtime.links.links import Links
from causalcast.runtime.machine import Machine, NodeClock
from causalcast.runtime.node_config import NodeConfig
from causalcast.runtime.security.admission import Admission
from causalcast.runtime.security.evidence import Evidence
from causalcast.runtime.security.signatures import Signatures
from causalcast.runtime.security.tls import Tls
from causalcast.runtime.security.waiting import Waiting
from causalcast.runtime.storage.journal import Journal
from causalcast.runtime.storage.stored_bodies import StoredBodies


class Parts:
    """Everything that a node is made of beside its host. Long, and nothing but wiring: the order of
    the lines is that in which parts need one another."""

    def __init__(
        self,
        config: NodeConfig,
        machine: Machine,
        loop: asyncio.AbstractEventLoop,
        clock: NodeClock,
        running: Running,
        observed: Observed,
        turns: Turns,
        rows: Rows,
        membership_news: asyncio.Event,
        inbox: Inbox,
        book: AddressBook,
        out: Outbox,
        wire: Wire,
        links: Links,
        timers: Timers,
        acquaintances: Acquaintances,
        earlier: EarlierLife,
        journal: Journal | None,
        bodies: StoredBodies | None,
        tls: Tls | None,
        fail: Fail,
    ) -> None:
        me, blueprint, protocol = config.node, config.blueprint, config.blueprint.protocol
        self.links = links
        self.stack = stack = _stack(config, machine, earlier)
        out.world = WorldFacts(keeps_records=journal is not None, links_lose_nothing=True)
        state = StepState(journal is not None)
        if journal is not None:
            rows.wait_for_entries()
        may_cut = protocol.restart == "resume" or config.is_changing()
        self.silent = SilentNeighbours(loop, links, observed, running, may_cut)
        sending = Sending(
            me, links, wire.codec, book, state, rows, observed, wire.untraced, wire.naming, clock
        )
        nodes = None if config.is_changing() else list(blueprint.topology.neighbours)
        waiting = Waiting(None if nodes is None else len(nodes))
        self.effects = Effects(
            me, stack, state, sending, links, timers, inbox, rows, observed, membership_news,
            self.silent.believe, protocol.events, protocol.ends, _when_the_step_is_over(loop, fail),
            config.security.sign, waiting,
        )  # fmt: skip
        self.directory = directory = GroupDirectory(
            me, blueprint, config.patterns, earlier.memory.made, stack, inbox, out, state, rows,
            observed,
        )  # fmt: skip
        self.effects.directory = directory
        self.steps = steps = Steps(
            me, protocol.name, out, state, self.effects, rows, wire.codec, clock, turns, running,
            observed, journal, fail, earlier.last_sequence(),
        )  # fmt: skip
        neighbours = list(blueprint.topology.neighbours.get(me, []))
        self.pressure = BackPressure(
            me,
            stack,
            links,
            steps.held,
            inbox,
            running,
            observed,
            config.limits,
            neighbours,
            clock,
        )
        self.silent.watch(self.pressure)
        signatures = None
        if config.security.sign and tls is not None:
            signatures = Signatures(tls, _accusation(config, observed, links))
        self.publishing = publishing = Publishing(
            me, earlier.memory.published, stack, steps, self.pressure, links, inbox, rows, turns,
            running, observed, acquaintances, config.rights, signatures, blueprint.groups,
            directory, config.limits.body_bytes, config.limits.stamp_every_us, earlier.memory.keys,
            protocol.closes_groups,
        )  # fmt: skip
        self.memberships = Memberships(
            stack, steps, rows, running, directory, membership_news,
            lambda group: config.rights.may_subscribe(me, group),
            lambda group: self.states.joins(group),
        )  # fmt: skip
        self.acknowledgements = Acknowledgements(loop, inbox, running, journal)
        self.states = StateDesk(
            config, machine, stack, inbox, links, publishing, self.acknowledgements, directory,
            running, journal is not None,
        )  # fmt: skip
        self.direct = Direct(_sender(links, turns), running.beside)
        self.newcomers = Newcomers(self.states, self.direct, running.beside, me)
        self.asking = Asking(me, self.direct, self.states, config.limits.body_bytes)
        directory.on_states = self.newcomers.heard
        self.readers = Readers(
            me, inbox, steps.held, self.acknowledgements, observed, running, directory.name_of
        )
        self.admission = admission = Admission(
            me,
            blueprint.groups,
            nodes,
            config.rights,
            lambda: publishing.published,
            lambda origin: stack.multicast.furthest(origin),
            signatures,
            None if tls is None else lambda: tls.revocations.nodes,
            "made_groups" in protocol.offers,
            STATES in protocol.offers,
        )
        self.arrivals = Arrivals(
            stack, steps, wire.codec, admission, waiting, inbox, rows, acquaintances, book,
            wire.naming_layer, tls is not None, wire.untraced, protocol.name, fail,
        )  # fmt: skip
        self.contacts = Contacts(config, stack, steps, links, book, running)
        self.key_watch = KeyWatch(links, book, running, machine.entropy)
        self.keeper: JournalKeeper | None = None
        if journal is not None and bodies is not None:
            self.keeper = JournalKeeper(
                me, journal, bodies, stack, steps, wire.codec, inbox, rows, observed, publishing,
                self.acknowledgements, acquaintances, earlier, directory.made,
                config.limits.compact_bytes,
                list(blueprint.topology.neighbours),
            )  # fmt: skip


def _sender(links: Links, turns: Turns) -> Callable[[NodeId, bytes], str]:
    def send(to: NodeId, data: bytes) -> str:
        why_not = links.send_direct(to, data)
        turns.plan()
        return why_not

    return send


def _when_the_step_is_over(loop: asyncio.AbstractEventLoop, fail: Fail) -> Fail:
    def fail_soon(error: BaseException, what: str) -> None:
        loop.call_soon(lambda: fail(error, what))

    return fail_soon


def _accusation(
    config: NodeConfig, observed: Observed, links: Links
) -> Callable[[Publication | None, Publication], None]:
    """What happens when an origin has signed two publications under one number."""
    evidence = Evidence(config.storage / "evidence")

    def told(first: Publication | None, second: Publication) -> None:
        origin = origin_of(second.id)
        links.counts["two_bodies"] += 1
        if first is not None:
            evidence.keep(first, second)
        observed.tell_once(
            "two_bodies",
            origin,
            "an origin signed two publications under one number, so that nodes disagree; both are "
            f"in {config.storage / 'evidence'}: revoke it",
        )

    return told


def _stack(config: NodeConfig, machine: Machine, earlier: EarlierLife) -> Stack:
    stack = config.blueprint.build(
        config.node,
        machine.entropy.some_bytes(8).hex(),
        newcomer=bool(config.contacts) and earlier.has_no_past(),
        incarnation=earlier.life.incarnation,
        life=earlier.life.life,
    )
    stack.groups = dict(earlier.memory.groups)
    return stack
