"""A node's TOML, read once into typed objects. Errors name the file, the key, what was expected.

[node] id, name, listen        [cluster] name, peers         [protocol] name and its options
[overlay] kind, edges, degree  [detector] kind, its options  [groups] name = [ids] or "*"
[storage] path                 [trace] path, level           [limits]     [security] tls
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from causalcast.core import graphs
from causalcast.core.blueprint import Blueprint
from causalcast.core.groups import Groups
from causalcast.core.ids import NODE_LIMIT, NodeId
from causalcast.core.spec import LayerSpec, Misfit, OptionValue
from causalcast.core.topology import Topology
from causalcast.errors import ConfigError
from causalcast.registry import find_detector, find_overlay, find_protocol
from causalcast.runtime.address_book import Address
from causalcast.runtime.tcp import DEFAULT_SEND_BUFFER
from causalcast.toml_table import Table
from causalcast.trace.kinds import LEVELS
from causalcast.wire.codec import DEFAULT_MAX_BODY

GRAPHS: Final = (*graphs.SIMPLE, "edges", "tree")

# Detectors that can tell something in a real network; `perfect` is for simulations.
DETECTORS: Final = ("link_loss", "heartbeat")


@dataclass
class Limits:
    """How much a node takes on before it lets publishers wait or writes to disk."""

    body_bytes: int = DEFAULT_MAX_BODY
    send_buffer_bytes: int = DEFAULT_SEND_BUFFER  # per link; beyond it the link is congested
    held_bytes: int = 8 << 20  # entries on their way to the disk
    inbox_bytes: int = 8 << 20  # bodies in memory that the application has not taken
    compact_bytes: int = 64 << 20  # a journal of this size is replaced by a snapshot


@dataclass
class NodeConfig:
    """Everything a node must know to start."""

    folder: Path  # relative paths start here; the control socket stands here
    node: NodeId
    name: str
    listen: Address
    cluster: str
    peers: dict[NodeId, Address]
    blueprint: Blueprint
    overlay: str
    storage: Path
    trace: Path | None
    trace_level: str
    limits: Limits = field(default_factory=Limits)

    @staticmethod
    def read(path: Path) -> "NodeConfig":
        """Read the TOML file at `path`; relative paths in it start at its folder."""
        return _read(Table.read(path), path.parent)

    @staticmethod
    def parse(text: str, folder: Path, where: str = "configuration") -> "NodeConfig":
        """The same from a text; relative paths in it start at `folder`."""
        return _read(Table.parse(text, where), folder)

    def facts(self) -> dict[str, str]:
        """What all nodes of the cluster must agree on; told and compared in greetings."""
        blueprint = self.blueprint
        graph = blueprint.topology.neighbours
        return {
            "protocol": blueprint.protocol.name,
            "options": repr(sorted(blueprint.protocol_options.items())),
            "overlay": blueprint.overlay.name,
            "graph": repr(sorted((node, sorted(peers)) for node, peers in graph.items())),
            "detector": blueprint.detector.name,
            "groups": repr(list(self.founders().items())),
        }

    def founders(self) -> dict[str, list[int]]:
        """Who is in which group from the beginning."""
        groups = self.blueprint.groups
        return {name: [*groups.members_of(groups.id_of(name))] for name in groups.names}


def _read(table: Table, folder: Path) -> NodeConfig:
    node_table = table.table("node")
    me = NodeId(node_table.integer("id", least=0))
    if me >= NODE_LIMIT:
        raise node_table.wrong("id", me, f"a number below {NODE_LIMIT}")
    name = node_table.text("name", f"node-{me}")
    listen = _address(node_table, "listen", node_table.text("listen"))
    node_table.finish()
    cluster_table = table.table("cluster")
    cluster = cluster_table.text("name", "causalcast")
    peers = _peers(cluster_table, me)
    cluster_table.finish()
    _check_security(table, [listen, *peers.values()])
    nodes = sorted([me, *peers])
    overlay, topology = _overlay(table.table("overlay"), nodes)
    blueprint = _blueprint(table, topology, _groups(table.table("groups"), nodes), folder)
    trace_table = table.table("trace")
    trace = folder / trace_table.text("path") if trace_table.has("path") else None
    level = trace_table.text("level", "messages", list(LEVELS))
    trace_table.finish()
    storage_table = table.table("storage")
    storage = folder / storage_table.text("path", "data")
    storage_table.finish()
    limits = _limits(table.table("limits"))
    table.finish()
    config = NodeConfig(
        folder, me, name, listen, cluster, peers, blueprint, overlay, storage, trace, level, limits
    )
    _check_buildable(config, table)
    return config


def _address(table: Table, key: str, text: object) -> Address:
    try:
        return Address.parse(str(text))
    except ValueError as error:
        raise table.wrong(key, text, str(error)) from None


def _peers(table: Table, me: NodeId) -> dict[NodeId, Address]:
    if table.has("contact"):
        raise ConfigError(
            f"{table.where}: cluster.contact: joining a running cluster is not built yet; "
            "list all nodes in cluster.peers"
        )
    peers: dict[NodeId, Address] = {}
    inner = table.table("peers")
    for key, text in inner.rest().items():
        if not key.isdecimal() or int(key) >= NODE_LIMIT:
            raise inner.wrong(key, text, "node ids as keys, such as 2 = '127.0.0.1:7402'")
        address = _address(inner, key, text)
        if int(key) != me:  # one list of peers may serve all nodes
            peers[NodeId(int(key))] = address
    return peers


def _check_security(table: Table, addresses: list[Address]) -> None:
    security = table.table("security")
    if security.flag("tls", False):
        raise security.wrong("tls", True, "false: TLS is not built yet, it comes later")
    security.finish()
    for address in addresses:
        if not address.is_loopback():
            raise ConfigError(
                f"{table.where}: {address} can be reached by others, and without TLS only "
                "loopback addresses (127.0.0.1) are allowed"
            )


def _overlay(table: Table, nodes: list[NodeId]) -> tuple[str, Topology]:
    kind = table.text("kind", "full_mesh", GRAPHS)
    if kind == "edges":
        edges = _edges(table, nodes)
    else:
        degree = table.integer("degree", 3, least=2) if kind == "tree" else 0
        edges = [(nodes[a], nodes[b]) for a, b in _graph(kind, len(nodes), degree)]
    table.finish()
    neighbours: dict[NodeId, dict[NodeId, None]] = {node: {} for node in nodes}
    for a, b in edges:
        neighbours[NodeId(a)][NodeId(b)] = None
        neighbours[NodeId(b)][NodeId(a)] = None
    return kind, Topology({node: list(peers) for node, peers in neighbours.items()})


def _graph(kind: str, nodes: int, degree: int) -> list[graphs.Edge]:
    """The edges of a regular graph over the places 0..n-1: the nodes in the order of their ids."""
    return graphs.tree(nodes, degree) if kind == "tree" else graphs.SIMPLE[kind](nodes)


def _edges(table: Table, nodes: list[NodeId]) -> list[graphs.Edge]:
    edges: list[graphs.Edge] = []
    for edge in table.items("edges"):
        if not isinstance(edge, list) or len(edge) != 2 or edge[0] == edge[1]:
            raise table.wrong("edges", edge, "pairs of two node ids, such as [[1, 2], [2, 3]]")
        for end in edge:
            if end not in nodes:
                raise table.wrong("edges", edge, f"nodes of this cluster ({_listed(nodes)})")
        edges.append((edge[0], edge[1]))
    return edges


def _groups(table: Table, nodes: list[NodeId]) -> Groups:
    members: dict[str, list[NodeId]] = {}
    for name, value in table.rest().items():
        if value == "*":
            members[name] = list(nodes)
            continue
        if not isinstance(value, list) or not all(node in nodes for node in value):
            raise table.wrong(name, value, f"'*' or a list of node ids ({_listed(nodes)})")
        members[name] = [NodeId(node) for node in value]
    if not members:
        raise ConfigError(f"{table.where}: groups: expected at least one, such as all = '*'")
    return Groups(members)


def _blueprint(table: Table, topology: Topology, groups: Groups, folder: Path) -> Blueprint:
    protocol_table = table.table("protocol")
    name = protocol_table.text("name")
    protocol = find_protocol(str(folder / name) if name.endswith(".py") else name)
    detector_table = table.table("detector")
    detector = find_detector(detector_table.text("kind", "link_loss", DETECTORS))
    overlay = find_overlay("static_graph")
    return Blueprint(
        protocol,
        _settings(protocol_table, protocol, "protocol"),
        overlay,
        overlay.settings({}),
        detector,
        _settings(detector_table, detector, "detector"),
        groups,
        topology,
        find_protocol,
    )


def _settings(table: Table, spec: LayerSpec, key: str) -> dict[str, OptionValue]:
    try:
        return spec.settings(table.rest())
    except ValueError as error:
        raise ConfigError(f"{table.where}: {key}.{error}") from None


def _limits(table: Table) -> Limits:
    usual = Limits()
    limits = Limits(
        **{
            name: table.integer(name, getattr(usual, name), least=1)
            for name in usual.__dataclass_fields__
        }
    )
    table.finish()
    return limits


def _check_buildable(config: NodeConfig, table: Table) -> None:
    """The protocol must fit the overlay, and its options the cluster."""
    reason = config.blueprint.misfit()
    if not reason:
        try:
            config.blueprint.build(config.node, "trial")
        except Misfit as misfit:
            reason = str(misfit)
    if reason:
        raise ConfigError(f"{table.where}: {reason}")


def _listed(nodes: list[NodeId]) -> str:
    return ", ".join(str(node) for node in nodes)
