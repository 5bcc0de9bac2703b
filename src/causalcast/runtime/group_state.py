"""What entering a group does about the state of its application: take it, and give it to others."""

import asyncio
import inspect
from typing import Protocol, final

from causalcast.any_node import Restore, Save
from causalcast.core.ids import GroupId
from causalcast.errors import NodeError
from causalcast.runtime.host.newcomers import Desk, Newcomers


class OwnDesk(Desk, Protocol):
    """What a node knows of its own states, beside what a transfer needs."""

    def check_hands_over(self) -> None:
        """Raise NodeError where no state can be handed over."""

    def lacks(self, group: GroupId) -> bool:
        """Whether this node has joined a group, and not taken its state since."""

    def is_member(self, group: GroupId) -> bool:
        """Whether this node is in it."""


@final
class GroupState:
    """The state of one group, while somebody has entered it."""

    def __init__(
        self,
        newcomers: Newcomers,
        desk: OwnDesk,
        group: GroupId,
        snapshot: Save | None,
        restore: Restore | None,
    ) -> None:
        desk.check_hands_over()
        for given, name in ((snapshot, "snapshot"), (restore, "restore")):
            if given is not None and not callable(given):
                raise NodeError(f"{name} is a function, not {type(given).__name__}")
        self._newcomers = newcomers
        self._desk = desk
        self._group = group
        self._snapshot = snapshot
        self._restore = restore
        self._holds = False

    def begin(self) -> None:
        """Before the group is joined: nothing of it is handed over until its state is there."""
        is_new = not self._desk.is_member(self._group) or self._desk.lacks(self._group)
        if is_new and self._restore is not None and not self._holds:
            self._desk.hold(self._group)
            self._holds = True

    async def take(self) -> None:
        """Let the application have the state if this node lacks it; from now on it gives it."""
        if self._restore is not None:
            taking = self._newcomers.taking.setdefault(self._group, asyncio.Lock())
            async with taking:  # another handle may be entered at the same time
                if self._desk.lacks(self._group):
                    await self._restored(self._restore)
        self.end()
        if self._snapshot is not None:
            self._newcomers.savers[self._group] = self._snapshot

    async def _restored(self, restore: Restore) -> None:
        found = await self._newcomers.obtain(self._group)
        done = restore(found.state)
        if inspect.isawaitable(done):
            await done
        self._desk.check_alive()
        await self._desk.cover(self._group, found.position)

    def end(self) -> None:
        """Hand over again, whatever came of it."""
        if self._holds:
            self._holds = False
            self._desk.let_go(self._group)

    def leave(self) -> None:
        """The application gives its state to nobody any more."""
        if self._newcomers.savers.get(self._group) is self._snapshot:
            self._newcomers.savers.pop(self._group, None)


async def begin_empty(newcomers: Newcomers, desk: OwnDesk, group: GroupId) -> None:
    """Let what this node's application has be the state of a group that nobody else has."""
    desk.check_hands_over()
    if not desk.is_member(group):
        raise NodeError(f"this node is no member of {desk.name_of(group)!r}: join it first")
    taking = newcomers.taking.setdefault(group, asyncio.Lock())
    if taking.locked():
        raise NodeError(f"the state of {desk.name_of(group)!r} is being asked for: cancel that")
    if desk.lacks(group):
        await desk.cover(group, {})
