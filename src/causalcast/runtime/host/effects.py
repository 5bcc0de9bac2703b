"""The World of a real node: does what the stack asks for.

What others can see waits for the step's entry (`StepState.later`); timers act at once.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import final

from causalcast.core.effects import (
    Belief,
    CancelTimer,
    CloseLink,
    Deliver,
    Duplicate,
    Effect,
    Expelled,
    Hold,
    Joined,
    Note,
    OpenLink,
    Release,
    Send,
    Stable,
    StartTimer,
)
from causalcast.core.ids import MessageId, NodeId, origin_of
from causalcast.core.made_groups import FIRST_MADE, NEWS
from causalcast.core.message import Publication
from causalcast.core.stack import Stack
from causalcast.core.world import World, perform
from causalcast.errors import LeftBehind
from causalcast.runtime.host.group_directory import GroupDirectory
from causalcast.runtime.host.inbox import Inbox
from causalcast.runtime.host.observed import Observed
from causalcast.runtime.host.rows import Rows
from causalcast.runtime.host.sending import Sending
from causalcast.runtime.host.stability import Stability
from causalcast.runtime.host.step_state import StepState
from causalcast.runtime.host.timers import Timers
from causalcast.runtime.links.links import Links
from causalcast.runtime.metadata import has_metadata, payload_size
from causalcast.runtime.node_trace import (
    DELIVER,
    DUPLICATE,
    HOLD,
    JOIN,
    LEAVE,
    NOTE,
    RELEASE,
    SUSPECT,
    TRUST,
)
from causalcast.runtime.observing.events import Event
from causalcast.runtime.security.signatures import body_in
from causalcast.runtime.security.waiting import Waiting
from causalcast.runtime.storage.durable_entry import count

log = logging.getLogger(__name__)


@final
class Effects(World):
    """What each kind of effect does here."""

    def __init__(
        self,
        me: NodeId,
        stack: Stack,
        state: StepState,
        sending: Sending,
        links: Links,
        timers: Timers,
        inbox: Inbox,
        rows: Rows,
        observed: Observed,
        membership_news: asyncio.Event,
        believe: Callable[[Belief], None],
        events: Mapping[str, str],  # notes that people want to hear of, and what they mean
        ends: Mapping[str, str],  # notes after which the node cannot go on, and why
        fail: Callable[[BaseException, str], None],  # when the step is over
        signed: bool,
        waiting: Waiting,
    ) -> None:
        self.stability = Stability()
        self._me = me
        self._stack = stack
        self._state = state
        self._sending = sending
        self._links = links
        self._timers = timers
        self._inbox = inbox
        self._rows = rows
        self._observed = observed
        self._membership_news = membership_news
        self._believe = believe
        self._events = events
        self._ends = ends
        self._fail = fail
        self._has_signatures = signed
        self.waiting = waiting
        self.directory: GroupDirectory  # set when it is made: it is made of this, too
        self._released: dict[MessageId, int] = {}  # in this step, and since when they had waited

    def perform(self, effects: list[Effect]) -> None:
        """Let the effects of one step happen, or wait for its entry."""
        if self._released:
            self._released = {}
        if self._state.is_kept or self._rows.trace is not None:
            perform(effects, self._me, self)
        else:
            self._perform_untraced(effects)

    def _perform_untraced(self, effects: list[Effect]) -> None:
        """The same as `perform`, with the two commonest effects written out."""
        groups, delivered = self._stack.groups, self._observed.delivered_in
        inbox, sending, waiting = self._inbox, self._sending, self.waiting
        at_once = 0
        for effect in effects:
            if isinstance(effect, Send):
                sending.send_at_once(effect)
            elif isinstance(effect, Deliver):
                publication = effect.publication
                since = self._released.pop(publication.id, 0) if self._released else 0
                if waiting.by_message:
                    since = waiting.release(publication.id) or since
                if publication.group in groups and self._may_come(publication):
                    if since:
                        self._observed.took.observe(self._state.at_us - since)
                    else:
                        at_once += 1
                    if self._has_signatures:
                        publication = self.unsigned(publication)
                    delivered[publication.group] = delivered.get(publication.group, 0) + 1
                    if has_metadata(publication.body):
                        self._observed.measure(publication.body)
                    inbox.add(publication, None, 0, inbox.readers.owed_in(publication.group))
                elif publication.group == NEWS:
                    self.directory.hear(self.unsigned(publication))
                    groups = self._stack.groups  # it may be in another one now
            else:
                perform([effect], self._me, self)
                groups = self._stack.groups  # it may have joined one
        if at_once:
            self._observed.took.observe(0, at_once)

    def unsigned(self, publication: Publication) -> Publication:
        """As the application knows it."""
        if not self._has_signatures:
            return publication
        return Publication(publication.id, publication.group, body_in(publication.body))

    # Links

    def send(self, node: NodeId, effect: Send) -> None:
        self._sending.send(effect)

    def open_link(self, node: NodeId, effect: OpenLink) -> None:
        self._state.later(self._links.dial, effect.to)

    def close_link(self, node: NodeId, effect: CloseLink) -> None:
        self._state.later(self._links.hang_up, effect.to)

    # The application

    def deliver(self, node: NodeId, effect: Deliver) -> None:
        since = self._released.pop(effect.publication.id, 0) if self._released else 0
        if self.waiting.by_message:
            since = self.waiting.release(effect.publication.id) or since
        publication = self.unsigned(effect.publication)
        state = self._state
        if publication.group not in self._stack.groups or not self._may_come(publication):
            if publication.group == NEWS and self.directory.hear(publication):
                state.owed.append(0)
                state.deliveries.append(publication)
            return
        if self._rows.wants[DELIVER]:
            at_us, size = state.at_us, payload_size(publication.body)
            self._rows.of_step(
                (at_us, DELIVER, publication.id, publication.group, -1, size, -1, -1, None)
            )
        owed, index = state.owed, len(state.deliveries)
        owed.append(self._inbox.readers.owed_in(publication.group))
        state.deliveries.append(publication)
        state.later(self._hand_over, publication, index, since or state.at_us, owed)

    def _may_come(self, publication: Publication) -> bool:
        return publication.group < FIRST_MADE or self.directory.takes(publication)

    def _hand_over(
        self, publication: Publication, index: int, arrived_us: int, owed: list[int]
    ) -> None:
        count(self._observed.delivered_in, publication.group)
        self._observed.took.observe(self._observed.now_us() - arrived_us)
        if has_metadata(publication.body):
            self._observed.measure(publication.body)
        place = self._state.place if self._state.is_kept else None
        self._inbox.add(publication, place, index, owed[index])

    def joined(self, node: NodeId, effect: Joined) -> None:
        self._stack.note_joined(effect.group)
        self._observed.late_groups[effect.group] = None
        self._rows.of_step((self._state.at_us, JOIN, -1, effect.group, -1, -1, -1, -1, None))
        self._state.later(self._membership_news.set)

    def expelled(self, node: NodeId, effect: Expelled) -> None:
        for group in self._stack.groups:
            row = (self._state.at_us, LEAVE, -1, group)
            self._state.later(self._rows.add, *row)
        self._stack.note_expelled()
        self._state.later(self._membership_news.set)

    def stable(self, node: NodeId, effect: Stable) -> None:
        self._state.later(self._tell_stable, effect.message)
        self._rows.of_step((self._state.at_us, NOTE, effect.message, -1, -1, -1, -1, -1, "stable"))

    def _tell_stable(self, message: MessageId) -> None:
        if origin_of(message) == self._me:
            self.stability.told(message)

    # Timers

    def start_timer(self, node: NodeId, effect: StartTimer) -> None:
        self._timers.start(effect)

    def cancel_timer(self, node: NodeId, effect: CancelTimer) -> None:
        self._timers.cancel(effect)

    # The trace, and people

    def hold(self, node: NodeId, effect: Hold) -> None:
        self.waiting.hold(effect.message, self._state.at_us)
        if self._rows.wants[HOLD]:
            note = f"waits for {effect.words()}"
            self._rows.of_step(
                (self._state.at_us, HOLD, effect.message, -1, -1, -1, -1, effect.waits_for, note)
            )

    def release(self, node: NodeId, effect: Release) -> None:
        since = self.waiting.release(effect.message)
        if since:
            self._released[effect.message] = since
        if self._rows.wants[RELEASE]:
            self._rows.of_step(
                (self._state.at_us, RELEASE, effect.message, -1, -1, -1, -1, -1, None)
            )

    def duplicate(self, node: NodeId, effect: Duplicate) -> None:
        if self._rows.wants[DUPLICATE]:
            self._rows.of_step(
                (self._state.at_us, DUPLICATE, effect.message, -1, -1, -1, -1, -1, None)
            )

    def belief(self, node: NodeId, effect: Belief) -> None:
        kind = TRUST if effect.up else SUSPECT
        self._rows.of_step((self._state.at_us, kind, -1, -1, effect.peer, -1, -1, -1, None))
        self._believe(effect)

    def note(self, node: NodeId, effect: Note) -> None:
        self._observed.notes[effect.name] += 1
        log.debug("note %s %d", effect.name, effect.subject)
        at_us = self._state.at_us
        meaning = self._events.get(effect.name)
        if meaning is not None:
            log.warning("%s (%s, node %d)", meaning, effect.name, effect.subject)
            event = Event(effect.name, effect.subject, at_us, meaning)
            self._state.later(self._observed.events.add, event)
            self._membership_news.set()  # it may be that nobody can admit this node any more
        self._rows.of_step((at_us, NOTE, -1, -1, -1, -1, -1, effect.subject, effect.name))
        if effect.name in self._ends:
            words = f"node {node} was left behind: {self._ends[effect.name]}"
            self._fail(LeftBehind(words), effect.name)
