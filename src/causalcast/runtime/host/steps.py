"""Runs the steps of a real node: writes each step to the journal, then performs its effects.

A step is one input to the stack. What it must not lose is one entry of the journal; what others
can see of it happens when that entry is durable, and what later steps show waits behind it, in
order. Timers act at once. Where no entry is under way and a step has nothing to keep, its effects
happen at once.
"""

import asyncio
from collections.abc import Callable
from typing import final

from causalcast.core.ids import GroupId, MessageId, NodeId, message_id, number_of
from causalcast.core.made_groups import NEWS
from causalcast.core.message import Publication
from causalcast.core.outbox import Outbox, Record
from causalcast.errors import CausalcastError
from causalcast.runtime.host.effects import Effects
from causalcast.runtime.host.held_steps import Action, HeldStep, HeldSteps
from causalcast.runtime.host.observed import Observed
from causalcast.runtime.host.rows import Rows
from causalcast.runtime.host.running import Running
from causalcast.runtime.host.step_state import StepState
from causalcast.runtime.host.turns import Turns
from causalcast.runtime.machine import NodeClock
from causalcast.runtime.storage import durable_entry
from causalcast.runtime.storage.durable_entry import NO_GROUP, Step, in_short
from causalcast.runtime.storage.journal import Journal
from causalcast.runtime.storage.journal_frames import Place
from causalcast.trace.log_rows import Row
from causalcast.wire.codec import Codec

Fail = Callable[[BaseException, str], None]


@final
class Steps:
    """The steps of one life, from an input to its effects."""

    def __init__(
        self,
        me: NodeId,
        protocol: str,
        out: Outbox,
        state: StepState,
        effects: Effects,
        rows: Rows,
        codec: Codec,
        clock: NodeClock,
        turns: Turns,
        running: Running,
        observed: Observed,
        journal: Journal | None,
        fail: Fail,
        performed: int,
    ) -> None:
        self.held = HeldSteps()  # steps that wait for the disk
        self.performed = performed  # sequence of the last entry whose effects happened
        self.persisting: dict[int, None] = {}  # layers that have records
        self.out = out
        self.state = state
        self.journal = journal
        self._me = me
        self._protocol = protocol
        self._effects = effects
        self._rows = rows
        self._codec = codec
        self._clock = clock
        self._turns = turns
        self._running = running
        self._observed = observed
        self._fail = fail

    def take(self, call: Callable[[], None]) -> None:
        """One input to the stack, from its beginning to its end."""
        self.start()
        self.finish(call)

    def start(self) -> None:
        """Take the time: it stands still for the stack and for the rows until the next step."""
        self.out.now = self._clock.now_us()
        self.state.at_us = self._clock.wall_at(self.out.now)

    def finish(
        self,
        call: Callable[[], None],
        left: int = NO_GROUP,
        last: Action | None = None,
    ) -> None:
        """Let the stack act and settle what it asks for; a bug stops the node."""
        try:
            call()
            self.settle(None, left, last)
        except Exception as error:
            self.failed(error)

    def failed(self, error: Exception) -> None:
        """A bug in a protocol stops this node and nobody else."""
        if isinstance(error, CausalcastError):
            self._fail(error, "a step")
        else:
            self._fail(error, f"a bug in {self._protocol} or the layers below it")

    def act(self) -> None:
        """Let what the stack has asked for so far be part of the step, before it goes on."""
        out = self.out
        if out.effects:
            effects, out.effects = out.effects, []
            self._effects.perform(effects)

    def settle(
        self,
        publication: Publication | None = None,
        left: int = NO_GROUP,
        last: Action | None = None,
        publisher: "asyncio.Future[MessageId] | None" = None,
    ) -> None:
        """The stack has acted: keep what must be kept, and let the rest happen or wait for it."""
        out, state = self.out, self.state
        out.closes_link = False
        if self.journal is None:
            self._settle_at_once(last)
            return
        self.act()
        records, out.records = out.records, []
        joined, out.joins = out.joins, []
        actions, state.actions = state.actions, []
        deliveries, state.deliveries = state.deliveries, []
        owed, state.owed = state.owed, []
        removed, state.left = state.left, []
        rows = self._rows.take()
        if last is not None:
            actions.append(last)
        if records or deliveries or publication or joined or left != NO_GROUP:
            step = self._entry(publication, records, deliveries, joined, left)
            if removed:  # the step was no leave: those have no deliveries
                step.left = in_short(removed)
            data = durable_entry.encode(step)
            sequence = self.journal.append(data)
            self.held.add(
                HeldStep(sequence, rows, actions, step, len(data), deliveries, publisher, owed)
            )
        elif self.held:
            if actions or rows:
                self.held.add(HeldStep(0, rows, actions))
        else:
            self._happen(rows, actions)
        self._turns.plan()

    def _settle_at_once(self, last: Action | None) -> None:
        """Nothing is kept, so nothing is waited for: what `later` was told has happened."""
        self.act()
        self.out.joins.clear()
        self.state.deliveries.clear()
        self.state.owed.clear()
        self.state.left.clear()
        if last is not None:
            function, arguments = last
            function(*arguments)
        self._turns.plan()

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
            stored.append((record.layer, self._codec.encode(record.message)))
        own = None if publication is None else publication.id
        published = None
        if publication is not None:
            body = self._effects.unsigned(publication).body
            published = (number_of(publication.id), int(publication.group), body)
        return Step(
            self.state.at_us,
            published,
            stored,
            [(p.id, p.group, None if p.id == own else p.body) for p in deliveries],
            in_short(joined),
            left,
        )

    def on_durable(self, sequence: int, places: list[Place]) -> bool:
        """Entries up to `sequence` are durable: let their effects happen, and what waited.

        False if the node is over, or has failed at that.
        """
        if self._running.is_over:
            return False
        first = sequence - len(places) + 1
        try:
            for step in self.held.durable_up_to(sequence):
                if step.sequence:
                    self.state.place = places[step.sequence - first]
                if step.publisher is not None:
                    self._announce_published(step)  # first: it is, whatever comes of the rest
                self._happen(step.rows, step.actions)
                if step.sequence:  # only now: a restart writes the rows of all behind it
                    self.performed = step.sequence
        except (OSError, CausalcastError) as error:
            self._fail(error, "its trace log or a socket")
            return False
        except Exception as error:
            self._fail(error, "a bug in what follows a durable step")
            return False
        self.performed = max(self.performed, sequence)
        return True

    def _announce_published(self, step: HeldStep) -> None:
        entry, publisher = step.entry, step.publisher
        assert entry is not None and entry.publication is not None and publisher is not None
        number, group, _ = entry.publication
        if group != NEWS:
            published = self._observed.published_in
            published[group] = published.get(group, 0) + 1
        if not publisher.done():
            publisher.set_result(message_id(self._me, number))

    def _happen(self, rows: list[Row], actions: list[Action]) -> None:
        self._rows.happened(rows)
        for function, arguments in actions:
            function(*arguments)
