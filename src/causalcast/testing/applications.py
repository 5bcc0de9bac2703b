"""Applications on simulated nodes: the code that will run on real ones, under virtual time.

    cluster = Cluster(nodes=3, loss=0.1, seed=7)
    applications = Applications(cluster)

    async def story():
        applications.start(0, my_application)       # async def my_application(node): ...
        await asyncio.sleep(10)                     # virtual seconds: no time passes
        applications.crash(0)                       # as SIGKILL: not even `finally` runs
        applications.recover(0, my_application)

    applications.run(story())

An application gets a node that is a `causalcast.AnyNode`, as a real one is. What it had not
acknowledged is handed over again after a crash, and so is what it acknowledged in the last moments
before, as on real nodes.
"""

import asyncio
import collections
import contextvars
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from causalcast.any_node import AnyMessage, Restore, Save, Since
from causalcast.core.ids import GroupId, MessageId, NodeId, number_of, origin_of
from causalcast.core.made_groups import FIRST_MADE
from causalcast.core.message import Publication
from causalcast.errors import NodeError
from causalcast.groups_by_name import GroupsByName
from causalcast.runtime.group_reader import GroupReader
from causalcast.runtime.group_state import GroupState, begin_empty
from causalcast.runtime.host.asking import OnAsk
from causalcast.runtime.host.inbox import OVERHEAD
from causalcast.runtime.host.positions import covered_by, position_of
from causalcast.runtime.metadata import said_of
from causalcast.runtime.node import check_since
from causalcast.runtime.node_config import READER_BYTES
from causalcast.runtime.received_message import Keeper, ReceivedMessage, ack_many
from causalcast.runtime.storage.reader_table import MOST_READERS, check_name
from causalcast.testing.cluster import Cluster
from causalcast.testing.virtual_desk import HEARD_AFTER, VirtualDesk
from causalcast.testing.virtual_loop import LIFE, Life, VirtualLoop

ACKNOWLEDGE_WITHIN: Final = 50_000  # microseconds until an acknowledgement is surely durable

Result = TypeVar("Result")
Application = Callable[["VirtualNode"], Coroutine[Any, Any, None]]


class Inbox:
    """What the protocol delivered at one node and its application has not acknowledged."""

    def __init__(self) -> None:
        self.kept: dict[MessageId, Publication] = {}  # in the order of delivery
        self.queues: dict[GroupId, collections.deque[Publication]] = {}
        self.news = asyncio.Event()
        self.readers: dict[GroupId, asyncio.Task[Any]] = {}  # who wait for something of a group
        self.callers: dict[GroupId, asyncio.Task[None] | None] = {}  # those of `on_message`
        self.redelivered = 0
        self._fresh: list[tuple[int, Publication]] = []  # acknowledged: when, what
        self.named: dict[tuple[GroupId, str], Inbox] = {}  # of readers with names
        self.not_plain: dict[GroupId, None] = {}  # groups that are read by name alone
        self.bytes = 0  # that were not acknowledged, where the reader has a name
        self.is_lost = False  # that was too much
        self._order: dict[MessageId, int] = {}  # in which things were delivered
        self.lacking: dict[GroupId, None] = {}  # groups that were joined without their state
        self._held: collections.Counter[GroupId] = collections.Counter()
        self._handled: dict[GroupId, dict[int, int]] = {}  # by origin the last one; it only grows

    def add(self, publication: Publication) -> None:
        """The protocol delivered something."""
        self._order[publication.id] = len(self._order)
        for (group, _), named in self.named.items():
            if group == publication.group and not named.is_lost:
                named.add(publication)
                named.bytes += len(publication.body) + OVERHEAD
                if named.bytes > READER_BYTES.value:
                    named.lose()
        if publication.group not in self.not_plain:
            self._add(publication)

    def lose(self) -> None:
        """The reader left too much unacknowledged."""
        self.is_lost = True
        self.kept, self.queues = {}, {}
        self.news.set()

    def _add(self, publication: Publication) -> None:
        self.kept[publication.id] = publication
        self.queues.setdefault(publication.group, collections.deque()).append(publication)
        self.news.set()

    def forget(self, group: GroupId) -> None:
        """The group was removed, and all that nobody has handled goes with it."""
        self.forget_plain(group)
        del self.not_plain[group]
        self.lacking.pop(group, None)
        self._handled.pop(group, None)
        for key in [key for key in self.named if key[0] == group]:
            self.named.pop(key).news.set()
        self.news.set()

    def forget_plain(self, group: GroupId) -> None:
        """Nobody without a name reads the group any more."""
        self.not_plain[group] = None
        self.kept = {one.id: one for one in self.kept.values() if one.group != group}
        self._fresh = [entry for entry in self._fresh if entry[1].group != group]
        self.queues.pop(group, None)

    def kept_in(self, group: GroupId) -> Iterable[Publication]:
        """What some reader of a group has not acknowledged, in the order of delivery."""
        found = dict(self.kept)
        for named in self.named.values():
            found |= named.kept
        ordered = sorted(found.values(), key=lambda one: self._order.get(one.id, 0))
        return [one for one in ordered if one.group == group]

    # States for newcomers

    def is_held(self, group: GroupId) -> bool:
        """Whether nothing of it is handed over now."""
        return self._held[group] > 0

    def hold(self, group: GroupId) -> None:
        """Hand over nothing of a group until `let_go`."""
        self._held[group] += 1

    def let_go(self, group: GroupId) -> None:
        """Hand over again, unless somebody else holds it."""
        self._held[group] = max(0, self._held[group] - 1)
        self.news.set()

    def unhandled(self, group: GroupId) -> set[MessageId]:
        """What was delivered in a group and is not acknowledged."""
        return {one.id for one in self.kept.values() if one.group == group}

    def position(self, group: GroupId) -> dict[int, int] | None:
        """By origin the last message that was handled; None while one is in somebody's hands, or
        one was handled behind another that was not."""
        waits = {one.id for one in self.queues.get(group, ())}
        return position_of(self._handled.get(group, {}), waits, self.unhandled(group))

    def cover(self, group: GroupId, position: dict[int, int]) -> None:
        """The application has a state that contains all up to `position`, by origin."""
        covered = covered_by(position, self.unhandled(group))
        for message in covered:
            del self.kept[message]
        queue = self.queues.get(group, ())
        self.queues[group] = collections.deque(one for one in queue if one.id not in covered)
        handled = self._handled.setdefault(group, {})
        for origin, number in position.items():
            handled[origin] = max(handled.get(origin, 0), number)
        self.lacking.pop(group, None)

    def give_back(self, publication: Publication) -> None:
        """The application could not handle it: it comes again next."""
        self.queues.setdefault(publication.group, collections.deque()).appendleft(publication)
        self.news.set()

    def acknowledge(self, message: MessageId, now: int) -> None:
        """The application has handled it; for a while the disk may not know that yet."""
        publication = self.kept.pop(message, None)
        if publication is not None:
            handled = self._handled.setdefault(publication.group, {})
            origin = origin_of(message)
            handled[origin] = max(handled.get(origin, 0), number_of(message))
            self.bytes -= len(publication.body) + OVERHEAD
            self._fresh = [entry for entry in self._fresh if entry[0] + ACKNOWLEDGE_WITHIN > now]
            self._fresh.append((now, publication))

    def restart(self, now: int, chance: random.Random) -> None:
        """The node was killed: some of the freshest acknowledgements never reached the disk."""
        fresh = [entry for at, entry in self._fresh if at + ACKNOWLEDGE_WITHIN > now]
        lost = fresh[chance.randint(0, len(fresh)) :]
        again = {entry.id: entry for entry in lost} | self.kept
        # In the order of delivery: of one group that of its queue, acknowledged ones first.
        self.kept, self._fresh, self.queues = again, [], {}
        self.redelivered += len(again)
        for publication in again.values():
            self.queues.setdefault(publication.group, collections.deque()).append(publication)
        self.news = asyncio.Event()
        self.readers, self.callers = {}, {}
        self._held.clear()
        for named in self.named.values():
            if not named.is_lost:
                named.restart(now, chance)
                named.bytes = sum(len(one.body) + OVERHEAD for one in named.kept.values())


class VirtualReceipt:
    """A publication that is durable at its origin."""

    def __init__(self, message: MessageId, group: str) -> None:
        self.id = message
        self.group = group


class VirtualReading(GroupReader[ReceivedMessage]):
    """Takes from one inbox of a node what it has of one group."""

    def __init__(self, node: "VirtualNode", name: str, group: GroupId, inbox: Inbox) -> None:
        self.name = name
        self._node = node
        self._group = group
        self._inbox = inbox

    def _group_name(self) -> str:
        return self.name

    def _keeper(self) -> Keeper:
        return self._node

    async def ack_many(self, messages: Iterable[AnyMessage], durable: bool = False) -> None:
        """Acknowledge all of them."""
        await ack_many(messages, durable)

    async def _arrival(self) -> None:
        inbox, me = self._inbox, asyncio.current_task()
        assert me is not None
        inbox.readers[self._group] = me
        try:
            inbox.news.clear()
            await inbox.news.wait()
        finally:
            if inbox.readers.get(self._group) is me:
                del inbox.readers[self._group]

    def on_message(self, callback: Callable[[ReceivedMessage], object]) -> None:
        self._check_not_called()
        super().on_message(callback)
        self._inbox.callers[self._group] = self._calling

    def _check_not_called(self) -> None:
        if self._inbox.callers.get(self._group) not in (None, asyncio.current_task()):
            raise NodeError(f"{self.name!r} is read already, by a callback")

    def _take(self) -> ReceivedMessage | None:
        self._check_reads()
        self._check_not_called()
        queue = self._inbox.queues.get(self._group)
        if queue and not self._inbox.is_held(self._group):
            return ReceivedMessage(self._keeper(), queue.popleft(), self._group_name())
        reader = self._inbox.readers.get(self._group)
        if reader is not None and not reader.done() and not reader.cancelling():
            raise NodeError(f"{self.name!r} is read already")
        return None

    def _check_reads(self) -> None:
        """Raise where nothing can be read any more."""
        self._node.check_alive()


class VirtualReader(VirtualReading):
    """A reader with a name; see `causalcast.Reader`."""

    def __init__(self, node: "VirtualNode", name: str, group: str, number: GroupId) -> None:
        super().__init__(node, name, number, node.inbox.named[number, name])
        self.group = group

    @property
    def inbox(self) -> Inbox:
        """Where its messages are given back."""
        return self._inbox

    def acknowledge(self, message: MessageId) -> None:
        """The application has handled `message` under this name."""
        self._check_reads()
        self._inbox.acknowledge(message, self._node.applications.now())

    def _group_name(self) -> str:
        return self.group

    def _keeper(self) -> Keeper:
        return self

    def _check_reads(self) -> None:
        self._node.check_alive()
        if self._inbox.is_lost:
            raise NodeError(
                f"reader {self.name!r} of {self.group!r} left more than {READER_BYTES.value} bytes "
                "unacknowledged and was ended: unsubscribe, and subscribe again"
            )
        if self._node.inbox.named.get((self._group, self.name)) is not self._inbox:
            raise NodeError(f"reader {self.name!r} was ended (`unsubscribe`)")


class VirtualGroup(VirtualReading):
    """A group as one node sees it; see `causalcast.runtime.node.Group`."""

    def __init__(self, node: "VirtualNode", name: str, group: GroupId) -> None:
        super().__init__(node, name, group, node.inbox)
        self._joined = False
        self._state: GroupState | None = None  # of its application, if that is kept here

    def keep_state(self, snapshot: Save | None, restore: Restore | None) -> None:
        """Let entering take the state of the group, and give it to others; see `Node.group`."""
        desk = self._node.desk
        self._state = GroupState(desk.newcomers, desk, self._group, snapshot, restore)

    async def __aenter__(self) -> "VirtualGroup":
        if self._state is not None:
            self._state.begin()
        joined = False
        try:
            if not self._node.is_member(self._group):
                applications = self._node.applications
                self._joined = joined = applications.cluster.join(self._node.id, self.name)
                await applications.until_member(self._node.id, self._group)
            if self._state is not None:
                await self._state.take()
        except BaseException:
            if self._state is not None:
                self._state.end()
            if joined:
                await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._state is not None:
            self._state.leave()
        if self._joined and not self._node.life.is_over:
            self._node.applications.cluster.leave(self._node.id, self.name)
        self._joined = False

    async def publish(
        self, body: bytes, headers: Mapping[str, str] | None = None, content_type: str = ""
    ) -> VirtualReceipt:
        """Publish `body`; returns when it is durable here."""
        self._node.check_alive()
        self._check_there()
        applications = self._node.applications
        said = said_of(headers, content_type)
        message = applications.cluster.publish(self._node.id, body, self.name, said)
        await applications.until_durable(self._node.id, message)
        return VirtualReceipt(message, self.name)

    async def publish_many(
        self,
        bodies: Sequence[bytes],
        headers: Mapping[str, str] | None = None,
        content_type: str = "",
    ) -> list[VirtualReceipt]:
        """Publish all of them in this order; returns when all are durable here."""
        self._node.check_alive()
        self._check_there()
        applications, me = self._node.applications, self._node.id
        said, publish = said_of(headers, content_type), applications.cluster.publish
        published = [publish(me, body, self.name, said) for body in bodies]
        for message in published:
            await applications.until_durable(me, message)
        return [VirtualReceipt(message, self.name) for message in published]

    async def subscribe(self, name: str, since: Since = "now") -> VirtualReader:
        """The reader `name`, with acknowledgements of its own."""
        self._node.check_alive()
        check_name(name)
        inbox, key = self._inbox, (self._group, name)
        if key not in inbox.named:
            if sum(1 for group, _ in inbox.named if group == self._group) >= MOST_READERS.value:
                raise NodeError(f"{self.name!r} may not have more readers with names")
            named = Inbox()
            if since == "kept":
                for publication in inbox.kept_in(self._group):
                    named.add(publication)
                    named.bytes += len(publication.body) + OVERHEAD
            inbox.named[key] = named
        reader = VirtualReader(self._node, name, self.name, self._group)
        reader._check_reads()
        return reader

    async def unsubscribe(self, name: str) -> None:
        """End the reader `name`: nothing is kept for it any more."""
        self._node.check_alive()
        check_name(name)
        if (self._group, name) not in self._inbox.named:
            raise NodeError(f"no reader {name!r} of {self.name!r}")
        self._check_somebody_reads(without=name)
        ended = self._inbox.named.pop((self._group, name))
        ended.news.set()

    async def begin_empty(self) -> None:
        """Say that nobody has the state of this group; see `Group.begin_empty`."""
        await begin_empty(self._node.desk.newcomers, self._node.desk, self._group)

    async def ask(self, node: int, body: bytes, timeout: float | None = None) -> bytes:
        """What the application of a neighbour answers to `body`; see `Group.ask`."""
        self._node.check_alive()
        return await self._node.desk.asking.ask(NodeId(node), self._group, body, timeout)

    def on_ask(self, handler: OnAsk | None) -> None:
        """Let `handler` answer what other nodes ask in this group; None: nobody."""
        self._node.desk.asking.on_ask(self._group, handler)

    async def set_plain_reader(self, wanted: bool) -> None:
        """Whether the group has a reader without a name."""
        self._node.check_alive()
        if wanted:
            if self._group in self._inbox.not_plain:  # it has missed something
                del self._inbox.not_plain[self._group]
                self._inbox.lacking[self._group] = None
        elif self._group not in self._inbox.not_plain:
            self._check_somebody_reads(without="")
            self._inbox.forget_plain(self._group)

    def _check_somebody_reads(self, without: str) -> None:
        others = [
            name
            for (group, name), named in self._inbox.named.items()
            if group == self._group and name != without and not named.is_lost
        ]
        is_plain = without != "" and self._group not in self._inbox.not_plain
        if not others and not is_plain:
            raise NodeError(f"nobody would read {self.name!r} any more")

    @property
    def number(self) -> GroupId:
        """Its number."""
        return self._group

    def _check_there(self) -> None:
        made = self._node.applications.cluster.made_at(self._node.id)
        if self._group >= FIRST_MADE and not made.has(self._group):
            raise NodeError(f"{self.name!r} was removed (`remove_group`)")

    def _check_reads(self) -> None:
        super()._check_reads()
        self._check_there()
        if self._group in self._inbox.not_plain:
            raise NodeError(f"{self.name!r} has no plain reader any more: subscribe by name")


class VirtualNode(GroupsByName[VirtualGroup]):
    """One life of a simulated node, as its application sees it; see `causalcast.Node`."""

    def __init__(self, applications: "Applications", node: int, life: Life, inbox: Inbox) -> None:
        self.id = NodeId(node)
        self.applications = applications
        self.life = life
        self.inbox = inbox
        self.desk = VirtualDesk(self)
        self.on_group_news: list[Callable[[str, bool], object]] = []

    def _handle(self, name: str, since: Since) -> VirtualGroup:
        group = self.applications.cluster.group_id(name, self.id)
        if not self.is_member(group):
            check_since(since, self.applications.cluster.protocol, name)
        return VirtualGroup(self, name, group)

    def _keep_state(
        self, handle: VirtualGroup, snapshot: Save | None, restore: Restore | None
    ) -> None:
        handle.keep_state(snapshot, restore)

    def presence(self) -> dict[NodeId, str]:
        """Who is there, as far as this node knows; see `Node.presence`."""
        return self.desk.presence()

    async def _make_group(self, name: str) -> None:
        self.check_alive()
        cluster = self.applications.cluster
        while name not in cluster.known_groups(self.id):
            await self._published(cluster.create_group(self.id, name))
        group = cluster.group_id(name, self.id)
        if not self.is_member(group):
            cluster.join(self.id, name)
            await self.applications.until_member(self.id, group)

    async def remove_group(self, name: str) -> None:
        self.check_alive()
        await self._published(self.applications.cluster.remove_group(self.id, name))

    def groups(self) -> list[str]:
        """All groups that this node has heard of."""
        return self.applications.cluster.known_groups(self.id)

    def on_groups(self, callback: Callable[[str, bool], object]) -> None:
        """Call `callback` with the name of every group that is made from now on, and True; with
        False when it is removed."""
        self.on_group_news.append(callback)

    async def _published(self, news: MessageId | None) -> None:
        if news is not None:
            await self.applications.until_durable(self.id, news)
            await asyncio.sleep(0)

    def status(self) -> dict[str, Any]:
        """How much was published and delivered here, per group and over all lives."""
        return self.applications.cluster.counts_of(self.id)

    def explain(self, message: MessageId) -> list[MessageId]:
        """What a message that is held here waits for."""
        return self.applications.cluster.explain(self.id, message)

    def is_member(self, group: GroupId) -> bool:
        """Whether the node is in that group."""
        return group in self.applications.cluster.groups_of(self.id)

    def acknowledge(self, message: MessageId) -> None:
        """The application has handled `message`; a crash soon after may hand it over again."""
        self.check_alive()
        self.inbox.acknowledge(message, self.applications.now())

    def check_alive(self) -> None:
        """Raise if this life is over."""
        if self.life.is_over:
            raise NodeError(f"node {self.id} was stopped")


class Applications:
    """One application per node of a cluster, each with its inbox, in one virtual event loop."""

    def __init__(self, cluster: Cluster, seed: int = 0) -> None:
        self.cluster = cluster
        self.inboxes: dict[int, Inbox] = {}
        self.nodes: dict[int, VirtualNode] = {}  # in their present life
        self._chance = random.Random(f"{seed}/acknowledgements")
        self._publishing: list[tuple[int, MessageId, asyncio.Future[None]]] = []
        self._joining: list[tuple[int, GroupId, asyncio.Future[None]]] = []
        self._over: dict[int, asyncio.Future[None]] = {}
        self._lives: list[Life] = []
        self._failure: asyncio.Future[None] | None = None
        self._loop = VirtualLoop(cluster.world, self._look_at_disks)
        cluster.on_delivery(self._deliver)
        cluster.on_joins = self._joins
        cluster.on_states = self._hear_of_state
        cluster.on_groups(self._hear_of_group)

    def now(self) -> int:
        """Virtual microseconds since the beginning."""
        return self.cluster.world.now

    def run(self, story: Coroutine[Any, Any, Result]) -> Result:
        """Run `story`, the test itself. The applications are cancelled when it ends.

        Raises what an application raised, if one did.
        """
        try:
            return self._loop.run_until_complete(self._watch(story))
        finally:
            self._tidy_up()

    def start(self, node: int, application: Application) -> VirtualNode:
        """Let `application` run at `node`, from the first thing that it has not acknowledged."""
        inbox = self.inboxes.setdefault(node, Inbox())
        life = Life()
        self._lives.append(life)
        virtual = self.nodes[node] = VirtualNode(self, node, life, inbox)
        self._over[node] = self._loop.create_future()
        task = self.in_life(life, application(virtual))
        task.add_done_callback(self._application_ended)
        return virtual

    def crash(self, node: int, keep: float = 0.0) -> None:
        """Kill node and application at once; nothing of either goes on, not even `finally`."""
        self.cluster.crash(node, keep)
        self.nodes[node].life.end()
        self._publishing = [waiting for waiting in self._publishing if waiting[0] != node]
        self._joining = [waiting for waiting in self._joining if waiting[0] != node]
        self.inboxes[node].restart(self.now(), self._chance)
        self._over[node].set_result(None)
        for other in self.nodes.values():
            if not other.life.is_over:
                self._loop.call_later(HEARD_AFTER, other.desk.direct.lost, NodeId(node))

    def recover(self, node: int, application: Application) -> VirtualNode:
        """Bring node and application back, with what each of them had kept."""
        self.cluster.recover(node)
        return self.start(node, application)

    async def call(self, node: int, work: Coroutine[Any, Any, Result]) -> Result:
        """Let the application's process do `work`; NodeError if it is killed meanwhile."""
        task = self.in_life(self.nodes[node].life, work)
        either: list[asyncio.Future[Any]] = [task, self._over[node]]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise NodeError(f"node {node} was killed")
        return task.result()

    def until_durable(self, node: int, message: MessageId) -> Awaitable[None]:
        """Something to wait for: the disk of `node` has its publication."""
        durable: asyncio.Future[None] = self._loop.create_future()
        self._publishing.append((node, message, durable))
        self._look_at_disks()
        return durable

    def until_member(self, node: int, group: GroupId) -> Awaitable[None]:
        """Something to wait for: `node` is in a group that it has asked to join."""
        member: asyncio.Future[None] = self._loop.create_future()
        self._joining.append((node, group, member))
        self._look_at_disks()
        return member

    def in_life(self, life: Life, work: Coroutine[Any, Any, Result]) -> "asyncio.Task[Result]":
        """Let something go on until a life ends, or it does itself."""
        context = contextvars.copy_context()
        context.run(LIFE.set, life)
        return self._loop.create_task(work, context=context)

    def _deliver(self, node: int, publication: Publication) -> None:
        self.inboxes.setdefault(node, Inbox()).add(publication)

    def _joins(self, node: int, group: GroupId) -> None:
        self.inboxes.setdefault(node, Inbox()).lacking[group] = None

    def _hear_of_state(self, node: int, origin: NodeId, body: bytes) -> None:
        virtual = self.nodes.get(node)
        if virtual is not None and not virtual.life.is_over:
            virtual.desk.newcomers.heard(origin, body)

    def _hear_of_group(self, node: int, name: str, group: GroupId, is_there: bool) -> None:
        if not is_there:
            self.inboxes.setdefault(node, Inbox()).forget(group)
        virtual = self.nodes.get(node)
        if virtual is not None and not virtual.life.is_over:
            for callback in virtual.on_group_news:
                callback(name, is_there)

    def _look_at_disks(self) -> None:
        waiting = []
        for node, message, durable in self._publishing:
            if self.cluster.world.nodes[node].disk.published < number_of(message):
                waiting.append((node, message, durable))
            elif not durable.done():
                durable.set_result(None)
        self._publishing = waiting
        joining, self._joining = self._joining, []
        for node, group, member in joining:
            if member.done():
                continue
            if group in self.cluster.groups_of(node):
                member.set_result(None)
            else:
                self._joining.append((node, group, member))

    def _application_ended(self, task: "asyncio.Task[None]") -> None:
        if self._failure is None or self._failure.done() or task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._failure.set_exception(error)

    async def _watch(self, story: Coroutine[Any, Any, Result]) -> Result:
        self._failure = self._loop.create_future()
        told = asyncio.ensure_future(story)
        either: list[asyncio.Future[Any]] = [told, self._failure]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if told.done():
            self._failure.cancel()
            return told.result()
        told.cancel()
        await asyncio.gather(told, return_exceptions=True)
        return self._failure.result()  # type: ignore[return-value]  # it raises

    def _tidy_up(self) -> None:
        """Cancel whatever is left, so that nothing hangs about when the test is over."""
        for life in self._lives:
            life.thaw(self._loop)
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        self._loop.run_until_complete(_all_done(left))
        self._loop.close()


async def _all_done(tasks: "set[asyncio.Task[Any]]") -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
