"""When publishers have to wait: for links, for the disk, for neighbours, for the application."""

import asyncio
import weakref
from typing import Any, Final, final

from causalcast.core.ids import NodeId
from causalcast.core.stack import Stack
from causalcast.limits import Limit
from causalcast.runtime.host.held_steps import HeldSteps
from causalcast.runtime.host.inbox import Inbox
from causalcast.runtime.host.observed import Observed
from causalcast.runtime.host.running import Running
from causalcast.runtime.links.links import Links
from causalcast.runtime.machine import NodeClock
from causalcast.runtime.node_config import Limits

# Bytes that wait for the window of a neighbour: it has a window's worth to do as it is, and what is
# further ahead only waits in memory.
MOST_WAITING: Final = Limit(
    "runtime.host.back_pressure.most_waiting",
    1 << 18,
    least=1,
    most=1 << 30,
    unit="bytes",
    about="what may wait for the window of a neighbour before publishers wait",
)


@final
class BackPressure:
    """Looks at everything that can fall behind, and lets publishers wait for it."""

    def __init__(
        self,
        me: NodeId,
        stack: Stack,
        links: Links,
        held: HeldSteps,
        inbox: Inbox,
        running: Running,
        observed: Observed,
        limits: Limits,
        neighbours: list[NodeId],
        clock: NodeClock,
    ) -> None:
        # Tasks that take messages. One that waited for itself to take them would wait for ever.
        self.readers: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()
        self._relief = asyncio.Event()  # publishers that wait look again
        self._waiting = 0  # publishers
        self._waiting_readers = 0  # those among them that take messages
        self._keeps_much = False  # more than half of what it may: an operator has heard of it
        self._most_waiting = min(limits.send_buffer_bytes, MOST_WAITING.value)
        self._send_buffer = limits.send_buffer_bytes
        self._held_bytes = limits.held_bytes
        self._kept_bytes = limits.kept_bytes
        self._me = me
        self._stack = stack
        self._links = links
        self._outlets = links.outlets
        self._held = held
        self._inbox = inbox
        self._running = running
        self._observed = observed
        self._neighbours = neighbours
        self._clock = clock

    def is_overloaded(self) -> bool:
        """Whether publishers have to wait; to be asked by the one that publishes."""
        if self._running.is_over or self._running.is_stopping:
            return False
        if self._inbox.is_full and asyncio.current_task() in self.readers:
            return self._disk_is_behind()
        return self._others_wait()

    def _others_wait(self) -> bool:
        return (
            self.links_do_not_keep_up()
            or self._disk_is_behind()
            or self._stack.multicast.kept_bytes() > self._kept_bytes
            or self._inbox.is_full
        )

    def _disk_is_behind(self) -> bool:
        """The only thing that one waits for who takes messages, and has too many of them.

        While the inbox is full nothing is read from links: neighbours could not say that they
        follow, nor get rid of what they have to say. Whoever waited for that would wait for ever,
        since nobody else empties the inbox.
        """
        return self._held.bytes > self._held_bytes

    def links_do_not_keep_up(self) -> bool:
        """Whether more is to be sent than links take."""
        return (
            bool(self._outlets.congested)
            or self._outlets.queued_bytes > self._send_buffer
            or self._stack.multicast.waiting_bytes() > self._most_waiting
            or bool(self._stack.multicast.crowded_by(self._clock.now_us()))
        )

    async def wait_for_room(self) -> None:
        """Wait until links, disk and application keep up again."""
        takes_messages = asyncio.current_task() in self.readers
        self._waiting += 1
        self._waiting_readers += takes_messages
        try:
            while self.is_overloaded():
                self._relief.clear()
                await self._relief.wait()
        finally:
            self._waiting -= 1
            self._waiting_readers -= takes_messages

    def relieve(self) -> None:
        """Let publishers that wait look again."""
        self._relief.set()

    def end_turn(self) -> None:
        """Look at everything once a turn: publishers may go on, operators may have to act."""
        if self._running.is_over:
            return
        if self._waiting and self._may_somebody_go_on():
            self._relief.set()
        self._look_at_what_is_kept()

    def _may_somebody_go_on(self) -> bool:
        if self._running.is_stopping or not self._others_wait():
            return True
        return self._waiting_readers > 0 and self._inbox.is_full and not self._disk_is_behind()

    def reasons_to_wait(self, silent: list[NodeId]) -> list[str]:
        """In words what makes publishers wait now; `silent` neighbours have a link all the same."""
        reasons = [f"node {peer} does not take what is sent" for peer in self._links.slow_peers()]
        if self._stack.multicast.waiting_bytes() > self._most_waiting:
            whom = f"node {', '.join(map(str, silent))}" if silent else "a neighbour"
            reasons.append(f"{whom} does not acknowledge what was sent")
        crowded = self._stack.multicast.crowded_by(self._clock.now_us())
        if crowded:
            reasons.append(crowded)
        if self._stack.multicast.kept_bytes() > self._kept_bytes:
            reasons.append(f"too much is kept for {self._who_is_away()} ([limits] kept_bytes)")
        if self._held.bytes > self._held_bytes:
            reasons.append("the disk does not keep up ([limits] held_bytes)")
        if self._inbox.is_full:
            reasons.append("the application does not keep up ([limits] inbox_bytes)")
        return reasons

    def _look_at_what_is_kept(self) -> None:
        """Tell operators when half of what may be kept is: they have time to act."""
        kept = self._stack.multicast.kept_bytes()
        if not self._keeps_much and 2 * kept > self._kept_bytes:
            self._keeps_much = True
            meaning = (
                f"{kept} bytes are kept for {self._who_is_away()}; publishers will wait at "
                f"{self._kept_bytes} ([limits] kept_bytes)"
            )
            self._observed.tell("keeps_much", self._me, meaning)
        elif self._keeps_much and 4 * kept < self._kept_bytes:
            self._keeps_much = False
            meaning = "what was kept for neighbours has reached them"
            self._observed.tell("keeps_little", self._me, meaning)

    def _who_is_away(self) -> str:
        away = [str(peer) for peer in self._neighbours if self._links.current_link(peer) is None]
        return f"node {', '.join(away)}" if away else "neighbours that do not keep up"
