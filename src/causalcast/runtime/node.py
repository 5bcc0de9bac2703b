"""The application's handle on a real node.

    async with causalcast.open("node.toml") as node:
        async with node.group("chat") as chat:
            await chat.publish(b"hello")
            async for message in chat:
                print(message.origin, message.payload)
                await message.ack()

Everything here runs in the event loop that opened the node.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from causalcast.any_node import AnyMessage, Restore, Save, Since
from causalcast.core.ids import GroupId, MessageId, NodeId, number_of, origin_of
from causalcast.core.made_groups import NEWS
from causalcast.core.spec import ProtocolSpec
from causalcast.errors import MissingDependency, NodeError
from causalcast.groups_by_name import GroupsByName
from causalcast.runtime.group_reader import GroupReader
from causalcast.runtime.group_state import GroupState, begin_empty
from causalcast.runtime.host.asking import OnAsk
from causalcast.runtime.host.host import Host
from causalcast.runtime.host.presence import presence_of
from causalcast.runtime.host.readers import PLAIN_NAME
from causalcast.runtime.host.status import status_of
from causalcast.runtime.machine import Machine
from causalcast.runtime.metadata import said_of
from causalcast.runtime.node_config import ClientDoor, NodeConfig
from causalcast.runtime.observing.events import Event
from causalcast.runtime.observing.loop_lag import LoopLag
from causalcast.runtime.observing.metrics import exposition
from causalcast.runtime.observing.metrics_server import MetricsServer
from causalcast.runtime.reader import MESSAGES_PER_TURN, Reader, TakesTurns
from causalcast.runtime.received_message import Caller, ReceivedMessage, ack_many
from causalcast.runtime.storage.reader_table import PLAIN, check_name

SINCE: Final = ("now", "kept")


def check_since(since: str, spec: ProtocolSpec, group: str) -> None:
    """Raise unless a late member of `group` can get what `since` asks for."""
    if since not in SINCE:
        raise NodeError(f"since={since!r}: expected one of {', '.join(SINCE)}")
    if not spec.late_members:
        raise NodeError(
            f"{spec.name} leads messages to the members of the start only, so nobody can join "
            f"{group!r} later; let the node be a member from the beginning ([groups])"
        )
    if since == "kept" and "kept" not in spec.offers:
        raise NodeError(
            f"{spec.name} keeps nothing for late members, so nobody can join {group!r} with "
            "since='kept'; join with since='now', or let the node be a member from the "
            "beginning ([groups])"
        )


class Receipt:
    """A publication that is durable at its origin."""

    __slots__ = ("_host", "group", "id")

    def __init__(self, host: Host, message: MessageId, group: str) -> None:
        self._host = host
        self.id = message
        self.group = group

    async def stable(self, timeout: float | None = None) -> None:
        """Wait until every member has delivered it, where the protocol can tell."""
        spec = self._host.config.blueprint.protocol
        if "stability" not in spec.offers:
            raise NodeError(
                f"{spec.name} does not tell when every member has a message "
                f"(it offers: {', '.join(spec.offers) or 'nothing beyond its guarantees'})"
            )
        try:
            async with asyncio.timeout(timeout):
                await self._host.wait_stable(self.id)
        except TimeoutError:
            raise NodeError(f"{self} is not stable after {timeout} s") from None

    def __repr__(self) -> str:
        return f"<receipt {origin_of(self.id)}.{number_of(self.id)} in {self.group!r}>"


class Group(GroupReader[ReceivedMessage]):
    """A group as one node sees it: publish to it, and iterate over what it delivers.

    Entering the context joins the group unless the node is a member, and waits until it is one:
    some protocols let somebody admit it. Leaving the context leaves the group only if entering had
    joined it.
    """

    def __init__(self, host: Host, name: str, group: GroupId, since: Since = "now") -> None:
        self.name = name
        self._host = host
        self._group = group
        self._since = since
        self._joined = False
        self._state: GroupState | None = None  # of its application, if that is kept here
        self._turns = TakesTurns(host)

    def keep_state(self, snapshot: Save | None, restore: Restore | None) -> None:
        """Let entering take the state of the group, and give it to others; see `Node.group`."""
        parts = self._host.parts
        self._state = GroupState(parts.newcomers, parts.states, self._group, snapshot, restore)

    async def __aenter__(self) -> "Group":
        if self._state is not None:
            self._state.begin()
        asked = False
        try:
            asked = self.join()
            self._joined = asked or self._joined
            await self._host.parts.memberships.wait_for(self._group)
            if self._state is not None:
                await self._state.take()
        except BaseException:  # an interrupt or a timeout, too
            if self._state is not None:
                self._state.end()
            if asked:
                with contextlib.suppress(NodeError):  # a node that stops asks again when it is back
                    self.leave()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._state is not None:
            self._state.leave()
        if self._joined and not self._host.running.is_over:
            self._host.parts.memberships.leave(self._group)
        self._joined = False

    def join(self) -> bool:
        """Become a member, now and after restarts; false if the node is one, or has asked for it.

        Where a protocol lets somebody admit new members this asks for it, and `is_member` says when
        it has come to that; what is asked for is asked for over restarts too, until `leave`.
        """
        if self.is_member() or self._host.parts.stack.is_joining(self._group):
            return False
        self.check_joinable()
        self._host.parts.memberships.join(self._group)
        return True

    def leave(self) -> bool:
        """Neither be a member nor ask to be one any more, not after restarts either; false if the
        node did neither."""
        if not self.is_member() and not self._host.parts.stack.is_joining(self._group):
            return False
        self._host.parts.memberships.leave(self._group)
        self._joined = False
        return True

    def is_member(self) -> bool:
        """Whether the node is in the group now."""
        return self._host.parts.memberships.has(self._group)

    def check_joinable(self) -> None:
        """Raise if the node is no member, and cannot become one as asked."""
        if not self.is_member():
            check_since(self._since, self._host.config.blueprint.protocol, self.name)

    async def publish(
        self, body: bytes, headers: Mapping[str, str] | None = None, content_type: str = ""
    ) -> Receipt:
        """Publish `body`; returns when it is durable here, and so will reach the others.

        `headers` and `content_type` travel with it: texts, 4096 bytes of them.
        """
        if not isinstance(body, bytes) or asyncio.get_running_loop() is not self._host.loop:
            self._refuse([body])
        said = said_of(headers, content_type)
        published = self._host.publish(self._group, body, None, said)
        message = published if isinstance(published, int) else await published
        return Receipt(self._host, message, self.name)

    async def publish_many(
        self,
        bodies: Sequence[bytes],
        headers: Mapping[str, str] | None = None,
        content_type: str = "",
    ) -> list[Receipt]:
        """Publish all of them in this order; returns when all are durable here.

        If one cannot be published, those before it are, and it says which of them it is.
        """
        self._refuse(bodies)
        said = said_of(headers, content_type)
        published: list[MessageId | Awaitable[MessageId]] = []
        for number, body in enumerate(bodies):
            try:
                one = self._host.publish(self._group, body, None, said)
                if not isinstance(one, int) and not asyncio.isfuture(one):
                    one = await one  # it has no number yet: those behind it must wait
            except NodeError as error:
                await _all_of(published)
                raise NodeError(f"body {number} of {len(bodies)}: {error}") from error
            published.append(one)
        return [Receipt(self._host, message, self.name) for message in await _all_of(published)]

    def _refuse(self, bodies: Sequence[bytes]) -> None:
        """Raise before anything is published if something can never be."""
        for body in bodies:
            if not isinstance(body, bytes):
                raise NodeError(f"a body is bytes, not {type(body).__name__}")
        if asyncio.get_running_loop() is not self._host.loop:
            raise NodeError(
                "a node is used in the event loop that opened it, and this is another; nothing was "
                "published (`causalcast.open_sync` can be used from any thread)"
            )

    def on_message(self, callback: Callable[[ReceivedMessage], object]) -> None:
        """Call `callback` with every message from now on, instead of iterating.

        It runs in the loop, between two steps of the node, so it may do with the node what it
        likes, and should be short. It may be an asynchronous function: then it is awaited, one
        message after the other, and ends with the node. What it returns from is acknowledged,
        unless it gave it back; what it fails at is not, and goes to the loop's exception handler.

        Each group has a queue of its own. Where causes and effects are in different groups, and
        their order matters to the application, `Node.on_message` reads the groups together.
        """
        host = self._host
        self.check_only_reader()
        host.inbox.call(self._group, Caller(host, {self._group: self.name}, callback).hand_over)

    async def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        """All messages from now on; a loop that is left or cancelled has lost none."""
        host, group, name = self._host, self._group, self.name
        take = host.inbox.take
        while True:
            self._turns.note_reader()
            for _ in range(MESSAGES_PER_TURN.value):
                if host.running.is_over:
                    host.running.check_alive()
                publication = take(group)
                if publication is None:
                    self.check_only_reader()
                    await host.inbox.arrival(group)
                    break
                yield ReceivedMessage(host, publication, name)
            else:
                await asyncio.sleep(0)

    async def _arrival(self) -> None:
        await self._host.inbox.arrival(self._group)

    async def _let_others_have_their_turn(self) -> None:
        await self._turns.one_more()

    async def receive_many(
        self, most: int = 1000, timeout: float | None = None
    ) -> list[ReceivedMessage]:
        """The next messages: what waits, but at most `most`; one if none waits yet. Empty if none
        has come after `timeout` seconds."""
        await asyncio.sleep(0)  # before anything is taken: whoever is cancelled loses nothing
        return await super().receive_many(most, timeout)

    async def ack_many(self, messages: Iterable[AnyMessage], durable: bool = False) -> None:
        """Acknowledge all of them; with `durable` it returns when all marks are on disk."""
        await ack_many(messages, durable)

    def _take(self) -> ReceivedMessage | None:
        host = self._host
        if host.running.is_over:
            host.running.check_alive()
        publication = host.inbox.take(self._group)
        if publication is None:
            self.check_only_reader()
            return None
        return ReceivedMessage(host, publication, self.name)

    async def subscribe(self, name: str, since: Since = "now") -> Reader:
        """The reader `name`, which gets every message whoever else reads the group, and has its own
        acknowledgements. Returns when it is durable; in a later life it goes on where it was.

        A new one gets what is delivered from "now" on, or also what is "kept": what other readers
        have not acknowledged.
        """
        if since not in SINCE:
            raise NodeError(f"since={since!r}: expected one of {', '.join(SINCE)}")
        readers = self._host.parts.readers
        named, marking = readers.begin(self._group, name, since == "kept")
        await self._durably(marking)
        return Reader(self._host, named, self.name)

    async def unsubscribe(self, name: str) -> None:
        """End the reader `name`: nothing is kept for it any more. Returns when that is durable."""
        check_name(name)
        await self._durably(self._host.parts.readers.end(self._group, name))

    async def begin_empty(self) -> None:
        """Say that nobody has the state of this group, and that of this node's application is the
        first. Returns when that is durable."""
        parts = self._host.parts
        await begin_empty(parts.newcomers, parts.states, self._group)

    async def ask(self, node: int, body: bytes, timeout: float | None = None) -> bytes:
        """What the application of a neighbour answers to `body`; NodeError if there is no answer
        after `timeout` seconds (10 unless told), or it is away.

        It is asked once, over the link between the two, and nothing is said about the order of
        that and publications.
        """
        self._host.running.check_open()
        asking = self._host.parts.asking
        return await asking.ask(NodeId(node), self._group, body, timeout)

    def on_ask(self, handler: OnAsk | None) -> None:
        """Let `handler` answer, with bytes, what other nodes ask in this group; None: nobody. It
        may be an asynchronous function."""
        self._host.parts.asking.on_ask(self._group, handler)

    async def set_plain_reader(self, wanted: bool) -> None:
        """Whether the group has a reader without a name. Where only readers with names are wanted,
        nothing need be kept for another; one that begins again does so from now on."""
        readers = self._host.parts.readers
        if wanted:
            marking = readers.begin_plain(self._group)
            if marking is not None:  # it has missed something
                self._host.parts.states.joins(self._group)
            await self._durably(marking)
        else:
            await self._durably(readers.end(self._group, PLAIN_NAME))

    async def _durably(self, marking: "asyncio.Future[None] | None") -> None:
        if marking is not None:
            await asyncio.shield(marking)

    def check_only_reader(self) -> None:
        """Raise NodeError if somebody else reads the group, or nobody can."""
        if not self._host.parts.directory.is_there(self._group):
            raise NodeError(f"{self.name!r} was removed (`remove_group`)")
        if not self._host.inbox.readers.owed_in(self._group) & PLAIN:
            raise self._host.parts.readers.not_read(self._group)
        if self._host.inbox.is_read(self._group):
            raise NodeError(
                f"{self.name!r} is read already, by a loop or a callback: what one reader takes no "
                "other gets, so a group has one at a time"
            )


async def _all_of(published: list[MessageId | Awaitable[MessageId]]) -> list[MessageId]:
    """The ids of publications, when all are durable."""
    return [one if isinstance(one, int) else await one for one in published]


def _checked(message: MessageId) -> MessageId:
    if not isinstance(message, int):
        raise NodeError(
            f"{message!r} is no id of a message: expected that of a receipt or of a message that "
            "came (`receipt.id`, `message.id`)"
        )
    return message


class ClientNumbers(Protocol):
    """What a node shows of the door for its clients."""

    def numbers(self) -> dict[str, Any]: ...


def _door_of(
    node: "Node", config: ClientDoor
) -> contextlib.AbstractAsyncContextManager[ClientNumbers]:
    """The door for clients. It is made of the node, so it is known only where one is asked for."""
    try:
        from causalcast.clients.door import opened
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "websockets":
            raise
        raise MissingDependency(
            "[clients] listen needs websockets: pip install 'causalcast[clients]'"
        ) from None
    return opened(node, config)


Controlled = Callable[["Node"], contextlib.AbstractAsyncContextManager[None]]


class Node(GroupsByName[Group]):
    """One running node of a cluster; an async context manager."""

    def __init__(
        self, config: NodeConfig, machine: Machine | None = None, control: Controlled | None = None
    ) -> None:
        """`machine`: what the node gets its time, entropy, disk and links from; this one's if not
        given. `control` opens a way in for operators while the node runs."""
        self.config = config
        self._machine = machine
        self._control = control
        self._ways_in = contextlib.AsyncExitStack()
        self._was_stopped = False
        self._host: Host | None = None
        self._metrics: MetricsServer | None = None
        self._lag: LoopLag | None = None  # of a loop that is this machine's
        self._door: ClientNumbers | None = None

    @property
    def id(self) -> NodeId:
        """The node's id."""
        return self.config.node

    async def __aenter__(self) -> "Node":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Recover what an earlier life left, listen, and dial the neighbours."""
        if self._was_stopped:
            raise NodeError("this node was stopped, and a life is lived once; open it again")
        if self._host is not None:
            raise NodeError("this node runs already")
        host = Host(self.config, self._machine)
        await host.start()
        self._host = host
        if self._machine is None:
            self._lag = LoopLag(host.loop)
            self._lag.start()
        try:
            if self.config.metrics is not None:
                self._metrics = MetricsServer(self.config.metrics, self.metrics, self._trouble)
                await self._metrics.start()
            if self.config.clients is not None:
                self._door = await self._ways_in.enter_async_context(
                    _door_of(self, self.config.clients)
                )
            if self._control is not None:
                await self._ways_in.enter_async_context(self._control(self))
        except BaseException:  # an interrupt, too: nobody has a handle on what was started
            await self.stop()
            raise

    async def stop(self) -> None:
        """Leave in good order; everything durable stays."""
        self._look_no_more()
        await self._ways_in.aclose()
        if self._metrics is not None:
            self._metrics.close()
        if self._host is not None:
            self._was_stopped = True
            await self._host.stop()

    async def wait_stopped(self) -> None:
        """Return when the node was stopped; raise what made it stop, if something did."""
        host = self._running()
        await host.running.stopped.wait()
        if host.running.failure is not None:
            raise host.running.failure

    def _handle(self, name: str, since: Since) -> Group:
        host = self._running()
        if since not in SINCE:
            raise NodeError(f"since={since!r}: expected one of {', '.join(SINCE)}")
        return Group(host, name, host.parts.directory.id_of(name), since)

    def _keep_state(self, handle: Group, snapshot: Save | None, restore: Restore | None) -> None:
        handle.keep_state(snapshot, restore)

    async def _make_group(self, name: str) -> None:
        host = self._running()
        directory = host.parts.directory
        while True:
            news = directory.news_of_making(name)
            if news is None:
                break
            await _all_of([host.publish(NEWS, news.encode())])
        self._handle(name, "now").join()
        await host.wait_durable()  # that it is a member, too

    async def remove_group(self, name: str) -> None:
        host = self._running()
        news = host.parts.directory.news_of_removing(name)
        await _all_of([host.publish(NEWS, news.encode())])

    def groups(self) -> list[str]:
        """All groups that there are, as far as this node has heard: those of its file, and those
        that were made."""
        return self._running().parts.directory.names()

    def on_groups(self, callback: Callable[[str, bool], object]) -> None:
        """Call `callback` with the name of every group that is made from now on, and True; with
        False when it is removed."""
        self._running().parts.directory.listeners.append(callback)

    def presence(self) -> dict[NodeId, str]:
        """Who is there, as far as this node knows.

        "here" is this node, "linked" a neighbour with a link, "suspected" one of whom nothing is
        heard though it has one, "away" a neighbour without a link. "outside" is no member, by
        agreement: it was removed, or not taken in yet. "unknown" is no neighbour: nobody here can
        tell.
        """
        return presence_of(self._running())

    def on_message(self, callback: Callable[[ReceivedMessage], object], *groups: str) -> None:
        """Call `callback` with every message of these groups from now on, in one causal order.

        As `Group.on_message`, but with one queue for all of them: what the callback gets, and what
        an asynchronous one has finished with, is never an effect before its cause, whatever groups
        they were published to. Without names: all groups that the node is in now.
        """
        host = self._running()
        names = groups or tuple(self.status()["groups"])
        for name in names:
            self.group(name).check_only_reader()
        ids = {host.parts.directory.id_of(name): name for name in names}
        host.inbox.call_together(list(ids), Caller(host, ids, callback).hand_over)

    def explain(self, message: MessageId) -> list[MessageId]:
        """What a message that is held here waits for; empty if it is not held."""
        return self._running().parts.stack.multicast.explain(_checked(message))

    def reasons(self, message: MessageId) -> list[str]:
        """In words what a message here waits for, to be delivered or to be passed on."""
        return self._running().parts.stack.multicast.reasons(_checked(message))

    def preview(self, words: str) -> list[str]:
        """In words what may be lost by a command, as far as this node can tell.

        NodeError if it cannot be carried out: the protocol has no such command, or objects.
        """
        return self._running().preview(words)

    def command(self, words: str) -> None:
        """Tell the protocol to do something that its SPEC lists, such as "gone 3" of `locamu`.

        NodeError as for `preview`. `causalcast protocols NAME` says which commands there are.
        """
        self._running().command(words)

    async def events(self) -> AsyncIterator[Event]:
        """What happens at this node that its operator wants to hear of, from now on."""
        host = self._running()
        seen = host.observed.events.count
        while True:
            host.running.check_alive()
            for event in host.observed.events.since(seen):
                yield event
            seen = host.observed.events.count
            await host.observed.events.arrival()

    def events_since(self, number: int) -> list[Event]:
        """Events of this life from the `number`-th on, as far as they are kept."""
        return self._running().observed.events.since(number)

    def event_count(self) -> int:
        """How many events there were in this life."""
        return self._running().observed.events.count

    def metrics(self) -> str:
        """The status in the text format that Prometheus reads."""
        return exposition(self.status())

    def status(self) -> dict[str, Any]:
        """What this node is doing, in numbers; `up` and `status` show it."""
        status = status_of(self._running())
        if self._lag is not None:
            lag = self._lag
            status["loop_lag"] = {"last_seconds": lag.last, "seconds": lag.took.as_numbers()}
        if self._door is not None:
            status["clients"] = self._door.numbers()
        return status

    def _look_no_more(self) -> None:
        if self._lag is not None:
            self._lag.stop()

    def _trouble(self) -> str:
        """Why nobody should send work to this node now; empty if they may."""
        status = self.status()
        if not status["takes_part"]:
            return "it has not found its place in the cluster yet"
        waits = ", ".join(status["publishers_wait"])
        return f"publishers wait: {waits}" if waits else ""

    def host(self) -> Host:
        """What this is the handle of: for tests, which look inside."""
        return self._running()

    def _running(self) -> Host:
        if self._host is None:
            raise NodeError("the node is not running; use `async with causalcast.open(...)`")
        return self._host
