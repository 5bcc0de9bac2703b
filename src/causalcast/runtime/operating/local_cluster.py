"""A cluster of processes on this machine: one TOML, one folder and one process per node.

Where nodes join through contacts, node 1 founds the cluster and the others come through it. A node
that keeps nothing over a restart comes back as somebody new: with the next free id.

DIR/cluster.json            what was asked for
DIR/authority               the keys of the cluster; node 1 gives identities from it
DIR/node-1/node.toml        identity/  data/  trace/  node.log  control-1.sock
"""

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from causalcast.core.ids import NodeId
from causalcast.errors import ConfigError, NodeError
from causalcast.registry import find_protocol
from causalcast.runtime.node_config import (
    CHANGING,
    DEFAULT_DETECTOR,
    NodeConfig,
    toml_key,
    toml_text,
)
from causalcast.runtime.operating.control_client import ControlClient
from causalcast.runtime.security.authority import Authority

READY_WITHIN: Final = 20.0  # seconds from starting a process to its first answer,
READY_PER_NODE: Final = 2.0  # and more for each of those that start beside it
STOP_WITHIN: Final = 10.0
PLAN: Final = "cluster.json"
# Below the ports that the kernel gives to outgoing connections: while a node is down, nobody
# takes its port by chance.
PORTS: Final = range(20_000, 32_000)


@dataclass
class ClusterPlan:
    """What all nodes of a local cluster have in common."""

    nodes: int = 5
    protocol: str = "vector_clock_broadcast"
    options: dict[str, str] = field(default_factory=dict)
    overlay: str = "ring"
    detector: str = DEFAULT_DETECTOR
    groups: dict[str, list[int]] = field(default_factory=dict)  # none: one group of everybody
    trace_level: str = "messages"
    name: str = "local"
    transport: str = "tcp"
    tls: bool = True
    addresses: dict[int, str] = field(default_factory=dict)  # none: free ports on loopback
    clients: bool = False  # every node has a door
    # What a process runs, in front of the path of its TOML. It stops when its stdin closes, so
    # that no node outlives whoever started it.
    command: Sequence[str] = (
        *(sys.executable, "-m", "causalcast", "node"),
        "--until-stdin-closes",
    )

    def told(self) -> dict[str, Any]:
        """What makes a cluster another one, as it is written down."""
        return {
            "nodes": self.nodes,
            "protocol": self.protocol,
            "options": self.options,
            "overlay": self.overlay,
            "detector": self.detector,
            "groups": self.groups,
            "trace_level": self.trace_level,
            "transport": self.transport,
            "tls": self.tls,
            **({"clients": True} if self.clients else {}),
        }


class LocalCluster:
    """The processes of a cluster, by node id 1, 2, 3, …"""

    def __init__(self, folder: Path, plan: ClusterPlan, is_there: bool = False) -> None:
        """Write the folders and TOML files, unless they are there; ports are free ones of this
        moment."""
        self.folder = folder
        self.plan = plan
        self.ids = list(range(1, plan.nodes + 1))
        self._joins = plan.overlay in CHANGING
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._doors: list[str] = []  # addresses that were given to doors
        if is_there:
            self.addresses = {node: _listen_of(self.config_of(node)) for node in self.ids}
            self._authority = Authority.open(folder / "authority") if plan.tls else None
            return
        if folder.exists() and any(folder.iterdir()):
            raise ConfigError(f"{folder}: not empty; remove it or choose another folder")
        self.addresses = dict(plan.addresses) or self.new_addresses(self.ids)
        self._authority = Authority.found(folder / "authority", plan.name) if plan.tls else None
        for node in self.ids:
            self._write_config(node, [1] if self._joins and node != 1 else [])
        facts = {"nodes": self.ids, "protocol": plan.protocol, "groups": plan.groups}
        (folder / PLAN).write_text(json.dumps({**facts, "plan": plan.told()}) + "\n")

    @staticmethod
    def made_or_found(folder: Path, plan: ClusterPlan) -> "LocalCluster":
        """A new cluster, or the one that was made there by the same plan: it goes on.

        ConfigError if another one is there, or one whose nodes cannot come back.
        """
        try:
            found = json.loads((folder / PLAN).read_text()).get("plan")
        except FileNotFoundError:
            return LocalCluster(folder, plan)
        except ValueError:
            raise ConfigError(f"{folder / PLAN}: damaged; remove the folder") from None
        now = plan.told()
        if not isinstance(found, dict) or found != now:
            other = found if isinstance(found, dict) else {}
            differ = [name for name in now if other.get(name) != now[name]]
            raise ConfigError(
                f"{folder}: another cluster is there, with other {', '.join(differ)}; ask for the "
                "same one to start it again, remove the folder, or choose another --dir"
            )
        if find_protocol(plan.protocol).restart != "resume":
            raise ConfigError(
                f"{folder}: its nodes keep nothing over a restart ({plan.protocol} on "
                f"{plan.overlay}), so the cluster cannot go on; remove the folder"
            )
        return LocalCluster(folder, plan, is_there=True)

    def new_addresses(self, nodes: list[int]) -> dict[int, str]:
        """Where these nodes will listen: free ports of this moment."""
        return dict(zip(nodes, free_addresses(len(nodes)), strict=True))

    def door_of(self, node: int) -> str:
        """The address at which clients find a node; empty if there is no door."""
        door = NodeConfig.read(self.config_of(node)).clients
        if door is None:
            return ""
        return f"{'wss' if door.tls else 'ws'}://{door.listen}"

    def folder_of(self, node: int) -> Path:
        """Where everything of a node is."""
        return self.folder / f"node-{node}"

    def config_of(self, node: int) -> Path:
        """The TOML of a node."""
        return self.folder_of(node) / "node.toml"

    def start(self, node: int) -> None:
        """Start the process of a node; see `wait_ready`."""
        environment = dict(os.environ)
        # The package this process runs, installed or not.
        source = str(Path(__file__).parents[2])
        path = [source, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
        environment["PYTHONPATH"] = os.pathsep.join(path)
        with (self.folder_of(node) / "node.log").open("ab") as output:
            self._processes[node] = subprocess.Popen(
                [*self.plan.command, str(self.config_of(node))],
                stdout=output,
                stderr=output,
                stdin=subprocess.PIPE,
                env=environment,
                start_new_session=True,  # Ctrl-C is for us; we stop them in good order
            )

    def wait_ready(self, *nodes: int) -> None:
        """Wait until these nodes answer and take part; NodeError with the end of the log else."""
        wanted = nodes or self.ids
        deadline = time.monotonic() + READY_WITHIN + READY_PER_NODE * len(wanted)
        for node in wanted:
            while not self._answers(node):
                process = self._processes[node]
                if process.poll() is not None or time.monotonic() > deadline:
                    raise NodeError(f"node {node} did not start: {self.last_words(node)}")
                time.sleep(0.02)

    def start_all(self) -> None:
        """Start every node and wait until all answer."""
        for node in self.ids:
            self.start(node)
        self.wait_ready()

    def wait_linked(self) -> None:
        """Wait until every node has the links of its graph, or a while has passed."""
        deadline = time.monotonic() + READY_WITHIN + READY_PER_NODE * len(self.ids)
        for node in self.ids:
            graph = NodeConfig.read(self.config_of(node)).blueprint.topology.neighbours
            wanted = len(graph.get(NodeId(node), []))
            while len(self.ask(node, "status")["links"]) < wanted and time.monotonic() < deadline:
                time.sleep(0.05)

    def add(self, *contacts: int) -> int:
        """Let one more node come, through one of `contacts`; its id is returned."""
        node = self.begin_to_add(*contacts)
        self.wait_ready(node)
        return node

    def begin_to_add(self, *contacts: int) -> int:
        """The same without waiting until it has found its place."""
        node = max(self.ids) + 1
        self.ids.append(node)
        self.addresses |= self.new_addresses([node])
        self._write_config(node, list(contacts))
        self.start(node)
        return node

    def come_back(self, node: int) -> int:
        """Start a node that is down again; the id under which it is back is returned."""
        if self._joins and find_protocol(self.plan.protocol).restart != "resume":
            return self.add(next(peer for peer in self.ids if self.is_running(peer)))
        self.start(node)
        self.wait_ready(node)
        return node

    def ask(self, node: int, do: str, **request: Any) -> dict[str, Any]:
        """One request to a node."""
        with ControlClient(self.folder_of(node), node) as client:
            return client.ask(do, **request)

    def kill(self, node: int) -> None:
        """SIGKILL: the node has no chance to write or say anything."""
        self._processes[node].send_signal(signal.SIGKILL)
        self._reap(node, None)

    def pause(self, node: int) -> None:
        """SIGSTOP: the node stands still, and its links stay open."""
        self._processes[node].send_signal(signal.SIGSTOP)

    def resume(self, node: int) -> None:
        """SIGCONT: it goes on as if nothing had happened."""
        self._processes[node].send_signal(signal.SIGCONT)

    def is_running(self, node: int) -> bool:
        """Whether the node's process is there."""
        process = self._processes.get(node)
        return process is not None and process.poll() is None

    def stop(self, node: int) -> None:
        """Stop a node in good order, and wait for its end."""
        self._processes[node].send_signal(signal.SIGTERM)
        self._reap(node, STOP_WITHIN)

    def process_id(self, node: int) -> int:
        """The id of a node's process."""
        return self._processes[node].pid

    def stop_all(self) -> list[int]:
        """Stop every node in good order; those that had to be killed."""
        running = [node for node in self.ids if self.is_running(node)]
        for node in running:
            self._processes[node].send_signal(signal.SIGTERM)
        stubborn = []
        for node in running:
            try:
                self._reap(node, STOP_WITHIN)
            except subprocess.TimeoutExpired:
                self.kill(node)
                stubborn.append(node)
        return stubborn

    def last_words(self, node: int) -> str:
        """The last line of a node's log."""
        lines = (self.folder_of(node) / "node.log").read_text(errors="replace").splitlines()
        return lines[-1] if lines else "it said nothing"

    def _reap(self, node: int, timeout: float | None) -> None:
        process = self._processes[node]
        process.wait(timeout)
        assert process.stdin is not None
        process.stdin.close()

    def _answers(self, node: int) -> bool:
        with contextlib.suppress(NodeError):
            return bool(self.ask(node, "status")["takes_part"])
        return False

    def _write_config(self, node: int, contacts: list[int]) -> None:
        self.folder_of(node).mkdir(parents=True)
        if self._authority is not None:
            self._authority.make_identity(self.folder_of(node) / "identity", node)
        self.config_of(node).write_text(self._toml(node, contacts))

    def _toml(self, node: int, contacts: list[int]) -> str:
        plan = self.plan
        peers = ", ".join(f'{peer} = "{address}"' for peer, address in self.addresses.items())
        others = f"peers = {{ {peers} }}"
        if self._joins:
            others = f"contact = {[self.addresses[contact] for contact in contacts]}"
        options = "".join(
            f"{toml_key(key)} = {toml_text(value)}\n" for key, value in plan.options.items()
        )
        groups: dict[str, object] = {**plan.groups} or {"all": '"*"'}
        named = "".join(f"{toml_key(name)} = {members}\n" for name, members in groups.items())
        return (
            f'[node]\nid = {node}\nname = "node-{node}"\nlisten = "{self.addresses[node]}"\n'
            f'transport = "{plan.transport}"\n\n'
            f"[cluster]\nname = {toml_text(plan.name)}\n{others}\n\n"
            f"[protocol]\nname = {toml_text(plan.protocol)}\n{options}\n"
            f'[overlay]\nkind = "{plan.overlay}"\n\n'
            f'[detector]\nkind = "{plan.detector}"\n\n'
            f"[groups]\n{named}\n"
            f"[security]\n{self._security(node)}\n"
            '[storage]\npath = "data"\n\n'
            f'[trace]\npath = "trace"\nlevel = "{plan.trace_level}"\n'
            + (f'\n[clients]\nlisten = "{self._new_door()}"\n' if plan.clients else "")
        )

    def _new_door(self) -> str:
        """An address that nobody uses now, and that no node was given."""
        given = {*self.addresses.values(), *self._doors}
        door = next(one for one in free_addresses(len(given) + 1) if one not in given)
        self._doors.append(door)
        return door

    def _security(self, node: int) -> str:
        if self._authority is None:
            return "tls = false\n"
        return 'identity = "identity"\n' + ('authority = "../authority"\n' if node == 1 else "")


def free_addresses(count: int, host: str = "127.0.0.1") -> list[str]:
    """Addresses of this machine that nobody uses now, all different."""
    found: list[str] = []
    ports = random.sample(PORTS, len(PORTS))
    with contextlib.ExitStack() as opened:
        while len(found) < count:
            port = ports.pop()
            with contextlib.suppress(OSError):
                opened.enter_context(socket.socket()).bind((host, port))
                found.append(f"{host}:{port}")
    return found


def _listen_of(path: Path) -> str:
    """Where the node of a TOML file listens."""
    return str(NodeConfig.read(path).listen)
