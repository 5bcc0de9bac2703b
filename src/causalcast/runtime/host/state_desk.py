"""What the transfer of states needs of a real node."""

import asyncio
from collections.abc import Awaitable
from typing import final

from causalcast.core.ids import GroupId, MessageId, NodeId
from causalcast.core.made_groups import FIRST_MADE, NEWS
from causalcast.core.stack import Stack
from causalcast.errors import NodeError
from causalcast.runtime.host.acknowledgements import Acknowledgements
from causalcast.runtime.host.group_directory import GroupDirectory
from causalcast.runtime.host.inbox import Inbox
from causalcast.runtime.host.newcomers import STATES, check_hands_over
from causalcast.runtime.host.publishing import Publishing
from causalcast.runtime.host.running import Running
from causalcast.runtime.links.links import Links
from causalcast.runtime.machine import Machine
from causalcast.runtime.node_config import NodeConfig
from causalcast.runtime.storage.durable_entry import StateStands
from causalcast.runtime.storage.reader_table import PLAIN


@final
class StateDesk:
    """Knows which states this node has, and where its application is in the order of a group."""

    def __init__(
        self,
        config: NodeConfig,
        machine: Machine,
        stack: Stack,
        inbox: Inbox,
        links: Links,
        publishing: Publishing,
        acknowledgements: Acknowledgements,
        directory: GroupDirectory,
        running: Running,
        is_kept: bool,
    ) -> None:
        self._config = config
        self._machine = machine
        self._stack = stack
        self._inbox = inbox
        self._links = links
        self._publishing = publishing
        self._acknowledgements = acknowledgements
        self._directory = directory
        self._running = running
        self._is_kept = is_kept

    def check_hands_over(self) -> None:
        """Raise NodeError where no state can be handed over."""
        check_hands_over(self._config.blueprint.protocol, self._is_kept)
        if self._inbox.handled is None:
            raise NodeError(
                "the journal of this node was begun by a version that did not write down what the "
                "application had handled, so it neither gives nor takes a state"
            )

    def lacks(self, group: GroupId) -> bool:
        """Whether this node has joined a group, and not taken its state since."""
        return group in self._inbox.lacking

    def joins(self, group: GroupId) -> None:
        """The node is about to be a member from now on: it lacks what was before."""
        if self._is_kept and STATES in self._config.blueprint.protocol.offers:
            self._inbox.lacking[group] = None
            self._acknowledgements.put(StateStands(int(group), True, {}))

    def neighbours(self) -> list[NodeId]:
        """Who has a link now."""
        return self._links.current_peers()

    def others(self) -> list[NodeId] | None:
        """All other nodes of the file; None where nodes come and go."""
        if self._config.is_changing():
            return None
        me = self._config.node
        return [node for node in self._config.blueprint.topology.neighbours if node != me]

    async def tell(self, body: bytes) -> None:
        """Publish news to everybody; returns when they are durable here."""
        published = self._publishing.publish(NEWS, body)
        if not isinstance(published, int):
            await published

    def objection(self, group: GroupId) -> str:
        """Why this node cannot give the state of a group to anybody; empty if it can."""
        if group not in self._stack.groups:
            return "it is no member"
        if self.lacks(group):
            return "it has not got the state itself"
        if not self._inbox.readers.owed_in(group) & PLAIN:
            return "the group is read by name alone there"
        try:
            self.check_hands_over()
        except NodeError as error:
            return str(error)
        return ""

    def is_member(self, group: GroupId) -> bool:
        """Whether this node is in a group."""
        return group in self._stack.groups

    def may_ask(self, peer: NodeId, group: GroupId) -> bool:
        """Whether `peer` may ask this node's application something: who may publish may."""
        if group >= FIRST_MADE:
            return self._directory.may_publish(peer, group)
        return self._config.rights.may_publish(peer, group)

    def may_have(self, peer: NodeId, group: GroupId) -> bool:
        """Whether `peer` may be a member of the group."""
        if group >= FIRST_MADE:
            return self._config.patterns.may_subscribe(peer, self._directory.name_of(group))
        return self._config.rights.may_subscribe(peer, group)

    def unhandled(self, group: GroupId) -> set[MessageId]:
        """What was delivered and is not acknowledged."""
        return self._inbox.unhandled(group)

    def position(self, group: GroupId) -> dict[int, int] | None:
        """By origin the last message that the application has handled, if it has none in its
        hands."""
        return self._inbox.position(group)

    def hold(self, group: GroupId) -> None:
        """Hand over nothing more of the group."""
        self._inbox.hold(group)

    def let_go(self, group: GroupId) -> None:
        """Hand over again."""
        self._inbox.let_go(group)

    def cover(self, group: GroupId, position: dict[int, int]) -> Awaitable[None]:
        """The application has a state that contains all up to `position`; done when durable."""
        marking = self._acknowledgements.put(StateStands(int(group), False, position))
        self._inbox.cover(group, position)
        assert marking is not None  # there is a journal
        return asyncio.shield(marking)

    def name_of(self, group: GroupId) -> str:
        """For people."""
        return self._directory.name_of(group)

    def check_alive(self) -> None:
        """Raise NodeError if the node has stopped."""
        self._running.check_alive()

    def draw(self) -> str:
        """A name that nobody had before."""
        return self._machine.entropy.some_bytes(8).hex()
