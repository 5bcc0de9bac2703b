"""What transfers of states and questions need of a node of the test kit."""

import asyncio
import random
from collections.abc import Awaitable, Coroutine
from typing import TYPE_CHECKING, Final, final

from causalcast.core.ids import GroupId, MessageId, NodeId
from causalcast.core.made_groups import NEWS
from causalcast.runtime.host.asking import Asking
from causalcast.runtime.host.direct import Direct
from causalcast.runtime.host.newcomers import Newcomers, check_hands_over
from causalcast.runtime.host.presence import AWAY, HERE, LINKED, UNKNOWN
from causalcast.wire.codec import BODY_BYTES

if TYPE_CHECKING:
    from causalcast.testing.applications import VirtualNode

HEARD_AFTER: Final = 0.05  # seconds until it is known that a link was lost
STANDS_STILL: Final = 0.01  # seconds until what came for a paused node is looked at again


@final
class VirtualDesk:
    """Of one life of a node. Requests take as long as messages do, and are lost in silent cuts."""

    def __init__(self, node: "VirtualNode") -> None:
        self._node = node
        self._cluster = node.applications.cluster
        self._chance = random.Random(f"{node.id}/{node.applications.now()}/direct")
        self._drawn = 0
        self.direct = Direct(self._send, self._beside)
        self.newcomers = Newcomers(self, self.direct, self._beside, node.id)
        self.asking = Asking(node.id, self.direct, self, BODY_BYTES.value)

    def _beside(self, work: Coroutine[None, None, None]) -> None:
        self._node.applications.in_life(self._node.life, work)

    def _send(self, to: NodeId, data: bytes) -> str:
        world = self._cluster.world
        channel = world.nodes[self._node.id].channels.get(to) if to < len(world.nodes) else None
        if channel is None or not channel.known or not world.nodes[to].up:
            return "there is no link to it now (only neighbours that are there can be asked)"
        low, high = self._cluster.latency_ms
        late = (channel.fixed + channel.extra) / 1e6 + self._chance.uniform(low, high) / 1000
        if not channel.cut:
            asyncio.get_running_loop().call_later(late, self._arrive, to, data)
        return ""

    def _arrive(self, to: NodeId, data: bytes) -> None:
        world, other = self._cluster.world, self._node.applications.nodes.get(to)
        if other is None or other.life.is_over or not world.nodes[to].up:
            return
        if world.nodes[to].paused is not None:
            asyncio.get_running_loop().call_later(STANDS_STILL, self._arrive, to, data)
        else:
            other.desk.direct.came(self._node.id, data)

    # What transfers ask

    def check_hands_over(self) -> None:
        """Raise NodeError where no state can be handed over."""
        check_hands_over(self._cluster.protocol, True)

    def lacks(self, group: GroupId) -> bool:
        """Whether this node has joined a group, and not taken its state since."""
        return group in self._node.inbox.lacking

    def neighbours(self) -> list[NodeId]:
        """Who has a link now."""
        nodes = self._cluster.world.nodes
        return [peer for peer in nodes[self._node.id].channels if nodes[peer].up]

    def others(self) -> list[NodeId] | None:
        """All other nodes."""
        every = self._cluster.blueprint.topology.neighbours
        return [one for one in every if one != self._node.id]

    async def tell(self, body: bytes) -> None:
        """Publish news to everybody; returns when they are durable here."""
        self._node.check_alive()
        message = self._cluster.publish_to(self._node.id, NEWS, body)
        await self._node.applications.until_durable(self._node.id, message)

    def objection(self, group: GroupId) -> str:
        """Why this node cannot give the state of a group to anybody; empty if it can."""
        if not self.is_member(group):
            return "it is no member"
        if self.lacks(group):
            return "it has not got the state itself"
        if group in self._node.inbox.not_plain:
            return "the group is read by name alone there"
        return ""

    def is_member(self, group: GroupId) -> bool:
        """Whether this node is in it."""
        return self._node.is_member(group)

    def may_have(self, peer: NodeId, group: GroupId) -> bool:
        """There are no rights here."""
        return True

    def may_ask(self, peer: NodeId, group: GroupId) -> bool:
        """There are no rights here."""
        return True

    def unhandled(self, group: GroupId) -> set[MessageId]:
        """What was delivered and is not acknowledged."""
        return self._node.inbox.unhandled(group)

    def position(self, group: GroupId) -> dict[int, int] | None:
        """By origin the last message that the application has handled, if it has none in its
        hands."""
        return self._node.inbox.position(group)

    def hold(self, group: GroupId) -> None:
        """Hand over nothing more of the group."""
        self._node.inbox.hold(group)

    def let_go(self, group: GroupId) -> None:
        """Hand over again."""
        self._node.inbox.let_go(group)

    def cover(self, group: GroupId, position: dict[int, int]) -> Awaitable[None]:
        """The application has a state that contains all up to `position`."""
        self._node.inbox.cover(group, position)
        return asyncio.sleep(0)

    def name_of(self, group: GroupId) -> str:
        """For people."""
        cluster, me = self._cluster, self._node.id
        names = [name for name in cluster.known_groups(me) if cluster.group_id(name, me) == group]
        return names[0] if names else f"(removed {group})"

    def presence(self) -> dict[NodeId, str]:
        """Who is there, as far as this node can know; as `Node.presence` has it."""
        me, neighbours = self._node.id, self._cluster.blueprint.topology.neighbours
        found = dict.fromkeys(neighbours, UNKNOWN)
        found |= {NodeId(one): AWAY for one in neighbours.get(me, [])}
        for peer, channel in self._cluster.world.nodes[me].channels.items():
            if channel.known and channel.current:
                found[peer] = LINKED
        return {**found, me: HERE}

    def check_alive(self) -> None:
        """Raise NodeError if this life is over."""
        self._node.check_alive()

    def draw(self) -> str:
        """A name that nobody had before."""
        self._drawn += 1
        return f"{self._node.applications.now()}.{self._drawn}"
