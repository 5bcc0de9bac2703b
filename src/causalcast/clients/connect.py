"""`causalcast.connect`: a node of a cluster used from elsewhere, with the interface of `Group`.

    async with causalcast.connect("wss://10.0.0.1:7500", token) as node:
        async with node.group("chat") as chat:
            await chat.publish(b"hello")
            async for message in chat:
                print(message.origin, message.payload)
                await message.ack()

A connection that breaks is made again, to the same node or to another of those that are given. The
client goes on where it was: it says what it has handled, and what it has seen or published, and
the node waits until it has all of that. A publication without an answer is asked for again, with
its key, at the node that may have made it; no other node can know whether it was made.
"""

import asyncio
import collections
import contextlib
import copy
import itertools
import logging
import secrets
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, final

from cryptography.hazmat.primitives.serialization import Encoding
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as open_socket
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.protocol import State
from websockets.typing import Subprotocol

from causalcast.clients import protocol
from causalcast.clients.protocol import (
    Ack,
    Delivery,
    Done,
    GroupList,
    Hello,
    ListGroups,
    Position,
    Presence,
    Present,
    Publish,
    Published,
    Refusal,
    Reply,
    Since,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Welcome,
    body_of,
    decode_reply,
    encode,
    encode_with_body,
    id_named,
    name_of,
    note,
)
from causalcast.clients.unhandled import Unhandled
from causalcast.core.ids import NO_MESSAGE, MessageId, NodeId, number_of, origin_of
from causalcast.errors import ConfigError, Gap, NodeError, Unanswered, WireError
from causalcast.limits import Limit, Span
from causalcast.runtime.security.client_token import authorities_in, cluster_in
from causalcast.runtime.security.identity import NODE, Passport, read_certificate

log = logging.getLogger(__name__)

FIRST_PAUSE: Final = Span(
    "clients.connect.first_pause",
    0.05,
    least=0.001,
    most=60.0,
    about="after all nodes were tried in vain, before they are tried again; doubled each time",
)
LONGEST_PAUSE: Final = Span(
    "clients.connect.longest_pause",
    2.0,
    least=0.001,
    most=600.0,
    about="the same, at most",
)
STAY: Final = Span(
    "clients.connect.stay",
    10.0,
    least=0.01,
    most=600.0,
    about="how long a client waits for the node that may have made its publications",
)
OPEN_WITHIN: Final = Span(
    "clients.connect.open_within",
    10.0,
    least=0.05,
    most=600.0,
    about="from dialling to the welcome of a node",
)
PENDING: Final = Limit(
    "clients.connect.pending",
    256,
    least=1,
    most=1 << 10,
    unit="messages",
    about="publications of a client that wait for their answers; then the next one waits",
)
# What a node says of a client and says again the next time: to try again is of no use.
FINAL: Final = (protocol.NO_TOKEN, protocol.BAD_FRAME)


def connect(
    url: str | Sequence[str],
    token: str = "",
    *,
    name: str = "",
    position: Mapping[str, Any] | None = None,
    tls: ssl.SSLContext | None = None,
) -> "RemoteNode":
    """A node at a door, or one of several; enter it to connect.

    `token`: of `causalcast keys client`. `name`: who this is, where there are no tokens. `position`
    is what an earlier client returned from `position()`: this one goes on there. `tls`: how to know
    a node that has another certificate than that of its identity, as from a public authority.
    """
    urls = [url] if isinstance(url, str) else list(url)
    for one in urls:
        if not one.startswith(("ws://", "wss://")):
            raise ConfigError(f"{one!r}: expected the address of a door, such as wss://host:7500")
    if not urls:
        raise ConfigError("expected at least one address of a door, such as wss://host:7500")
    return RemoteNode(urls, token, name, position, tls)


@final
class RemoteReceipt:
    """A publication that is durable at the node."""

    __slots__ = ("group", "id")

    def __init__(self, message: MessageId, group: str) -> None:
        self.id = message
        self.group = group

    def __repr__(self) -> str:
        return f"<receipt {name_of(self.id)} in {self.group!r}>"


@final
class RemoteMessage:
    """A message as the client gets it. It comes again, in another life too, until it is acked."""

    __slots__ = ("_group", "group", "id", "payload")

    def __init__(self, group: "RemoteGroup", message: MessageId, payload: bytes) -> None:
        self._group = group
        self.group = group.name
        self.id = message
        self.payload = payload

    @property
    def origin(self) -> NodeId:
        """Which node published it."""
        return origin_of(self.id)

    @property
    def number(self) -> int:
        """Which of its origin's publications it is."""
        return number_of(self.id)

    async def ack(self) -> None:
        """Say that it is handled: the client's position is behind it."""
        self._group.handled(self.id)

    def __repr__(self) -> str:
        return f"<message {name_of(self.id)} in {self.group!r}: {self.payload[:40]!r}>"


class Line:
    """Messages that came, in the order of the node, for one reader."""

    def __init__(self, names: str) -> None:
        self._names = names
        self._waiting: collections.deque[RemoteMessage] = collections.deque()
        self._arrived = asyncio.Event()
        self._is_read = False
        self._failure: NodeError | None = None

    def add(self, message: RemoteMessage) -> None:
        """One more came."""
        self._waiting.append(message)
        self._arrived.set()

    def put_back(self, messages: Sequence[RemoteMessage]) -> None:
        """Nobody has handled these: they come next."""
        self._waiting.extendleft(reversed(messages))
        self._arrived.set()

    def fail(self, failure: NodeError) -> None:
        """Nothing comes any more."""
        self._failure = failure
        self._arrived.set()

    async def __aiter__(self) -> AsyncIterator[RemoteMessage]:
        """All messages from where the client is."""
        while True:
            yield await anext(self)

    async def __anext__(self) -> RemoteMessage:
        """The next message; cancelling this loses none."""
        while True:
            message = self._take()
            if message is not None:
                return message
            if self._is_read:
                raise NodeError(
                    f"{self._names} is read already: what one reader takes no other gets, so a "
                    "group of a client has one at a time (connect once more for another)"
                )
            self._arrived.clear()
            self._is_read = True
            try:
                await self._arrived.wait()
            finally:
                self._is_read = False

    async def receive(self, timeout: float | None = None) -> RemoteMessage | None:
        """The next message; None if none has come after `timeout` seconds."""
        message = self._take()
        if message is None and (timeout is None or timeout > 0):
            try:
                async with asyncio.timeout(timeout):
                    message = await anext(self)
            except TimeoutError:
                return None
        return message

    async def receive_many(
        self, most: int = 1000, timeout: float | None = None
    ) -> list[RemoteMessage]:
        """The next messages: what waits, but at most `most`; one if none waits yet. Empty if none
        has come after `timeout` seconds."""
        if most < 1:
            raise NodeError(f"most = {most}: expected at least 1")
        found: list[RemoteMessage] = []
        message = await self.receive(timeout)
        while message is not None:
            found.append(message)
            message = self._take() if len(found) < most else None
        return found

    async def ack_many(self, messages: Iterable[RemoteMessage]) -> None:
        """Acknowledge all of them."""
        for message in messages:
            await message.ack()

    def _take(self) -> RemoteMessage | None:
        if self._waiting:
            return self._waiting.popleft()
        if self._failure is not None:
            raise self._failure
        return None


@final
class RemoteGroup(Line):
    """A group at a node elsewhere. Entering it subscribes, leaving it ends that."""

    def __init__(
        self, node: "RemoteNode", name: str, since: Since, line: Line | None = None
    ) -> None:
        """`line`: where its messages go, if it is read together with others."""
        super().__init__(repr(name))
        self.name = name
        self.since: Since = since
        self._node = node
        self._line = line or self
        self._unhandled = Unhandled()

    async def __aenter__(self) -> "RemoteGroup":
        await self._node.subscribe([self])
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._node.unsubscribe([self])

    async def publish(self, body: bytes, key: str = "") -> RemoteReceipt:
        """Publish `body`; returns when it is durable at a node.

        `key`: the same publication has the same key, in another life of the program too. Unanswered
        if the node that was asked is gone: it may have been published, or not.
        """
        if not isinstance(body, bytes):
            raise NodeError(f"a body is bytes, not {type(body).__name__}")
        return RemoteReceipt(await self._node.publish(self.name, body, key), self.name)

    async def publish_many(self, bodies: Sequence[bytes]) -> list[RemoteReceipt]:
        """Publish all of them in this order; returns when all are durable."""
        tasks = [asyncio.ensure_future(self.publish(body)) for body in bodies]
        try:
            return [await task for task in tasks]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # For the connection

    def handled(self, message: MessageId) -> None:
        """The application has handled a message: the client's position is behind it."""
        last = self._unhandled.handled(message)
        if last != NO_MESSAGE:
            note(self._node.seen, self.name, last)
        self._node.tell_handled(message)

    def arrived(self, message: MessageId, body: bytes) -> None:
        """A message came; one that the application has or had is told of, and not given again."""
        seen = self._node.seen.get(self.name, {})
        if number_of(message) <= seen.get(origin_of(message), 0):
            self._node.tell_handled(message)
            return
        is_new, is_handled = self._unhandled.arrived(message)
        if is_new:
            self._line.add(RemoteMessage(self, message, body))
        elif is_handled:
            self._node.tell_handled(message)

    def fail(self, failure: NodeError) -> None:
        super().fail(failure)
        if self._line is not self:
            self._line.fail(failure)


@final
class RemoteGroups(Line):
    """Several groups, read together: one queue, in one causal order."""

    def __init__(self, node: "RemoteNode", names: Sequence[str], since: Since) -> None:
        super().__init__(", ".join(map(repr, names)))
        self._node = node
        self._members = [RemoteGroup(node, name, since, self) for name in names]

    async def __aenter__(self) -> "RemoteGroups":
        await self._node.subscribe(self._members)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._node.unsubscribe(self._members)


class _Asked:
    """A request without an answer."""

    __slots__ = ("answer", "frame", "node", "publication", "sent_over")

    def __init__(self, frame: str | bytes, publication: bool) -> None:
        self.frame = frame
        self.publication = publication
        self.answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self.node: int | None = None  # which it was sent to
        self.sent_over: ClientConnection | None = None


class RemoteNode:
    """The client's end: one connection at a time, and all that outlives it.

    Large because whoever connects anew needs all of it: positions, groups, requests.
    """

    def __init__(
        self,
        urls: list[str],
        token: str,
        name: str,
        position: Mapping[str, Any] | None,
        tls: ssl.SSLContext | None,
    ) -> None:
        self._urls = urls
        self._token = token
        self._name = name
        self._tls = tls
        self.seen: Position = {}  # handled, without a gap
        self._past: Position = {}  # seen or published
        self._log = ""  # whose positions `seen` has
        if position is not None:
            self._restore(position)
        self._groups: dict[str, RemoteGroup] = {}
        self._asked: dict[int, _Asked] = {}
        self._numbers = itertools.count(1)
        self._key = secrets.token_hex(12)
        self._room = asyncio.Semaphore(PENDING.value)
        self._socket: ClientConnection | None = None
        self._welcome: Welcome | None = None
        self._connected = asyncio.Event()
        self._handled: list[str] = []  # not told yet
        self._telling: asyncio.Future[None] | None = None
        self._read_again_by = 0  # which request
        self._reading_again: asyncio.Future[None] | None = None
        self._running: asyncio.Task[None] | None = None
        self._at = 0  # which address
        self.failure: NodeError | None = None
        self.reconnections = -1

    async def __aenter__(self) -> "RemoteNode":
        self._running = asyncio.create_task(self._run())
        waiting = asyncio.create_task(self._connected.wait())
        try:
            await asyncio.wait([self._running, waiting], return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            await self.close()
            raise
        finally:
            waiting.cancel()
        if self.failure is not None:
            failure = self.failure
            await self.close()
            raise failure
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Hang up; what was acknowledged is told first."""
        self._flush()
        if self._socket is not None:
            with contextlib.suppress(ConnectionClosed, TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._tell()
                    await self._socket.close()
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        self._fail(self.failure or NodeError("the connection was closed"))

    @property
    def id(self) -> NodeId:
        """The node that this is connected to now, or was last."""
        if self._welcome is None:
            raise NodeError("not connected; use `async with causalcast.connect(...)`")
        return NodeId(self._welcome.node)

    def position(self) -> dict[str, Any]:
        """Where this client is, as plain data: `connect(…, position=…)` goes on there, in another
        process and at another node."""
        return copy.deepcopy({"seen": self.seen, "past": self._past, "log": self._log})

    def group(self, name: str, since: Since = "now") -> RemoteGroup:
        """A handle on a group; entering it subscribes. `since` is for the first time: what comes
        from "now" on, or also what the node has "kept". After that the client goes on."""
        return self._groups.get(name) or RemoteGroup(self, name, since)

    def together(self, *names: str, since: Since = "now") -> RemoteGroups:
        """Several groups with one queue: what is read there is never an effect before its cause,
        whatever groups they were published to. Publish by `group(name)`."""
        return RemoteGroups(self, names, since)

    async def groups(self) -> dict[str, list[str]]:
        """Which groups this client may "publish" to and "subscribe" to."""
        reply = await self._ask(ListGroups(next(self._numbers)))
        assert isinstance(reply, GroupList)
        return {"publish": reply.publish, "subscribe": reply.subscribe}

    async def presence(self) -> dict[str, Any]:
        """The node, its neighbours that are "linked", and who of them is "suspected"."""
        reply = await self._ask(Presence(next(self._numbers)))
        assert isinstance(reply, Present)
        return {"node": reply.node, "linked": reply.linked, "suspected": reply.suspected}

    # What groups do

    async def publish(self, group: str, body: bytes, key: str) -> MessageId:
        """As `RemoteGroup.publish`."""
        number = next(self._numbers)
        request = Publish(number, group, key or f"{self._key}-{number}")
        async with self._room:
            reply = await self._send(number, _Asked(encode_with_body(request, body), True))
        assert isinstance(reply, Published)
        message = id_named(reply.message)
        note(self._past, group, message)
        return message

    async def subscribe(self, groups: list[RemoteGroup]) -> None:
        """Messages of these groups come from now on, in one order."""
        for group in groups:
            if group.name in self._groups:
                raise NodeError(
                    f"{group.name!r} is read already: what one reader takes no other gets, so a "
                    "group of a client has one at a time (connect once more for another)"
                )
        self._groups |= {group.name: group for group in groups}
        try:
            reply = await self._ask(self._subscription(groups))
        except BaseException as error:
            for group in groups:
                self._groups.pop(group.name, None)
            if isinstance(error, Gap):
                self.seen.pop(error.group, None)  # who enters it again begins anew
            raise
        assert isinstance(reply, Subscribed)
        self._note_subscribed(reply)

    async def unsubscribe(self, groups: list[RemoteGroup]) -> None:
        """No more messages of these groups; the position stays."""
        for group in groups:
            self._groups.pop(group.name, None)
        if self.failure is None and self._socket is not None:
            names = [group.name for group in groups]
            with contextlib.suppress(NodeError):
                await self._ask(Unsubscribe(next(self._numbers), names))

    def tell_handled(self, message: MessageId) -> None:
        """Let the node know soon, with others."""
        if not self._handled:
            asyncio.get_running_loop().call_soon(self._flush)
        self._handled.append(name_of(message))

    def _flush(self) -> None:
        if self._handled and self._socket is not None:
            self._telling = asyncio.ensure_future(self._tell())

    async def _tell(self) -> None:
        if self._handled and self._socket is not None:
            told, self._handled = self._handled, []
            with contextlib.suppress(ConnectionClosed):  # the next node is told the position
                await self._socket.send(encode(Ack(told)))

    # Requests

    async def _ask(self, request: ListGroups | Presence | Subscribe | Unsubscribe) -> Reply:
        return await self._send(request.id, _Asked(encode(request), False))

    async def _send(self, number: int, asked: _Asked) -> Reply:
        if self._running is None:
            raise NodeError("not connected; use `async with causalcast.connect(...)`")
        if self.failure is not None:
            raise self.failure
        self._asked[number] = asked
        try:
            if self._socket is not None and self._connected.is_set():
                await self._send_over(self._socket, asked)
            return await asked.answer
        finally:
            self._asked.pop(number, None)

    async def _send_over(self, socket: ClientConnection, asked: _Asked) -> None:
        assert self._welcome is not None
        asked.sent_over = socket
        if socket.state is not State.OPEN:
            return  # it has not left, and is asked for over the next connection
        asked.node = self._welcome.node
        with contextlib.suppress(ConnectionClosed):  # it is asked again
            await socket.send(asked.frame)

    def _subscription(self, groups: list[RemoteGroup]) -> Subscribe:
        seen = {group.name: self.seen[group.name] for group in groups if group.name in self.seen}
        since = groups[0].since
        names = [group.name for group in groups]
        return Subscribe(next(self._numbers), names, seen, self._log, since)

    def _note_subscribed(self, reply: Subscribed) -> None:
        self._log = reply.log
        for group, seen in reply.seen.items():
            self.seen.setdefault(group, seen)

    # The connection

    async def _run(self) -> None:
        pause = FIRST_PAUSE.value
        began = asyncio.get_running_loop().time()
        try:
            while self.failure is None:
                was_connected = await self._try_once(self._urls[self._at])
                now = asyncio.get_running_loop().time()
                if was_connected:
                    pause, began = FIRST_PAUSE.value, now
                waits = any(asked.publication and asked.node for asked in self._asked.values())
                if waits and now < began + STAY.value:
                    pass  # the node that knows the answer
                else:
                    self._at = (self._at + 1) % len(self._urls)
                    if self._at != 0 and not waits:
                        continue
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE.value)
        finally:
            self._connected.clear()
        self._fail(self.failure or NodeError("the connection was closed"))

    async def _try_once(self, url: str) -> bool:
        """Dial, say hello, go on until the connection ends; whether there was one."""
        was_connected = False
        try:
            async with open_socket(
                url,
                ssl=self._context() if url.startswith("wss://") else None,
                subprotocols=[Subprotocol(protocol.SUBPROTOCOL)],
                compression=None,
                max_size=None,
                open_timeout=OPEN_WITHIN.value,
                proxy=None,
            ) as socket:
                async with asyncio.timeout(OPEN_WITHIN.value):
                    self._welcome = await self._say_hello(socket, url)
                self._socket = socket
                await self._go_on(socket, self._welcome.node)
                was_connected = True
                self.reconnections += 1
                self._connected.set()
                await self._read(socket)
        except (OSError, TimeoutError, ConnectionClosed, InvalidHandshake, WireError) as error:
            log.info("%s: %s", url, error)
        except NodeError as error:
            self.failure = error
        finally:
            self._socket = None
            self._connected.clear()
            self._handled.clear()  # another node is told the position
        return was_connected

    async def _say_hello(self, socket: ClientConnection, url: str) -> Welcome:
        if url.startswith("wss://") and self._tls is None:
            self._check_node(socket)
        hello = Hello(protocol.VERSION, self._token, self._name, self._past, binary=True)
        await socket.send(encode(hello))
        reply, _ = decode_reply(await socket.recv())
        if isinstance(reply, Refusal):
            self._give_up_or_wait(reply, url)
        if not isinstance(reply, Welcome):
            raise WireError("no welcome")
        return reply

    def _give_up_or_wait(self, refusal: Refusal, url: str) -> None:
        if refusal.code in FINAL:
            raise NodeError(f"{url}: {refusal.error}")
        raise WireError(refusal.error)

    async def _go_on(self, socket: ClientConnection, node: int) -> None:
        """Read the groups again, and ask again for what was not answered."""
        self._give_up_publications(node)
        await self._read_again(socket)
        while True:
            unsent = [one for one in self._asked.values() if one.sent_over is not socket]
            if not unsent:
                break  # nobody has asked for anything since
            for asked in unsent:
                await self._send_over(socket, asked)

    def _give_up_publications(self, node: int) -> None:
        """This is another node than the one that may have made them."""
        for asked in self._asked.values():
            is_elsewhere = asked.publication and asked.node not in (None, node)
            if is_elsewhere and not asked.answer.done():
                asked.answer.set_exception(
                    Unanswered(
                        f"node {asked.node}, which was asked to publish this, is gone, and node "
                        f"{node} cannot know whether it did"
                    )
                )

    async def _read_again(self, socket: ClientConnection) -> None:
        """In one request, so that all groups come in one order. Those that were never answered are
        asked for again as they were."""
        self._asked.pop(self._read_again_by, None)  # it was over another connection
        groups = [group for name, group in self._groups.items() if name in self.seen]
        if not groups:
            return
        subscription = self._subscription(groups)
        asked = _Asked(encode(subscription), False)
        self._asked[subscription.id] = asked
        self._read_again_by = subscription.id

        def answered(answer: "asyncio.Future[Reply]") -> None:
            self._asked.pop(subscription.id, None)
            self._on_reading_again(answer)

        asked.answer.add_done_callback(answered)
        await self._send_over(socket, asked)

    def _on_reading_again(self, answer: "asyncio.Future[Reply]") -> None:
        if answer.cancelled():
            return
        error = answer.exception()
        if isinstance(error, Gap) and error.group in self._groups:
            # It alone cannot go on: who enters it again begins anew.
            del self.seen[error.group]
            self._groups.pop(error.group).fail(error)
            if self._socket is not None:
                self._reading_again = asyncio.ensure_future(self._read_again(self._socket))
        elif isinstance(error, NodeError):
            for group in self._groups.values():
                group.fail(error)
        elif error is None:
            reply = answer.result()
            if isinstance(reply, Subscribed):
                self._note_subscribed(reply)

    async def _read(self, socket: ClientConnection) -> None:
        async for frame in socket:
            assert isinstance(frame, (str, bytes))
            reply, behind = decode_reply(frame)
            if isinstance(reply, Delivery):
                message = id_named(reply.message)
                note(self._past, reply.group, message)
                group = self._groups.get(reply.group)
                if group is not None:
                    group.arrived(message, body_of(reply, behind))
                else:
                    self.tell_handled(
                        message
                    )  # it is not read any more, and must not fill a window
            elif isinstance(reply, Refusal) and reply.id == 0:
                self._give_up_or_wait(reply, self._urls[self._at])
            elif isinstance(reply, (Published, Subscribed, GroupList, Present, Done, Refusal)):
                self._answered(reply)

    def _answered(
        self, reply: Published | Subscribed | GroupList | Present | Done | Refusal
    ) -> None:
        asked = self._asked.get(reply.id)
        if asked is None or asked.answer.done():
            return
        if not isinstance(reply, Refusal):
            asked.answer.set_result(reply)
        elif reply.code == protocol.GAP:
            asked.answer.set_exception(Gap(reply.error, reply.group))
        elif reply.code != protocol.STOPPING:  # a node that stops is asked again when it is back
            asked.answer.set_exception(NodeError(reply.error))

    def _fail(self, failure: NodeError) -> None:
        self.failure = failure
        for asked in self._asked.values():
            if not asked.answer.done():
                asked.answer.set_exception(failure)
        for group in self._groups.values():
            group.fail(failure)

    # Who the node is

    def _context(self) -> ssl.SSLContext:
        """Nodes are known by the authority in the token: their certificates name no hosts."""
        if self._tls is not None:
            return self._tls
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        pem = [one.public_bytes(Encoding.PEM).decode() for one in authorities_in(self._token)]
        context.load_verify_locations(cadata="\n".join(pem))
        return context

    def _check_node(self, socket: ClientConnection) -> None:
        tunnel = socket.transport.get_extra_info("ssl_object")
        passport = Passport.of(read_certificate(tunnel.getpeercert(binary_form=True)))
        if passport.purpose != NODE or passport.cluster != cluster_in(self._token):
            raise WireError("at this address there is no node of the token's cluster")

    def _restore(self, position: Mapping[str, Any]) -> None:
        try:
            self.seen = {
                str(group): {int(origin): int(number) for origin, number in of_group.items()}
                for group, of_group in position["seen"].items()
            }
            self._past = {
                str(group): {int(origin): int(number) for origin, number in of_group.items()}
                for group, of_group in position["past"].items()
            }
            self._log = str(position["log"])
        except (KeyError, ValueError, AttributeError, TypeError):
            raise ConfigError("position: expected what `position()` returned") from None
