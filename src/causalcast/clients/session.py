"""One client at the door, from its first word to its last.

It reads one request after the other and answers each. What its groups deliver it gets from the
log that all clients share, so a client that reads slowly keeps nothing in memory but its window.
One that falls behind the log is told so and let go.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, Protocol

from websockets.exceptions import ConnectionClosed

from causalcast.clients import protocol
from causalcast.clients.kept_log import KeptLog, is_behind
from causalcast.clients.patience import Patience
from causalcast.clients.protocol import Position, Publish, Refusal, Reply, Request
from causalcast.clients.publications import Publications
from causalcast.core.ids import MessageId
from causalcast.errors import CausalcastError, WireError
from causalcast.limits import Limit, Span
from causalcast.runtime.links.allowance import Allowance
from causalcast.runtime.node import Node
from causalcast.runtime.security.client_token import ClientPass, fits

REQUESTS_PER_SECOND: Final = Limit(
    "clients.session.requests_per_second",
    2000,
    least=1,
    most=1 << 20,
    unit="requests",
    about="of one client in a second; it is read no faster, and may send two seconds' at once",
)
BYTES_PER_SECOND: Final = Limit(
    "clients.session.bytes_per_second",
    8 << 20,
    least=1 << 10,
    most=1 << 40,
    unit="bytes",
    about="of one client in a second; it is read no faster, and may send two seconds' at once",
)
SUBSCRIPTIONS: Final = Limit(
    "clients.session.subscriptions",
    1000,
    least=1,
    most=1 << 20,
    unit="groups",
    about="that one client reads",
)
WINDOW: Final = Limit(
    "clients.session.window",
    1000,
    least=1,
    most=1 << 20,
    unit="messages",
    about="that a client has been sent and has not acknowledged",
)
WINDOW_BYTES: Final = Limit(
    "clients.session.window_bytes",
    1 << 20,
    least=1,
    most=1 << 30,
    unit="bytes",
    about="the same in bytes, unless a single one is larger",
)
PUBLISHING: Final = Limit(
    "clients.session.publishing",
    256,
    least=1,
    most=1 << 16,
    unit="messages",
    about="of one client that are on their way to the disk; then it is read no further",
)
SENT_WITHIN: Final = Span(
    "clients.session.sent_within",
    20.0,
    least=0.01,
    most=600.0,
    about="a client takes what it is sent within this, or is let go",
)
NOT_YET_AFTER: Final = Span(
    "clients.session.not_yet_after",
    5.0,
    least=0.01,
    most=600.0,
    about="how long a client that moved waits for what it has seen elsewhere",
)
PASSED_OVER: Final = Limit(
    "clients.session.passed_over",
    1000,
    least=1,
    most=1 << 20,
    unit="messages",
    about="that are not for a client, and looked at before others have their turn",
)


class Ended(CausalcastError):
    """The connection ends, and why."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class Refused(CausalcastError):
    """One request is refused, and why."""

    def __init__(self, code: str, text: str, group: str = "") -> None:
        super().__init__(text)
        self.code = code
        self.group = group


class Allowances:
    """How much a client may say in a second."""

    def __init__(self) -> None:
        self._requests = Allowance(REQUESTS_PER_SECOND.value, 2 * REQUESTS_PER_SECOND.value)
        self._traffic = Allowance(BYTES_PER_SECOND.value, 2 * BYTES_PER_SECOND.value)

    def pause(self, size: int) -> float:
        """It has said so many bytes: for how many seconds it should be silent."""
        now = asyncio.get_running_loop().time()
        return max(self._requests.take(1, now), self._traffic.take(size, now))


class Carrier(Protocol):
    """What brings requests of one client, and takes answers and messages to it."""

    def __aiter__(self) -> AsyncIterator[str | bytes]:
        """The frames that it says."""

    async def send(self, message: str | bytes) -> None:
        """Returns when there is room for the next one."""

    async def close(self, code: int = 1000) -> Any:
        """It is let go."""


class Session:
    """What a client may do, reads, and has not acknowledged.

    Large because everything that one client can ask for is answered here.
    """

    def __init__(
        self,
        connection: Carrier,
        node: Node,
        log: KeptLog,
        publications: Publications,
        holder: ClientPass,
        binary: bool,
        count: Callable[[str], None],
        allowances: Allowances | None = None,
    ) -> None:
        self.holder = holder
        self._connection = connection
        self._node = node
        self._log = log
        self._publications = publications
        self._binary = binary
        self._count = count
        self._seen: Position = {}  # of the groups that it reads: what it has been sent
        self._place = log.end  # of the next message to look at
        self._window = WINDOW.value
        self._unacknowledged: dict[MessageId, tuple[str, int]] = {}  # their groups and bytes
        self._bytes = 0
        self._news = asyncio.Event()
        self._allowances = allowances or Allowances()
        # What it asked to be published, in its order: it may wait, and what else is said must not.
        self._to_publish: asyncio.Queue[tuple[Publish, bytes]] = asyncio.Queue()
        self._room_to_publish = asyncio.Semaphore(PUBLISHING.value)
        self._answering: dict[asyncio.Task[None], None] = {}  # in their order

    def acknowledge(self, messages: list[str]) -> None:
        """These are handled: there is room for others; WireError if one is no message."""
        for name in messages:
            self._make_room(protocol.id_named(name))
        self._news.set()

    def unacknowledged(self) -> int:
        """Messages that it has and did not acknowledge."""
        return len(self._unacknowledged)

    def position(self) -> tuple[str, Position]:
        """What it has been sent of the groups that it reads, and whose deliveries that counts."""
        return self._log.id, self._seen

    async def run(self) -> None:
        """Until it hangs up, or one side has enough of the other."""
        self._log.listeners[self._news] = None
        sending = asyncio.create_task(self._send_patiently())
        reading = asyncio.create_task(self._read_requests())
        publishing = asyncio.create_task(self._publish_in_order())
        tasks = (sending, reading, publishing)
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            del self._log.listeners[self._news]
            for task in (*tasks, *self._answering):
                task.cancel()
            await asyncio.gather(*tasks, *self._answering, return_exceptions=True)

    async def send(self, frame: str | bytes) -> None:
        """One frame; whoever does not take it is let go."""
        try:
            async with asyncio.timeout(SENT_WITHIN.value):
                await self._connection.send(frame)
        except TimeoutError:
            raise _read_nothing() from None

    # What it asks for

    async def _read_requests(self) -> None:
        async for frame in self._connection:
            pause = self._allowances.pause(len(frame))
            if pause > 0:
                self._count("slowed_down")
                await asyncio.sleep(pause)
            try:
                request, body = protocol.decode_request(frame)
            except WireError as error:
                raise Ended(protocol.BAD_FRAME, str(error)) from None
            await self._answer(request, body)

    async def _answer(self, request: Request, body: bytes | None) -> None:
        if isinstance(request, protocol.Hello):
            raise Ended(protocol.BAD_FRAME, "hello was said before")
        try:
            if isinstance(request, protocol.Ack):
                self.acknowledge(request.messages)
                return
            if isinstance(request, Publish):
                await self._publish(request, body)
                return
            reply: Reply
            if isinstance(request, protocol.Subscribe):
                reply = self._subscribe(request)
            elif isinstance(request, protocol.Unsubscribe):
                reply = self._unsubscribe(request)
            elif isinstance(request, protocol.ListGroups):
                reply = self._list_groups(request)
            elif isinstance(request, protocol.CreateGroup | protocol.RemoveGroup):
                reply = await self._change_groups(request)
            else:
                reply = self._presence(request)
        except Refused as refused:
            self._count(refused.code)
            reply = Refusal(_id_of(request), refused.code, str(refused), refused.group)
        except WireError as error:
            raise Ended(protocol.BAD_FRAME, str(error)) from None
        await self.send(protocol.encode(reply))
        self._news.set()

    async def _publish(self, request: Publish, behind: bytes | None) -> None:
        body = protocol.body_of(request, behind)
        if len(request.key) > protocol.LONGEST_KEY:
            raise WireError(f"a key of {len(request.key)} characters, expected at most 64")
        self._check_group(request.group, self.holder.may_publish(request.group), "publish to")
        await self._room_to_publish.acquire()
        self._to_publish.put_nowait((request, body))

    async def _publish_in_order(self) -> None:
        while True:
            request, body = await self._to_publish.get()
            published = self._publications.publish(self.holder.name, request, body)
            if published is None:
                self._room_to_publish.release()
                await self._refuse(
                    request.id,
                    protocol.KEY_USED,
                    f"key {request.key!r} was used for another body or group; every publication "
                    "needs a key of its own",
                )
                continue
            answering = asyncio.create_task(self._answer_published(request.id, published))
            self._answering[answering] = None
            answering.add_done_callback(self._answered)
            if not self._publications.has_number(published):
                await asyncio.wait([published])  # those behind it must not overtake it

    def _answered(self, answering: "asyncio.Task[None]") -> None:
        self._answering.pop(answering, None)
        self._room_to_publish.release()

    async def _refuse(self, number: int, code: str, why: str) -> None:
        self._count(code)
        await self.send(protocol.encode(Refusal(number, code, why)))

    async def _answer_published(self, number: int, published: "asyncio.Future[MessageId]") -> None:
        reply: Reply
        try:
            message = await asyncio.shield(published)
            reply = protocol.Published(number, protocol.name_of(message))
        except CausalcastError as error:
            code = protocol.STOPPING if self._publications.is_over() else protocol.REFUSED
            self._count(code)
            reply = Refusal(number, code, str(error))
        try:
            await self.send(protocol.encode(reply))
        except (ConnectionClosed, Ended):
            await self._connection.close(protocol.CLOSE_CODES[protocol.TOO_SLOW])

    def _subscribe(self, request: protocol.Subscribe) -> protocol.Subscribed:
        log = self._log
        groups = self._groups_meant(request.groups)
        if len({*self._seen, *groups}) > SUBSCRIPTIONS.value:
            raise Refused(protocol.TOO_MANY, f"a client reads at most {SUBSCRIPTIONS.value} groups")
        seen: Position = {}
        for group in groups:
            if request.seen is not None and group in request.seen:
                seen[group] = dict(request.seen[group])
                self._check_goes_on(group, seen[group], request.log)
            elif request.since == "kept":
                seen[group] = {}
            else:
                seen[group] = dict(log.delivered.get(group, {}))
        self._seen |= seen
        self._window = min(request.window or WINDOW.value, WINDOW.value)
        self._place = log.first
        return protocol.Subscribed(request.id, groups, seen, log.id, self._window)

    def _check_goes_on(self, group: str, seen: dict[int, int], log_id: str) -> None:
        """Refuse to go on where something may be missing."""
        lacks = self._log.missing(group, seen)
        if lacks:
            raise Refused(
                protocol.GAP,
                f"{lacks} and what came before it in {group!r} is not kept here any more "
                "([clients] kept_messages); subscribe anew, and get the state from elsewhere",
                group,
            )
        if log_id != self._log.id and not self._log.is_whole(group):
            raise Refused(
                protocol.GAP,
                f"this node was not in {group!r} from the beginning, or has forgotten what it "
                "delivered there, so it cannot tell what came behind what was seen elsewhere",
                group,
            )

    def _groups_meant(self, patterns: list[str]) -> list[str]:
        """The groups of names and prefixes, as far as they may be read."""
        found: dict[str, None] = {}
        for pattern in patterns:
            if pattern.endswith("*"):
                for group in self._publications.groups:
                    if fits(pattern, group) and self.holder.may_subscribe(group):
                        found[group] = None
            else:
                self._check_group(pattern, self.holder.may_subscribe(pattern), "read")
                found[pattern] = None
        for group in found:
            if not self._node.group(group).is_member():
                raise Refused(
                    protocol.ELSEWHERE,
                    f"node {self._node.id} is not in {group!r}; ask a node that is",
                    group,
                )
        return list(found)

    def _unsubscribe(self, request: protocol.Unsubscribe) -> protocol.Done:
        for group in request.groups:
            self._seen.pop(group, None)
            for message in [m for m, (of, _) in self._unacknowledged.items() if of == group]:
                self._make_room(message)
        return protocol.Done(request.id)

    def _list_groups(self, request: protocol.ListGroups) -> protocol.GroupList:
        groups = self._publications.groups
        return protocol.GroupList(
            request.id,
            [group for group in groups if self.holder.may_publish(group)],
            [group for group in groups if self.holder.may_subscribe(group)],
        )

    async def _change_groups(self, request: protocol.Change) -> protocol.Done:
        """The node makes or removes a group, with its own rights, for a client that may."""
        group, is_made = request.group, isinstance(request, protocol.CreateGroup)
        if not self.holder.may_create(group):
            verb = "make" if is_made else "remove"
            raise Refused(protocol.NOT_ALLOWED, f"this token does not allow to {verb} {group!r}")
        try:
            if not is_made:
                # A client that lost the answer asks again: then there is nothing left to do.
                if not self._node.host().parts.directory.made.was_removed(group):
                    await self._node.remove_group(group)
                return protocol.Done(request.id)
            await self._node.create_group(group)
        except CausalcastError as error:
            # A node that is about to die says nothing for good: the next one is asked again.
            code = protocol.STOPPING if self._publications.is_over() else protocol.REFUSED
            raise Refused(code, str(error)) from None
        if group not in self._publications.groups:
            raise Refused(protocol.NO_GROUP, f"{group!r} was made, and is not one of this door")
        return protocol.Done(request.id)

    def _presence(self, request: protocol.Presence) -> protocol.Present:
        status = self._node.status()
        return protocol.Present(
            request.id, self._node.id, sorted(status["links"]), status["suspected"]
        )

    def _make_room(self, message: MessageId) -> None:
        _, size = self._unacknowledged.pop(message, ("", 0))
        self._bytes -= size

    def _check_group(self, group: str, is_allowed: bool, verb: str) -> None:
        if not is_allowed:
            why = f"this token does not allow to {verb} {group!r}"
            raise Refused(protocol.NOT_ALLOWED, why, group)
        if group not in self._publications.groups:
            raise Refused(protocol.NO_GROUP, f"there is no group {group!r} at this door", group)

    # What it gets

    async def _send_patiently(self) -> None:
        patience = Patience(SENT_WITHIN.value)
        try:
            await self._send_messages(patience)
        except asyncio.CancelledError:
            if patience.is_over:
                raise _read_nothing() from None
            raise
        finally:
            patience.close()

    async def _send_messages(self, patience: Patience) -> None:
        log, passed = self._log, 0
        while True:
            self._news.clear()
            if self._place < log.first:
                self._check_kept_up()
                self._place = log.first
            if not self._seen or not self._has_room() or self._place == log.end:
                await self._news.wait()
                continue
            one = log.at(self._place)
            self._place += 1
            if one.group in self._seen and is_behind(self._seen, one):
                protocol.note(self._seen, one.group, one.id)
                self._make_room(one.id)  # it may be sent again
                self._unacknowledged[one.id] = (one.group, len(one.body))
                self._bytes += len(one.body)
                frame = protocol.delivery_frame(one.id, one.group, one.body, self._binary)
                patience.begin()
                await self._connection.send(frame)
                patience.end()
            else:
                passed += 1
                if passed % PASSED_OVER.value == 0:
                    await asyncio.sleep(0)

    def _has_room(self) -> bool:
        return len(self._unacknowledged) < self._window and self._bytes < WINDOW_BYTES.value

    def _check_kept_up(self) -> None:
        for group, seen in self._seen.items():
            lacks = self._log.missing(group, seen)
            if lacks:
                raise Ended(
                    protocol.TOO_SLOW,
                    f"{lacks} of {group!r} is not kept any more, and this client had not "
                    "acknowledged enough to be sent it",
                )


def _read_nothing() -> Ended:
    return Ended(protocol.TOO_SLOW, f"nothing was read for {SENT_WITHIN.value:g} s")


def _id_of(request: Request) -> int:
    return 0 if isinstance(request, (protocol.Hello, protocol.Ack)) else request.id
