"""What a program may use of a node, whichever kind of node it is.

    async def application(node: causalcast.AnyNode) -> None:
        async with node.group("chat") as chat:
            await chat.publish(b"hello")
            async for message in chat:
                print(message.origin, message.payload)
                await message.ack()

A real node (`causalcast.open`), one of the test kit (`causalcast.testing.VirtualNode`) and a node
elsewhere (`causalcast.connect`) all fit. Each of them can do more than is said here. A client keeps
its own position, so its acknowledgements are not on the disk of a node (`ack(durable=True)`), and
it cannot tell when all members have a message (`Receipt.stable`). It has to enter a group before
it reads it.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar, overload

from causalcast.core.ids import MessageId, NodeId

if TYPE_CHECKING:
    from causalcast.runtime.host.asking import OnAsk
    from causalcast.typed_groups import OnUndecodable, TypedGroup

Value = TypeVar("Value")

# Makes the state of a group as bytes for a newcomer, and makes it anew from such bytes.
Save = Callable[[], bytes | Awaitable[bytes]]
Restore = Callable[[bytes], object]

# What somebody gets who comes late: what is published from now on, or also what is kept.
Since = Literal["now", "kept"]


class AnyReceipt(Protocol):
    """A publication that is durable."""

    @property
    def id(self) -> MessageId:
        """Origin and number in one."""

    @property
    def group(self) -> str:
        """The name of its group."""


class MessageFields(Protocol):
    """What can be known of a message."""

    @property
    def id(self) -> MessageId:
        """Origin and number in one."""

    @property
    def group(self) -> str:
        """The name of its group."""

    @property
    def payload(self) -> bytes:
        """What was published."""

    @property
    def origin(self) -> NodeId:
        """The node that published it."""

    @property
    def number(self) -> int:
        """Which of its origin's publications it is."""

    @property
    def published_at(self) -> datetime | None:
        """When it was published, by its publisher's clock; None where it does not say."""

    @property
    def headers(self) -> Mapping[str, str]:
        """What its publisher says of it, by name."""

    @property
    def content_type(self) -> str:
        """What kind of payload it is, in its publisher's words; empty if it does not say."""

    @property
    def is_given_back(self) -> bool:
        """Whether it was given back."""


class AnyMessage(MessageFields, Protocol):
    """A message as the program gets it. It comes again until it is acknowledged."""

    async def ack(self) -> None:
        """Say that it is handled."""

    def give_back(self) -> None:
        """Say that it could not be handled: it comes again next."""


class AnyReader(Protocol):
    """Takes messages, one at a time or some together; cancelling any of it loses none."""

    def __aiter__(self) -> AsyncIterator[AnyMessage]:
        """All messages from now on."""

    async def __anext__(self) -> AnyMessage:
        """The next message; cancelling this loses none."""

    async def receive(self, timeout: float | None = None) -> AnyMessage | None:
        """The next message; None if none has come after `timeout` seconds."""

    async def receive_many(
        self, most: int = 1000, timeout: float | None = None
    ) -> Sequence[AnyMessage]:
        """The next messages: what waits, but at most `most`; one if none waits yet."""

    def batches(self, most: int = 1000) -> AsyncIterator[Sequence[AnyMessage]]:
        """All messages from now on, as many together as wait, but at most `most`."""

    async def ack_many(self, messages: Iterable[AnyMessage]) -> None:
        """Acknowledge all of them."""

    def on_message(self, callback: Callable[[AnyMessage], object]) -> None:
        """Call `callback` with every message from now on, instead of iterating."""


class AnyGroup(AnyReader, Protocol):
    """A group: publish to it, and iterate over what it delivers.

    It has one plain reader at a time. Those that `subscribe` under a name get all of it, too.
    """

    @property
    def name(self) -> str:
        """As in the configuration."""

    async def __aenter__(self) -> "AnyGroup":
        """Be a member, or subscribe; returns when that is so."""

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None:
        """Leave, if entering had joined it."""

    async def publish(
        self, body: bytes, headers: Mapping[str, str] | None = None, content_type: str = ""
    ) -> AnyReceipt:
        """Publish `body`; returns when it is durable at the node. The rest travels with it."""

    async def publish_many(
        self,
        bodies: Sequence[bytes],
        headers: Mapping[str, str] | None = None,
        content_type: str = "",
    ) -> Sequence[AnyReceipt]:
        """Publish all of them in this order; returns when all are durable. The rest travels with
        each of them."""

    async def subscribe(self, name: str, since: Since = "now") -> AnyReader:
        """The reader `name`, with acknowledgements of its own, which goes on where it was. A client
        cannot have one: every connection is a reader by itself."""

    async def unsubscribe(self, name: str) -> None:
        """End the reader `name`: nothing is kept for it any more."""

    async def ask(self, node: int, body: bytes, timeout: float | None = None) -> bytes:
        """What the application of a neighbour answers to `body`. A client cannot ask."""

    def on_ask(self, handler: "OnAsk | None") -> None:
        """Let `handler` answer what other nodes ask in this group; None: nobody."""


class AnyNode(Protocol):
    """A real node, one of the test kit, or a node elsewhere."""

    async def create_group(self, name: str) -> AnyGroup:
        """Make a group while the cluster runs; one that there is already is no error."""

    async def remove_group(self, name: str) -> None:
        """Let there be no such group any more, at any node. Only those that were made go."""

    @property
    def id(self) -> NodeId:
        """The node's id; of a client, that of the node it is connected to now."""

    @overload
    def group(
        self,
        name: str,
        since: Since = "now",
        *,
        snapshot: Save | None = None,
        restore: Restore | None = None,
    ) -> AnyGroup: ...

    @overload
    def group(
        self,
        name: str,
        since: Since = "now",
        *,
        type: type[Value],
        undecodable: "OnUndecodable | None" = None,
        snapshot: Save | None = None,
        restore: Restore | None = None,
    ) -> "TypedGroup[Value]":
        """A handle on a group; enter it. With a `type` messages carry values of it."""
