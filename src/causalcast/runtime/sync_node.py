"""A node for programs without asyncio: the same node, in an event loop of a thread of its own.

    with causalcast.open_sync("node.toml") as node, node.group("chat") as chat:
        chat.publish(b"hello")
        for message in chat.messages(timeout=5):
            print(message.origin, message.payload)
            message.ack()

Calls may come from any thread, and return or raise what the asynchronous ones do. An interrupt
(Ctrl-C) or a timeout while waiting loses nothing: what was taken meanwhile goes back to its place.
"""

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from causalcast.any_node import Restore, Save, Since
from causalcast.core.ids import MessageId, NodeId
from causalcast.errors import CausalcastError, NodeError
from causalcast.forks import OwnProcess
from causalcast.groups_by_name import SyncGroupsByName
from causalcast.runtime.host.asking import Asked
from causalcast.runtime.node import Controlled, Group, Node, Receipt
from causalcast.runtime.node_config import NodeConfig
from causalcast.runtime.reader import Reader
from causalcast.runtime.received_message import ReceivedMessage
from causalcast.wrapped_message import WrappedMessage

Result = TypeVar("Result")
Given = TypeVar("Given")


class SyncMessage(WrappedMessage[ReceivedMessage]):
    """A message as the application gets it. It comes again after a restart until it is acked."""

    __slots__ = ("_node",)

    def __init__(self, node: "SyncNode", raw: ReceivedMessage) -> None:
        super().__init__(raw)
        self._node = node

    def ack(self) -> None:
        """Say that it is handled: after a restart it is not handed over again.

        Returns at once; the mark is written within 50 ms, or when the node is closed.
        """
        self._node.run_soon(self.raw.ack)

    def give_back(self) -> None:
        """Say that it could not be handled: it comes again next, in this life too."""
        if self._node.is_own_thread():
            self.raw.give_back()
        else:
            self._node.call(self.raw.give_back)


class SyncReceipt:
    """A publication that is durable at its origin."""

    def __init__(self, node: "SyncNode", receipt: Receipt) -> None:
        self._node = node
        self._receipt = receipt
        self.id: MessageId = receipt.id
        self.group = receipt.group

    def stable(self, timeout: float | None = None) -> None:
        """Wait until every member has delivered it, where the protocol can tell."""
        self._node.run(self._receipt.stable(timeout))

    def __repr__(self) -> str:
        return repr(self._receipt)


class _Taking:
    """Somebody in a thread waits for the next message, which the loop takes for him."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.messages: list[ReceivedMessage] = []
        self.is_answered = False
        self.error: CausalcastError | None = None
        self._lock = threading.Lock()
        self._nobody_waits = False

    async def take(self, group: Group | Reader, most: int, timeout: float | None) -> None:
        """In the loop: get the next messages, and put them back if nobody waits any more."""
        try:
            messages = await group.receive_many(most, timeout)
        except CausalcastError as error:
            self.error = error
            return
        with self._lock:
            self.is_answered = True
            if self._nobody_waits:
                _give_back(messages)
            else:
                self.messages = messages

    def give_up(self) -> list[ReceivedMessage]:
        """In the thread: wait no more. What came all the same is returned."""
        with self._lock:
            self._nobody_waits = True
            return self.messages


def _give_back(messages: list[ReceivedMessage]) -> None:
    for message in reversed(messages):  # what is given back comes next
        message.give_back()


class SyncReading:
    """What threads read from: a group, or a reader with a name."""

    def __init__(self, node: "SyncNode", source: Group | Reader) -> None:
        self._node = node
        self._source = source

    def receive(self, timeout: float | None = None) -> SyncMessage | None:
        """The next message; None if none has come after `timeout` seconds.

        With a timeout of 0 that is what waits already, or None.
        """
        messages = self.receive_many(1, timeout)
        return messages[0] if messages else None

    def receive_many(self, most: int = 1000, timeout: float | None = None) -> list[SyncMessage]:
        """The next messages: what waits, but at most `most`; one if none waits yet. Empty if none
        has come after `timeout` seconds."""
        taking = _Taking()
        task = self._node.start(taking.take(self._source, most, timeout))
        task.add_done_callback(lambda _: taking.over.set())  # also if it never began
        try:
            taking.over.wait()
        except BaseException:  # an interrupt
            late = taking.give_up()
            task.cancel()
            if late:
                self._node.call(lambda: _give_back(late))
            raise
        if not taking.is_answered:
            raise taking.error or NodeError("the node was stopped")
        return [SyncMessage(self._node, message) for message in taking.messages]

    def ack_many(self, messages: Iterable[SyncMessage], durable: bool = False) -> None:
        """Acknowledge all of them; with `durable` it returns when all marks are on disk."""
        self._node.run(self._source.ack_many([each.raw for each in messages], durable))

    def messages(self, timeout: float | None = None) -> Iterator[SyncMessage]:
        """One message after the other, until none has come for `timeout` seconds."""
        while (message := self.receive(timeout)) is not None:
            yield message

    def batches(
        self, most: int = 1000, timeout: float | None = None
    ) -> Iterator[list[SyncMessage]]:
        """All messages, as many together as wait, but at most `most`; ends when none has come for
        `timeout` seconds."""
        while messages := self.receive_many(most, timeout):
            yield messages

    def __iter__(self) -> Iterator[SyncMessage]:
        return self.messages()


class SyncReader(SyncReading):
    """A reader with a name; see `causalcast.Reader`."""

    def __init__(self, node: "SyncNode", reader: Reader) -> None:
        super().__init__(node, reader)
        self.name = reader.name
        self.group = reader.group


class SyncGroup(SyncReading):
    """A group as one node sees it: publish to it, and iterate over what it delivers."""

    def __init__(self, node: "SyncNode", group: Group) -> None:
        super().__init__(node, group)
        self.name = group.name
        self._group = group

    def __enter__(self) -> "SyncGroup":
        self._node.run(self._group.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(NodeError):  # a node that has stopped is in no group
            self._node.run(self._group.__aexit__(None, None, None))

    def keep_state(self, snapshot: Save | None, restore: Restore | None) -> None:
        """Let entering take the state of the group, and give it to others; see `Node.group`. Both
        are called in threads of their own: the node does not wait for them."""
        self._node.call(
            lambda: self._group.keep_state(_saved_in_thread(snapshot), _in_thread(restore))
        )

    def begin_empty(self) -> None:
        """Say that nobody has the state of this group; see `Group.begin_empty`."""
        self._node.run(self._group.begin_empty())

    def ask(self, node: int, body: bytes, timeout: float | None = None) -> bytes:
        """What the application of a neighbour answers to `body`; see `Group.ask`."""
        return self._node.run(self._group.ask(node, body, timeout))

    def on_ask(self, handler: Callable[[Asked], bytes] | None) -> None:
        """Let `handler` answer, with bytes, what other nodes ask in this group; None: nobody. It is
        called in threads of its own."""
        self._node.call(lambda: self._group.on_ask(_in_thread(handler)))

    def join(self) -> bool:
        """Become a member, now and after restarts, or ask to; false if the node is or does so."""
        return self._node.call(self._group.join)

    def is_member(self) -> bool:
        """Whether the node is in the group now."""
        return self._node.call(self._group.is_member)

    def leave(self) -> bool:
        """Neither be a member nor ask to be one any more, not after restarts either; false if the
        node did neither."""
        return self._node.call(self._group.leave)

    def publish(
        self, body: bytes, headers: Mapping[str, str] | None = None, content_type: str = ""
    ) -> SyncReceipt:
        """Publish `body`; returns when it is durable here, and so will reach the others."""
        publishing = self._group.publish(body, headers, content_type)
        return SyncReceipt(self._node, self._node.run(publishing))

    def publish_many(
        self,
        bodies: Sequence[bytes],
        headers: Mapping[str, str] | None = None,
        content_type: str = "",
    ) -> list[SyncReceipt]:
        """Publish all of them in this order; returns when all are durable here."""
        receipts = self._node.run(self._group.publish_many(bodies, headers, content_type))
        return [SyncReceipt(self._node, receipt) for receipt in receipts]

    def subscribe(self, name: str, since: Since = "now") -> SyncReader:
        """The reader `name`, with acknowledgements of its own; see `Group.subscribe`."""
        return SyncReader(self._node, self._node.run(self._group.subscribe(name, since)))

    def unsubscribe(self, name: str) -> None:
        """End the reader `name`: nothing is kept for it any more."""
        self._node.run(self._group.unsubscribe(name))

    def set_plain_reader(self, wanted: bool) -> None:
        """Whether the group has a reader without a name; see `Group.set_plain_reader`."""
        self._node.run(self._group.set_plain_reader(wanted))


def _saved_in_thread(save: Save | None) -> Save | None:
    async def saved(save: Save) -> bytes:
        return await asyncio.to_thread(save)  # type: ignore[arg-type]  # it is looked at later

    return None if save is None else lambda: saved(save)


def _in_thread(
    work: Callable[[Given], Result] | None,
) -> Callable[[Given], Awaitable[Result]] | None:
    return None if work is None else lambda given: asyncio.to_thread(work, given)


class SyncNode(SyncGroupsByName[SyncGroup]):
    """One running node of a cluster; a context manager."""

    def __init__(self, config: NodeConfig, control: Controlled | None = None) -> None:
        self.config = config
        self._node = Node(config, control=control)
        self._process = OwnProcess()
        self._door = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None  # None: takes no work
        self._stop = asyncio.Event()
        self._started: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(
            target=self._run_loop, name=f"causalcast node {config.node}", daemon=True
        )

    @property
    def id(self) -> NodeId:
        """The node's id."""
        return self.config.node

    def __enter__(self) -> "SyncNode":
        if self._thread.ident is not None:
            raise NodeError("this node was started already; open it anew")
        self._thread.start()
        self._started.result()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave in good order; everything durable stays. Raises what had stopped the node. In
        a process that was forked off there is nothing to close."""
        if not self._process.is_this:
            return
        with self._door:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _handle(self, name: str, since: Since) -> SyncGroup:
        return SyncGroup(self, self._node.group(name, since))

    def _keep_state(
        self, handle: SyncGroup, snapshot: Save | None, restore: Restore | None
    ) -> None:
        handle.keep_state(snapshot, restore)

    def presence(self) -> dict[NodeId, str]:
        """Who is there, as far as this node knows; see `Node.presence`."""
        return self.call(self._node.presence)

    def _in_loop(self) -> Node:
        return self._node

    def groups(self) -> list[str]:
        """All groups that there are, as far as this node has heard."""
        return self.call(self._node.groups)

    def on_message(self, callback: Callable[[SyncMessage], object], *groups: str) -> None:
        """Call `callback` with every message of these groups from now on, in one causal order.

        It is called in the node's own thread, one message after the other, and should be short:
        the node waits for it. What it returns from is acknowledged, unless it gave it back; what it
        fails at is not, and is logged. Without names: all groups that the node is in now.
        """

        def hand_over(message: ReceivedMessage) -> None:
            callback(SyncMessage(self, message))

        self.call(lambda: self._node.on_message(hand_over, *groups))

    def explain(self, message: MessageId) -> list[MessageId]:
        """What a message that is held here waits for; empty if it is not held."""
        return self.call(lambda: self._node.explain(message))

    def reasons(self, message: MessageId) -> list[str]:
        """In words what a message here waits for."""
        return self.call(lambda: self._node.reasons(message))

    def preview(self, words: str) -> list[str]:
        """In words what may be lost by a command; NodeError if it cannot be carried out."""
        return self.call(lambda: self._node.preview(words))

    def command(self, words: str) -> None:
        """Tell the protocol to do something that its SPEC lists, such as "gone 3" of `locamu`."""
        self.call(lambda: self._node.command(words))

    def status(self) -> dict[str, Any]:
        """What this node is doing, in numbers."""
        return self.call(self._node.status)

    def metrics(self) -> str:
        """The status in the text format that Prometheus reads."""
        return self.call(self._node.metrics)

    # Between the threads

    def is_own_thread(self) -> bool:
        """Whether this is called by the node itself, from a callback."""
        return threading.current_thread() is self._thread

    def start(self, work: Coroutine[Any, Any, Result]) -> "concurrent.futures.Future[Result]":
        """Let the loop begin with `work`."""
        if not self._process.is_this:
            work.close()
        self._process.check()
        with self._door:
            if self._loop is not None:
                return asyncio.run_coroutine_threadsafe(work, self._loop)
        work.close()
        raise NodeError("the node is not running; use `with causalcast.open_sync(...)`")

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Let the loop do `work`, and wait for its result."""
        if self.is_own_thread():  # it would wait for itself
            work.close()
            raise NodeError("a callback of the node cannot wait for it; use another thread")
        future = self.start(work)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise NodeError("the node was stopped") from None

    def run_soon(self, make_work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Let the loop do something, after what it was asked for before; nobody waits for it."""
        self.start(make_work())

    def call(self, work: Callable[[], Result]) -> Result:
        """Let the loop call `work`, and wait for its result."""

        async def called() -> Result:
            return work()

        return self.run(called())

    def _run_loop(self) -> None:
        try:
            asyncio.run(self._live())
        except BaseException as error:
            if self._started.done():
                self._failure = error
            else:
                self._started.set_exception(error)

    async def _live(self) -> None:
        async with self._node:
            self._loop = asyncio.get_running_loop()
            self._started.set_result(None)
            stopped = asyncio.ensure_future(self._node.wait_stopped())
            asked = asyncio.ensure_future(self._stop.wait())
            await asyncio.wait([stopped, asked], return_when=asyncio.FIRST_COMPLETED)
            with self._door:  # from here on no work begins; what has begun is ended by the stop
                self._loop = None
            asked.cancel()
            if stopped.done():
                stopped.result()  # raises what stopped it
            stopped.cancel()
