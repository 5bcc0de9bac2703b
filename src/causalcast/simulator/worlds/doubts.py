"""Nodes that are suspected: rightly, because they hang, or wrongly, because a fault says so."""

from typing import final

from causalcast.core.ids import NodeId
from causalcast.simulator.worlds.lives import CRASH
from causalcast.simulator.worlds.shared_state import SharedState
from causalcast.simulator.worlds.sim_node import SimNode
from causalcast.simulator.worlds.steps import Call, PlanningWorld, Steps
from causalcast.simulator.worlds.traffic import Traffic


@final
class Doubts:
    """Who suspects whom because of a fault, and who stopped without anybody hearing of it."""

    def __init__(
        self,
        shared: SharedState,
        steps: Steps,
        world: PlanningWorld,
        traffic: Traffic,
        detection_us: int,
    ) -> None:
        self._shared = shared
        self._nodes = shared.nodes
        self._out = shared.out
        self._steps = steps
        self._world = world
        self._traffic = traffic
        self._detection_us = detection_us
        self._suspicions: dict[tuple[NodeId, NodeId], None] = {}  # (who, whom)
        self._hanging: dict[NodeId, None] = {}

    def hang(self, me: NodeId, keep: float) -> None:
        """The node stops, and nobody hears that its links are gone, as when a machine freezes.

        Of what it had sent, the first `keep` of each link still arrives. After a while detectors
        notice its silence; nothing else ever tells the others.
        """
        node = self._nodes[me]
        if not node.up:
            self._shared.count("fault_skipped")
            return
        self._shared.count("hang")
        self._shared.recorder.add(me, self._out.now, CRASH)
        node.up = False
        self._hanging[me] = None
        self._traffic.lose_under_way(node, keep)
        node.forget_volatile()
        self._world.plan(self._out.now + self._detection_us, lambda: self._notice_silence(me))

    def end_silence(self, me: NodeId) -> None:
        """The node came back; who had noticed its silence hears it again."""
        if me in self._hanging:
            del self._hanging[me]
            self.trust(me, None)

    def _notice_silence(self, me: NodeId) -> None:
        for node in self._nodes:
            if me in node.channels:
                self._doubt(node, me)

    def _doubt(self, watcher: SimNode, silent: NodeId) -> None:
        if watcher.paused is not None:
            watcher.paused.append(Call(lambda: self._doubt(watcher, silent)))
        elif not self._nodes[silent].up:
            self.suspect(silent, watcher.me)

    def suspect(self, whom: NodeId, by: NodeId | None) -> None:
        """Let `by`, or everybody with a link to `whom`, suspect it until told otherwise."""
        for watcher in self._watchers(whom, by):
            self._shared.count("suspect")
            self._suspicions[watcher.me, whom] = None
            watcher.stack.suspect(whom, self._out)
            self._steps.finish(watcher, None)

    def trust(self, whom: NodeId, by: NodeId | None) -> None:
        """End suspicions of `whom` that a fault had raised; of one that hangs they stay."""
        if whom in self._hanging and not self._nodes[whom].up:
            return
        for who, suspected in list(self._suspicions):
            if suspected == whom and by in (None, who):
                del self._suspicions[who, suspected]
                watcher = self._nodes[who]
                if watcher.up:
                    watcher.stack.trust(whom, self._out)
                    self._steps.finish(watcher, None)

    def end_all(self) -> None:
        """End every suspicion that a fault had raised."""
        for who, whom in list(self._suspicions):
            self.trust(whom, who)

    def _watchers(self, whom: NodeId, by: NodeId | None) -> list[SimNode]:
        if by is not None:
            found = [self._nodes[by]]
        else:
            found = [node for node in self._nodes if whom in node.channels]
        return [node for node in found if node.up and node.paused is None]
