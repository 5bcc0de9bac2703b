"""The groups that the application is in, joins and leaves."""

import asyncio
from collections.abc import Callable

from causalcast.core.ids import GroupId
from causalcast.core.made_groups import FIRST_MADE
from causalcast.core.stack import Stack
from causalcast.errors import NodeError
from causalcast.runtime.host.group_directory import GroupDirectory
from causalcast.runtime.host.rows import Rows
from causalcast.runtime.host.running import Running
from causalcast.runtime.host.steps import Steps
from causalcast.runtime.node_trace import LEAVE


class Memberships:
    """What an application may do with groups, beside publishing."""

    def __init__(
        self,
        stack: Stack,
        steps: Steps,
        rows: Rows,
        running: Running,
        directory: GroupDirectory,
        news: asyncio.Event,  # who waits to be a member of a group looks again
        may_subscribe: Callable[[GroupId], bool],
        joins: Callable[[GroupId], None],  # hears of it before the node is a member
    ) -> None:
        self._stack = stack
        self._steps = steps
        self._rows = rows
        self._running = running
        self._directory = directory
        self._news = news
        self._may_subscribe = may_subscribe
        self._joins = joins

    def join(self, group: GroupId) -> None:
        """Become a member of `group`, or ask to become one where somebody has to admit it."""
        self._running.check_open()
        name = self._directory.name_of(group)
        if group >= FIRST_MADE:
            reason = self._directory.refusal(group)
            if reason:
                raise NodeError(f"cannot join {name!r}: {reason}")
            may_subscribe = self._directory.may_subscribe(group)
        else:
            may_subscribe = self._may_subscribe(group)
        if not may_subscribe:
            raise NodeError(
                f"no right to be a member of {name!r}; list node {self._stack.me} under subscribe "
                f"in [rights.{name}] of all nodes"
            )
        reason = self._stack.multicast.refusal(group, joining=True)
        if reason:
            raise NodeError(f"cannot join {name!r} now: {reason}")
        self._joins(group)
        self._steps.take(lambda: self._stack.join_group(group, self._steps.out))

    def has(self, group: GroupId) -> bool:
        """Whether this node is in `group`."""
        return group in self._stack.groups

    async def wait_for(self, group: GroupId) -> None:
        """Wait until this node is a member of a group that it has asked to join."""
        while not self.has(group):
            self._running.check_alive()
            if not self._stack.is_joining(group):
                reason = self._stack.multicast.refusal(group, joining=True) or "it was withdrawn"
                name = self._directory.name_of(group)
                raise NodeError(f"the join of {name!r} came to nothing: {reason}")
            self._news.clear()
            await self._news.wait()

    def leave(self, group: GroupId) -> None:
        """Be a member of `group` no longer, or ask no longer to become one."""
        self._running.check_open()
        self._news.set()
        steps = self._steps
        if not self.has(group):
            steps.take(lambda: self._stack.leave_group(group, steps.out))
            return
        steps.start()
        row = (steps.state.at_us, LEAVE, -1, group)
        steps.finish(
            lambda: self._stack.leave_group(group, steps.out),
            left=group,
            last=(self._rows.add, row),
        )
