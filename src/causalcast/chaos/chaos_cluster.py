"""A local cluster whose packets pass through a network that can be disturbed."""

import contextlib
import os
import resource
import signal
import sys
from pathlib import Path

from causalcast.chaos.packet_network import PacketNetwork
from causalcast.chaos.small_limits import write_limits
from causalcast.errors import NodeError
from causalcast.runtime.operating.local_cluster import ClusterPlan, LocalCluster

PORT = 7400
ROOM = 3000  # bytes that a full disk still takes


class ChaosCluster(LocalCluster):
    """Nodes with an application that keeps a ledger. Without a packet network they use loopback."""

    def __init__(
        self,
        folder: Path,
        plan: ClusterPlan,
        network: PacketNetwork | None,
        rate: float = 0.0,
        limits: dict[str, float] | None = None,
    ) -> None:
        self.network = network
        self._limits = limits or {}
        self._was_up: set[int] = set()  # nodes that have answered, in this life
        plan.command = (sys.executable, "-m", "causalcast.chaos.chaos_node", str(rate))
        super().__init__(folder, plan)

    def new_addresses(self, nodes: list[int]) -> dict[int, str]:
        if self.network is None:
            return super().new_addresses(nodes)
        return {node: f"{self.network.add(node)}:{PORT}" for node in nodes}

    def start(self, node: int) -> None:
        self._was_up.discard(node)
        if self._limits:
            write_limits(self.folder_of(node), self._limits)
        inside = self.network.inside(node) if self.network else contextlib.nullcontext()
        with inside:
            super().start(node)

    def is_up(self, node: int) -> bool:
        """Whether it has found its place: not if it is still starting."""
        if not self.is_running(node):
            return False
        if node not in self._was_up:
            with contextlib.suppress(NodeError):  # it has not begun to answer
                if self.ask(node, "status")["takes_part"]:
                    self._was_up.add(node)
        return node in self._was_up

    def ask_what_it_is_at(self, node: int) -> None:
        """Let a process that does not answer write the lines it is at into its log."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process_id(node), signal.SIGUSR1)

    def fill_disk(self, node: int) -> None:
        """Let no file of the node's process grow by more than a little."""
        folder = self.folder_of(node)
        names = ("data/journal", f"trace/node-{node}.nodelog", "ledger", "node.log")
        files = [folder / name for name in names]
        size = max((file.stat().st_size for file in files if file.exists()), default=0)
        self._limit_files(node, size + ROOM)

    def free_disk(self, node: int) -> None:
        """Let files grow again, if the node has not stopped meanwhile."""
        if self.is_running(node):
            self._limit_files(node, resource.RLIM_INFINITY)

    def _limit_files(self, node: int, size: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            hard = resource.prlimit(self.process_id(node), resource.RLIMIT_FSIZE)[1]
            resource.prlimit(self.process_id(node), resource.RLIMIT_FSIZE, (size, hard))
