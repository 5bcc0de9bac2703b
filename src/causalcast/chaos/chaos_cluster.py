"""A local cluster whose packets pass through a network that can be disturbed."""

import contextlib
import resource
import sys
from pathlib import Path

from causalcast.chaos.packet_network import PacketNetwork
from causalcast.runtime.operating.local_cluster import ClusterPlan, LocalCluster

PORT = 7400
ROOM = 3000  # bytes that a full disk still takes


class ChaosCluster(LocalCluster):
    """Nodes with an application that keeps a ledger. Without a packet network they use loopback."""

    def __init__(self, folder: Path, plan: ClusterPlan, network: PacketNetwork | None) -> None:
        self.network = network
        plan.command = (sys.executable, "-m", "causalcast.chaos.chaos_node")
        super().__init__(folder, plan)

    def new_addresses(self, nodes: list[int]) -> dict[int, str]:
        if self.network is None:
            return super().new_addresses(nodes)
        return {node: f"{self.network.add(node)}:{PORT}" for node in nodes}

    def start(self, node: int) -> None:
        inside = self.network.inside(node) if self.network else contextlib.nullcontext()
        with inside:
            super().start(node)

    def fill_disk(self, node: int) -> None:
        """Let no file of the node's process grow by more than a little."""
        folder = self.folder_of(node)
        files = [folder / "data/journal", folder / f"trace/node-{node}.nodelog", folder / "ledger"]
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
