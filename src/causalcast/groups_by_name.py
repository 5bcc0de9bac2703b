"""What every kind of node does with names of groups: handles on them, typed or not, made or removed
while the cluster runs."""

from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import Any, Final, Generic, Protocol, TypeVar, overload

from causalcast.any_node import AnyGroup, Restore, Save, Since
from causalcast.errors import NodeError
from causalcast.typed_groups import OnUndecodable, TypedGroup, typed
from causalcast.typed_sync_groups import OnSyncUndecodable, SyncTypedGroup, typed_sync

OF_CLIENTS: Final = (
    "a client neither gives nor takes the state of a group: it goes on at its position "
    "(`node.position()`), and what was before it asks of an application at a node"
)

Handle = TypeVar("Handle", bound=AnyGroup)
SyncHandle = TypeVar("SyncHandle")
Value = TypeVar("Value")
Result = TypeVar("Result")


class GroupsByName(ABC, Generic[Handle]):
    """A node whose groups are used in an event loop."""

    @overload
    def group(
        self,
        name: str,
        since: Since = "now",
        *,
        snapshot: Save | None = None,
        restore: Restore | None = None,
    ) -> Handle: ...

    @overload
    def group(
        self,
        name: str,
        since: Since = "now",
        *,
        type: type[Value],
        undecodable: OnUndecodable | None = None,
        snapshot: Save | None = None,
        restore: Restore | None = None,
    ) -> TypedGroup[Value]: ...

    def group(
        self,
        name: str,
        since: Since = "now",
        *,
        type: type[Value] | None = None,  # noqa: A002 - as a reader says it
        undecodable: OnUndecodable | None = None,
        snapshot: Save | None = None,
        restore: Restore | None = None,
    ) -> Handle | TypedGroup[Value]:
        """A handle on a group. Entering it joins the group unless the node is a member; that of a
        client subscribes.

        `since` says what who comes late gets: what comes from "now" on, or before that also what is
        "kept", by the others where the protocol offers it, or by a client's node. Who was there
        before goes on where it was, whatever is said here.

        With a `type` (a dataclass, a msgspec.Struct or a pydantic model) messages carry values of
        it; what cannot be decoded goes to `undecodable`, or raises `Undecodable`.

        `restore` gets the state of the group when this node has joined late, before any message;
        `snapshot` makes that state for others who do, as bytes.
        """
        handle = self._handle(name, since)
        if snapshot is not None or restore is not None:
            self._keep_state(handle, snapshot, restore)
        return handle if type is None else typed(handle, type, undecodable)

    async def create_group(self, name: str) -> Handle:
        """Make a group while the cluster runs, with this node as a member; one that there is
        already is no error. Returns when that is durable at the node.

        All nodes hear of it before anything that is published to it. Who is a member from the
        beginning says `[groups]`, by prefixes: `"doc/*" = "*"`; others join as any group. A client
        needs a token that allows it.
        """
        await self._make_group(name)
        return self._handle(name, "now")

    @abstractmethod
    async def remove_group(self, name: str) -> None:
        """Let there be no such group any more, at any node: what nobody has handled there goes with
        it. Only groups that were made can be removed. Returns when that is durable at the node."""

    @abstractmethod
    def _handle(self, name: str, since: Since) -> Handle:
        """A handle on a group whose messages are bytes."""

    def _keep_state(self, handle: Handle, snapshot: Save | None, restore: Restore | None) -> None:
        """Let entering the handle take the state of its group, and give it to newcomers."""
        raise NodeError(OF_CLIENTS)

    @abstractmethod
    async def _make_group(self, name: str) -> None:
        """Return when there is such a group and this node is a member."""


class MakesGroups(Protocol):
    """The node in an event loop that threads use."""

    async def create_group(self, name: str) -> object: ...

    async def remove_group(self, name: str) -> None: ...


class SyncGroupsByName(ABC, Generic[SyncHandle]):
    """The same for threads: a node with another one, which lives in an event loop of its own."""

    @overload
    def group(
        self,
        name: str,
        since: Since = "now",
        *,
        snapshot: Save | None = None,
        restore: Restore | None = None,
    ) -> SyncHandle: ...

    @overload
    def group(
        self,
        name: str,
        since: Since = "now",
        *,
        type: type[Value],
        undecodable: OnSyncUndecodable | None = None,
        snapshot: Save | None = None,
        restore: Restore | None = None,
    ) -> SyncTypedGroup[Value]: ...

    def group(
        self,
        name: str,
        since: Since = "now",
        *,
        type: type[Value] | None = None,  # noqa: A002 - as a reader says it
        undecodable: OnSyncUndecodable | None = None,
        snapshot: Save | None = None,
        restore: Restore | None = None,
    ) -> SyncHandle | SyncTypedGroup[Value]:
        """A handle on a group, for any thread; see `Node.group`."""
        handle = self._handle(name, since)
        if snapshot is not None or restore is not None:
            self._keep_state(handle, snapshot, restore)
        return handle if type is None else typed_sync(handle, type, undecodable)

    def create_group(self, name: str) -> SyncHandle:
        """Make a group while the cluster runs; see `Node.create_group`."""
        self.run(self._in_loop().create_group(name))
        return self._handle(name, "now")

    def remove_group(self, name: str) -> None:
        """Let there be no such group any more; see `Node.remove_group`."""
        self.run(self._in_loop().remove_group(name))

    def _keep_state(
        self, handle: SyncHandle, snapshot: Save | None, restore: Restore | None
    ) -> None:
        """Let entering the handle take the state of its group, and give it to newcomers."""
        raise NodeError(OF_CLIENTS)

    @abstractmethod
    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Let the loop do `work`, and wait for its result."""

    @abstractmethod
    def _in_loop(self) -> MakesGroups:
        """The node in its loop. NodeError if there is none."""

    @abstractmethod
    def _handle(self, name: str, since: Since) -> SyncHandle:
        """A handle on a group whose messages are bytes."""
