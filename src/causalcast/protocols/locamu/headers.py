"""The headers of all links of a node: one writer and one reader for each node within reach."""

from causalcast.core.ids import NodeId
from causalcast.parts.tree.neighbourhood import Pair
from causalcast.protocols.locamu.link_header import Header, HeaderReader, HeaderWriter, LinkPlan
from causalcast.protocols.locamu.peers import Peers


class Headers:
    """The state of each link's headers, in both directions; `compresses`: write only what
    changed."""

    def __init__(self, peers: Peers, window: int, compresses: bool) -> None:
        self._peers = peers
        self._window = window
        self._compresses = compresses
        self._plans: dict[Pair, LinkPlan] = {}
        self._writers: dict[NodeId, HeaderWriter] = {}
        self._readers: dict[NodeId, HeaderReader] = {}

    def __getstate__(self) -> dict[str, object]:
        """For searches that compare states: a cache is no part of the state."""
        return {**self.__dict__, "_plans": {}}

    def write(self, node: NodeId, header: Header, again: bool) -> bytes:
        """The next header to a node; that of a copy sent `again` does not build on those before
        it."""
        writer = self._writers.get(node)
        if writer is None:
            writer = HeaderWriter(self.plan(self._peers.me, node))
            self._writers[node] = writer
        if again:
            writer.start_over()
        if self._compresses:
            return writer.write(header)
        return writer.write_alone(header)

    def is_whole(self, node: NodeId, again: bool) -> bool:
        """Whether the next header to a node can be read without those before it."""
        writer = self._writers.get(node)
        return again or not self._compresses or writer is None or writer.starts_over

    def read(self, sender: NodeId, data: bytes) -> Header:
        """The header as it was written; raises if it cannot be read."""
        reader = self._readers.get(sender)
        if reader is None:
            reader = HeaderReader(self.plan(sender, self._peers.me))
            self._readers[sender] = reader
        return reader.read(data)

    def start_over(self, node: NodeId) -> None:
        """Let the next header to a node be whole: it missed one."""
        if node in self._writers:
            self._writers[node].start_over()

    def forget(self, peer: NodeId) -> None:
        """There is a new link, on which nothing was said yet."""
        self._writers.pop(peer, None)
        self._readers.pop(peer, None)

    def plan(self, source: NodeId, target: NodeId) -> LinkPlan:
        """What can stand in headers from one node to another."""
        plan = self._plans.get((source, target))
        if plan is None:
            peers = self._peers
            plan = LinkPlan(
                peers.around,
                source,
                target,
                peers.reach,
                self._window,
                peers.horizon,
                peers.goes_on,
            )
            self._plans[source, target] = plan
        return plan
