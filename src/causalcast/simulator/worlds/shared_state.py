"""What all parts of a simulated world share: its nodes, the time, the trace, and what happened."""

from typing import Final, final

from causalcast.core.duration import SECOND
from causalcast.core.ids import NodeId
from causalcast.core.outbox import Outbox
from causalcast.core.world_facts import WorldFacts
from causalcast.simulator.worlds.sent_frames import SentFrames
from causalcast.simulator.worlds.sim_node import SimNode
from causalcast.simulator.worlds.world_plan import WorldPlan
from causalcast.trace.recorder import Recorder, code_of
from causalcast.wire.forms import Description, Forms

DUPLICATE: Final = code_of("duplicate")
DROP: Final = code_of("drop")


@final
class SharedState:
    """The nodes, one outbox for the step that is going on, the trace, and counts of events.

    The time is `out.now`: automata read it there, and there must be one time only.
    """

    def __init__(self, recorder: Recorder, codec: Forms, plan: WorldPlan) -> None:
        self.nodes: list[SimNode] = []
        self.out = Outbox()
        self.out.tells_duplicates = recorder.wants[DUPLICATE]
        self.out.world = WorldFacts(plan.keeps_records, plan.links_lose_nothing)
        self.plan = plan
        self.recorder = recorder
        self.codec = codec
        self.fired: dict[str, int] = {}  # how often each kind of fault, and each note, happened
        self.sent = SentFrames()
        self.messages_handled = 0
        self.most_messages = 0  # so many may be handled; 0: no limit
        self.most_dials = 0  # so many may a node make within a second; 0: no limit
        self._dials: dict[NodeId, int] = {}  # in this second
        self._second = 0
        if plan.links_lose_nothing:
            self.count("world.links_lose_nothing")
        if not plan.keeps_records:
            self.count("world.no_records")
        if plan.tells_congestion():
            self.count("world.congestion")
        if plan.read_us > 0:
            self.count("world.reads")

    def count(self, kind: str) -> None:
        """One more of that kind happened."""
        self.fired[kind] = self.fired.get(kind, 0) + 1

    def count_message(self) -> None:
        """One more message is handled; a protocol that goes on for ever is stopped."""
        self.messages_handled += 1
        if self.most_messages and self.messages_handled > self.most_messages:
            raise AssertionError("a storm")  # also where asserts are left out

    def count_dial(self, node: NodeId) -> None:
        """A node dials; one that does so without a pause is stopped."""
        second = self.out.now // SECOND
        if second != self._second:
            self._second = second
            self._dials = {}
        dials = self._dials[node] = self._dials.get(node, 0) + 1
        if self.most_dials and dials > self.most_dials:
            raise AssertionError("a storm of dials")

    def record_frame(self, kind: int, node: NodeId, peer: NodeId, about: Description) -> None:
        """A frame left for `peer`, or came from there."""
        self.recorder.add(
            node,
            self.out.now,
            kind,
            about.message,
            about.group,
            peer,
            about.payload_bytes,
            about.metadata_bytes,
            about.clock_entries,
            note=about.name,
        )

    def drop(self, node: NodeId, peer: NodeId, reason: str) -> None:
        """A frame was lost or refused."""
        self.recorder.add(node, self.out.now, DROP, peer=peer, note=reason)
