"""Publishing: one entrance, with or without a journal.

With a journal a publication is done when its entry is durable. Without one it is done at once, as
long as there is room on the way and the turn is not too long: others must have their turn, too.
"""

import asyncio
from collections.abc import Awaitable
from typing import Final, final

from causalcast.core.groups import Groups
from causalcast.core.ids import GroupId, MessageId, NodeId, message_id
from causalcast.core.made_groups import FIRST_MADE, NEWS
from causalcast.core.message import Publication
from causalcast.core.stack import Stack
from causalcast.errors import NodeError
from causalcast.limits import Limit
from causalcast.runtime.host.acquaintances import Acquaintances
from causalcast.runtime.host.back_pressure import BackPressure
from causalcast.runtime.host.group_directory import GroupDirectory
from causalcast.runtime.host.inbox import Inbox
from causalcast.runtime.host.observed import Observed
from causalcast.runtime.host.rows import Rows
from causalcast.runtime.host.running import Running
from causalcast.runtime.host.steps import Steps
from causalcast.runtime.host.turns import Turns
from causalcast.runtime.links.links import Links
from causalcast.runtime.metadata import Metadata, body_of
from causalcast.runtime.node_trace import PUBLISH
from causalcast.runtime.security.rights import Rights
from causalcast.runtime.security.signatures import Signatures
from causalcast.runtime.storage import durable_entry
from causalcast.runtime.storage.durable_entry import Keyed
from causalcast.runtime.storage.publication_keys import PublicationKeys
from causalcast.trace.log_rows import Row

PUBLISH_PER_TURN: Final = Limit(
    "runtime.host.publishing.publish_per_turn",
    128,
    least=1,
    most=1 << 16,
    unit="messages",
    about="publications in one turn of the loop, where no disk is waited for",
)
PAUSE_AFTER: Final = Limit(
    "runtime.host.publishing.pause_after",
    1 << 18,
    least=1,
    most=1 << 26,
    unit="bytes",
    about="bodies published in one turn of the loop, where no disk is waited for",
)


@final
class Publishing:
    """Numbers publications and lets the stack publish them.

    Large because it looks at much: a publication is refused for its size, for rights, for what the
    protocol says, for an older disk; and a client may want to know it again by a key.
    """

    def __init__(
        self,
        me: NodeId,
        published: int,  # the number of the last publication of earlier lives
        stack: Stack,
        steps: Steps,
        pressure: BackPressure,
        links: Links,
        inbox: Inbox,
        rows: Rows,
        turns: Turns,
        running: Running,
        observed: Observed,
        acquaintances: Acquaintances,
        rights: Rights,
        signatures: Signatures | None,
        groups: Groups,
        directory: GroupDirectory,
        body_bytes: int,
        stamp_every_us: int,
        keys: PublicationKeys,
        may_refuse: bool,  # the protocol may, to some groups at some times
    ) -> None:
        self.published = published  # the number of the last publication, durable or not
        self._since_pause = 0  # bytes published in this turn, by whomever
        self._pauses = False  # whether the next turn is to begin anew
        self._loop = asyncio.get_running_loop()
        self._me = me
        self._stack = stack
        self._steps = steps
        self._pressure = pressure
        self._links = links
        self._inbox = inbox
        self._rows = rows
        self._turns = turns
        self._running = running
        self._observed = observed
        self._acquaintances = acquaintances
        self._rights = rights
        self._signatures = signatures
        self._groups = groups
        self._directory = directory
        self._body_bytes = body_bytes
        self._stamp_every_us = stamp_every_us
        self._stamped_us = 0  # when the last one was that says when it was published
        self._keys = keys
        self._may_refuse = may_refuse

    def publish(
        self,
        group: GroupId,
        body: bytes,
        keyed: Keyed | None = None,
        said: Metadata | None = None,
    ) -> MessageId | Awaitable[MessageId]:
        """Publish `body`, with what the application says of it: its id if that is done, else what
        is done when it is durable, or when links, disk and application keep up and it was this
        one's turn."""
        if self._steps.journal is not None:
            if self._pressure.is_overloaded():
                return self._publish_later(group, body, keyed, said)
            return self._publish_durably(group, body, keyed, said)
        self._since_pause += len(body) + PAUSE_AFTER.value // PUBLISH_PER_TURN.value
        has_room = not self._inbox.is_full and not self._links.outlets.congested
        if has_room and self._since_pause <= PAUSE_AFTER.value:
            return self._publish_at_once(group, body, keyed, said)
        return self._publish_later(group, body, keyed, said)

    async def _publish_later(
        self, group: GroupId, body: bytes, keyed: Keyed | None, said: Metadata | None
    ) -> MessageId:
        if self._steps.journal is None:
            await self._wait_for_a_turn(len(body))
        if self._pressure.is_overloaded():
            await self._pressure.wait_for_room()
        if self._steps.journal is None:
            return self._publish_at_once(group, body, keyed, said)
        return await self._publish_durably(group, body, keyed, said)

    async def _wait_for_a_turn(self, size: int) -> None:
        """Nothing else makes publishers wait here: let frames leave, and come. However many they
        are, together they publish no more in a turn than one alone."""
        while True:
            if not self._pauses:
                self._pauses = True
                self._loop.call_soon(self._begin_turn)
            await asyncio.sleep(0)
            if self._since_pause <= PAUSE_AFTER.value or self._running.is_over:
                break
        self._since_pause += size + PAUSE_AFTER.value // PUBLISH_PER_TURN.value

    def _begin_turn(self) -> None:
        self._pauses = False
        self._since_pause = 0

    def _publish_durably(
        self, group: GroupId, body: bytes, keyed: Keyed | None, said: Metadata | None
    ) -> "asyncio.Future[MessageId]":
        publication = self._next_publication(group, body, keyed, said)
        durable: asyncio.Future[MessageId] = self._loop.create_future()
        if self._rows.wants[PUBLISH]:
            self._rows.of_step(self._row_of(publication, len(body)))
        self._let_stack_publish(publication, durable)
        return durable

    def _publish_at_once(
        self, group: GroupId, body: bytes, keyed: Keyed | None, said: Metadata | None
    ) -> MessageId:
        publication = self._next_publication(group, body, keyed, said)
        if self._rows.wants[PUBLISH]:
            self._rows.of_step(self._row_of(publication, len(body)))
        if group != NEWS:
            published = self._observed.published_in
            published[group] = published.get(group, 0) + 1
        self._let_stack_publish(publication, None)
        if not self._turns.has_left and self._rows.trace is None:
            # The first one of a turn leaves at once: those that follow it come together.
            self._turns.has_left = True
            self._links.flush()
        return publication.id

    def _row_of(self, publication: Publication, size: int) -> Row:
        at_us = self._steps.state.at_us
        return (at_us, PUBLISH, publication.id, publication.group, -1, size, -1, -1, None)

    def _let_stack_publish(
        self, publication: Publication, durable: "asyncio.Future[MessageId] | None"
    ) -> None:
        steps = self._steps
        try:
            self._stack.publish(publication, steps.out)
            steps.settle(publication, publisher=durable)
        except Exception as error:
            steps.failed(error)
        if self._running.is_over:
            self._running.check_alive()

    def _next_publication(
        self, group: GroupId, body: bytes, keyed: Keyed | None, said: Metadata | None
    ) -> Publication:
        """Begin the step that publishes `body`; raises, without a step, where it is refused."""
        if len(body) > self._body_bytes:
            raise NodeError(
                f"a body of {len(body)} bytes; at most {self._body_bytes} are accepted "
                "([limits] body_bytes)"
            )
        if not self._rights.may_publish(self._me, group):
            name = self._groups.names[group]
            raise NodeError(
                f"no right to publish to {name!r}; list node {self._me} under publish in "
                f"[rights.{name}] of all nodes, or publish elsewhere"
            )
        if FIRST_MADE <= group != NEWS:
            self._check_made(group)
        if self._may_refuse:
            reason = self._stack.multicast.refusal(group, joining=False)
            if reason:
                name = self._groups.names[group]
                raise NodeError(f"cannot publish to {name!r} now: {reason}")
        self._running.check_open()
        if self._acquaintances.older_than:
            self._acquaintances.refuse_to_publish()
        self.published += 1
        message = message_id(self._me, self.published)
        if keyed is not None:
            self._note_key(keyed)
        self._steps.start()
        body = self._stamped(body, said)
        if self._signatures is not None:
            body = self._signatures.sign(message, group, body)
        return Publication(message, group, body)

    def _check_made(self, group: GroupId) -> None:
        """Raise where a group that was made cannot be published to."""
        directory = self._directory
        reason = directory.refusal(group)
        if reason:
            raise NodeError(f"cannot publish to {directory.name_of(group)!r}: {reason}")
        if not directory.may_publish(self._me, group):
            raise NodeError(
                f"no right to publish to {directory.name_of(group)!r}; list node {self._me} under "
                "publish in [rights] of its prefix at all nodes, or publish elsewhere"
            )

    def _stamped(self, payload: bytes, said: Metadata | None) -> bytes:
        """The body; every so often it says when it was published."""
        at_us = self._steps.state.at_us
        stamps = at_us - self._stamped_us >= self._stamp_every_us
        if stamps:
            self._stamped_us = at_us
        return body_of(payload, said, at_us, stamps)

    def _note_key(self, keyed: Keyed) -> None:
        """Write down the key of the publication that comes now, in front of it."""
        key, _, digest = keyed.key
        keyed.key = (key, self.published, digest)
        self._keys.add(keyed.client, keyed.key)
        if self._steps.journal is not None:
            self._steps.journal.append(durable_entry.encode(keyed))
