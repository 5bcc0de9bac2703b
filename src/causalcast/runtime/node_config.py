"""A node's TOML, read once into typed objects. Errors name the file, the key, what was expected.

[node] id, name, listen, advertise, event_loop              [groups] name = [ids] or "*"
[cluster] name, peers or contact
[protocol] name and its options     [overlay] kind and its options    [detector] kind, its options
[storage] path, durable             [trace] path, level, max_bytes    [limits]  [metrics] listen
[security] tls, identity, authority, sign                              [rights.GROUP] publish, …
[clients] listen, tls, certificate, key, origins, groups, kept_messages, kept_bytes
[udp] cluster_key                   (with [node] transport = "udp")

On an overlay that changes nodes know nobody at first: they join through a contact, and the one
without a contact founds the cluster. A node with `id = "new"` is somebody new in every life.
"""

import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from causalcast.core import graphs
from causalcast.core.blueprint import Blueprint
from causalcast.core.groups import Groups
from causalcast.core.ids import NODE_LIMIT, GroupId, NodeId
from causalcast.core.spec import LayerSpec, Misfit, OptionValue, OverlaySpec
from causalcast.core.topology import Topology
from causalcast.errors import ConfigError
from causalcast.limits import Limit
from causalcast.registry import find_detector, find_overlay, find_protocol
from causalcast.runtime.links.address_book import Address
from causalcast.runtime.links.links import CONTROL_PER_SECOND, SEND_BUFFER_BYTES
from causalcast.runtime.security.identity import Identity
from causalcast.runtime.security.rights import GroupPatterns, Rights
from causalcast.toml_table import Table
from causalcast.trace.kinds import LEVELS
from causalcast.trace.node_log import MAX_BYTES
from causalcast.wire.codec import BODY_BYTES

GRAPHS: Final = (*graphs.SIMPLE, "edges", "tree")
CHANGING: Final = ("hyparview", "open_mesh")  # overlays whose nodes come through contacts
NEW: Final = "new"
TRANSPORTS: Final = ("tcp", "udp")
SHORTEST_KEY: Final = 32  # bytes
EVENT_LOOPS: Final = ("asyncio", "uvloop")

# Detectors that can tell something in a real network; `perfect` is for simulations.
DETECTORS: Final = ("link_loss", "heartbeat", "adaptive_heartbeat")
# A link over TCP to a node that hangs, or that was cut off, can stay up for hours.
DEFAULT_DETECTOR: Final = "adaptive_heartbeat"


HELD_BYTES: Final = Limit(
    "runtime.node_config.held_bytes",
    8 << 20,
    least=1,
    most=1 << 40,
    unit="bytes",
    about="entries on their way to the disk; beyond it publishers wait",
    setting="[limits] held_bytes",
)
INBOX_BYTES: Final = Limit(
    "runtime.node_config.inbox_bytes",
    8 << 20,
    least=1,
    most=1 << 40,
    unit="bytes",
    about="bodies in memory that the application has not taken; then links are read no further",
    setting="[limits] inbox_bytes",
)
COMPACT_BYTES: Final = Limit(
    "runtime.node_config.compact_bytes",
    64 << 20,
    least=1,
    most=1 << 40,
    unit="bytes",
    about="a journal of this size is replaced by a snapshot",
    setting="[limits] compact_bytes",
)
KEPT_BYTES: Final = Limit(
    "runtime.node_config.kept_bytes",
    256 << 20,
    least=1,
    most=1 << 40,
    unit="bytes",
    about="messages kept for neighbours that lack them; then nobody publishes",
    setting="[limits] kept_bytes",
)
READER_BYTES: Final = Limit(
    "runtime.node_config.reader_bytes",
    64 << 20,
    least=1,
    most=1 << 40,
    unit="bytes",
    about="what a reader with a name may leave unacknowledged before it is ended",
    setting="[limits] reader_bytes",
)
STAMP_EVERY: Final = Limit(
    "runtime.node_config.stamp_every",
    10_000,
    least=1,
    most=1 << 50,
    unit="microseconds",
    about="the next publication behind such a time says when it was published; 1: all do",
    setting="[limits] stamp_every_us",
)
KEPT_FOR_CLIENTS: Final = Limit(
    "runtime.node_config.kept_for_clients",
    10_000,
    least=1,
    most=1 << 24,
    unit="messages",
    about="the last deliveries, kept for clients that come back",
    setting="[clients] kept_messages",
)
KEPT_FOR_CLIENTS_BYTES: Final = Limit(
    "runtime.node_config.kept_for_clients_bytes",
    16 << 20,
    least=1,
    most=1 << 40,
    unit="bytes",
    about="the same in bytes of memory",
    setting="[clients] kept_bytes",
)


@dataclass
class Limits:
    """How much a node takes on before it lets publishers wait or writes to disk.

    These are the limits that its file can set; `causalcast limits` shows all there are.
    """

    body_bytes: int = field(default_factory=lambda: BODY_BYTES.value)
    send_buffer_bytes: int = field(default_factory=lambda: SEND_BUFFER_BYTES.value)
    held_bytes: int = field(default_factory=lambda: HELD_BYTES.value)
    inbox_bytes: int = field(default_factory=lambda: INBOX_BYTES.value)
    compact_bytes: int = field(default_factory=lambda: COMPACT_BYTES.value)
    kept_bytes: int = field(default_factory=lambda: KEPT_BYTES.value)
    control_per_second: int = field(default_factory=lambda: CONTROL_PER_SECOND.value)
    reader_bytes: int = field(default_factory=lambda: READER_BYTES.value)
    stamp_every_us: int = field(default_factory=lambda: STAMP_EVERY.value)


@dataclass(frozen=True)
class Security:
    """How a node shows who it is, and knows who others are."""

    tls: bool = True
    identity: Path = Path("identity")  # a folder of `causalcast keys`
    authority: Path | None = None  # this node gives identities to those who have a token
    sign: bool = False  # origins sign what they publish


@dataclass(frozen=True)
class ClientDoor:
    """Where programs and browsers that are no nodes come in, and who of them may."""

    listen: Address  # for WebSocket
    http: Address | None  # for those who cannot
    tls: bool
    certificate: Path | None  # None: the node's own, which clients know by their token
    key: Path | None
    origins: list[str]  # of pages in browsers
    groups: list[str]
    made_groups: list[str]  # prefixes of those that are made while the cluster runs
    kept_messages: int  # for clients that come back
    kept_bytes: int


@dataclass
class NodeConfig:
    """Everything a node must know to start."""

    folder: Path  # relative paths start here; the control socket stands here
    node: NodeId
    name: str
    listen: Address
    advertise: Address  # where others reach it, told in greetings
    cluster: str
    peers: dict[NodeId, Address]
    blueprint: Blueprint
    overlay: str
    storage: Path
    trace: Path | None
    trace_level: str
    trace_bytes: int = MAX_BYTES.default  # what the trace may take of the disk
    limits: Limits = field(default_factory=Limits)
    metrics: Address | None = None  # where numbers are served
    event_loop: str = "asyncio"  # which one a node's process runs on
    durable: bool = True  # False: nothing is kept over a restart, and publishing waits for no disk
    security: Security = field(default_factory=Security)
    rights: Rights = field(default_factory=Rights)
    patterns: GroupPatterns = field(default_factory=GroupPatterns)  # of groups made later
    always_new: bool = False  # another id in every life
    contacts: list[Address] = field(default_factory=list)  # through whom it joins
    late_groups: list[GroupId] = field(default_factory=list)  # it joins them when it comes
    transport: str = "tcp"
    cluster_key: bytes = b""  # seals the datagrams of UDP
    clients: ClientDoor | None = None

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
        facts = {
            "protocol": blueprint.protocol.name,
            "options": _fact(blueprint.protocol_options),
            "overlay": blueprint.overlay.name,
            "detector": blueprint.detector.name,
            # A body that one may publish and another refuses would end their link again and again.
            "body_bytes": str(self.limits.body_bytes),
        }
        if self.security.sign:
            facts["sign"] = "true"
        rights = self.rights.facts(blueprint.groups.names)
        if rights:
            facts["rights"] = _fact(rights)
        patterns = self.patterns.facts()
        if patterns:
            facts["groups made later"] = _fact(patterns)
        if self.is_changing():
            facts["overlay options"] = _fact(blueprint.overlay_options)
            facts["groups"] = _fact(blueprint.groups.names)
        else:
            graph = blueprint.topology.neighbours
            facts["graph"] = _fact({node: sorted(peers) for node, peers in sorted(graph.items())})
            facts["groups"] = _fact(list(self.founders().items()))
        return facts

    def restart(self) -> str:
        """What a restart brings back: everything ("resume") or nothing ("reborn")."""
        return self.blueprint.protocol.restart if self.durable else "reborn"

    def control_name(self) -> str:
        """What its control socket is called after: the id, unless that is new in every life."""
        return NEW if self.always_new else str(self.node)

    def is_changing(self) -> bool:
        """Whether nodes come and go, so that nobody knows all of them."""
        return self.overlay in CHANGING

    def founders(self) -> dict[str, list[int]]:
        """Who is in which group from the beginning."""
        groups = self.blueprint.groups
        return {name: [*groups.members_of(groups.id_of(name))] for name in groups.names}


def toml_key(name: str) -> str:
    """A key as TOML wants it, in quotes where it needs them."""
    bare = name.replace("_", "").replace("-", "")
    return name if bare.isascii() and bare.isalnum() else toml_text(name)


def toml_text(text: str) -> str:
    """Any text as a string of TOML: whatever is in it, it ends where it ends."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _fact(value: object) -> str:
    """JSON, so that a newcomer can read it; keys sorted, so that equal means equal."""
    return json.dumps(value, sort_keys=isinstance(value, dict))


def _read(table: Table, folder: Path) -> NodeConfig:
    security = _security(table.table("security"), folder)
    node_table = table.table("node")
    me, always_new = _own_id(node_table, security)
    name = node_table.text("name", f"node-{me}")
    listen = _address(node_table, "listen", node_table.text("listen"))
    advertise = listen
    if node_table.has("advertise"):
        advertise = _address(node_table, "advertise", node_table.text("advertise"))
    transport = node_table.text("transport", "tcp", TRANSPORTS)
    event_loop = node_table.text("event_loop", "asyncio", EVENT_LOOPS)
    node_table.finish()
    cluster_key = _cluster_key(table.table("udp"), transport, folder)
    cluster_table = table.table("cluster")
    cluster = cluster_table.text("name", "causalcast")
    peers = _peers(cluster_table, me)
    contacts = _contacts(cluster_table)
    if not security.tls and not cluster_key:
        places = [("node.listen", listen), ("node.advertise", advertise)]
        places += [("cluster.contact", contact) for contact in contacts]
        places += [(f"cluster.peers.{peer}", address) for peer, address in peers.items()]
        _check_private(table, places)
    overlay_table = table.table("overlay")
    overlay = overlay_table.text("kind", "full_mesh", (*GRAPHS, *CHANGING))
    late_groups: list[GroupId] = []
    patterns = GroupPatterns()
    if overlay in CHANGING:
        if peers:
            raise cluster_table.wrong("peers", "…", f"none: {overlay} finds neighbours by itself")
        groups, late_groups = _groups_of_comers(table.table("groups"), me, bool(contacts))
        blueprint = _changing_blueprint(table, overlay_table, overlay, me, groups, folder)
    else:
        if contacts or always_new:
            raise ConfigError(
                f"{table.where}: overlay.kind = {overlay!r} is fixed: list all nodes and their ids "
                f"in cluster.peers, or choose an overlay that nodes join ({', '.join(CHANGING)})"
            )
        nodes = sorted([me, *peers])
        group_table = table.table("groups")
        patterns = _patterns(group_table, nodes)
        groups = _groups(group_table, nodes)
        blueprint = _fixed_blueprint(table, overlay_table, overlay, nodes, groups, folder)
    cluster_table.finish()
    trace_table = table.table("trace")
    trace = folder / trace_table.text("path") if trace_table.has("path") else None
    level = trace_table.text("level", "messages", list(LEVELS))
    trace_bytes = trace_table.integer("max_bytes", MAX_BYTES.value, least=int(MAX_BYTES.least))
    trace_table.finish()
    storage_table = table.table("storage")
    storage = folder / storage_table.text("path", "data")
    durable = storage_table.flag("durable", True)
    if always_new:
        storage = storage / f"life-{me}"
    storage_table.finish()
    limits = _limits(table.table("limits"))
    metrics_table = table.table("metrics")
    metrics = None
    if metrics_table.has("listen"):
        metrics = _address(metrics_table, "listen", metrics_table.text("listen"))
    metrics_table.finish()
    clients = _clients(table, security, blueprint, folder)
    rights_table = table.table("rights")
    patterns.read_rights(rights_table)
    rights = Rights.read(rights_table, groups)
    rights.check_members(groups, table.where)
    table.finish()
    config = NodeConfig(
        folder=folder,
        node=me,
        name=name,
        listen=listen,
        advertise=advertise,
        cluster=cluster,
        peers=peers,
        blueprint=blueprint,
        overlay=overlay,
        storage=storage,
        trace=trace,
        trace_level=level,
        trace_bytes=trace_bytes,
        limits=limits,
        metrics=metrics,
        durable=durable,
        event_loop=event_loop,
        security=security,
        rights=rights,
        patterns=patterns,
        always_new=always_new,
        contacts=contacts,
        late_groups=late_groups,
        transport=transport,
        cluster_key=cluster_key,
        clients=clients,
    )
    _check_buildable(config, table)
    return config


def _own_id(table: Table, security: Security) -> tuple[NodeId, bool]:
    """The id of this life, and whether it is a new one each time."""
    given = table.anything("id")
    if given == NEW:
        first, last = 1, NODE_LIMIT - 1
        if security.tls:
            passport = Identity.read(security.identity).passport
            first, last = passport.first, passport.last
        return NodeId(random.SystemRandom().randint(first, last)), True
    if given is None:
        raise ConfigError(f"{table.where}: key 'node.id' is missing")
    if type(given) is not int or not 0 <= given < NODE_LIMIT:
        raise table.wrong("id", given, f"a number from 0 on and below {NODE_LIMIT}, or 'new'")
    return NodeId(given), False


def _address(table: Table, key: str, text: object) -> Address:
    try:
        return Address.parse(str(text))
    except ValueError as error:
        raise table.wrong(key, text, str(error)) from None


def _peers(table: Table, me: NodeId) -> dict[NodeId, Address]:
    peers: dict[NodeId, Address] = {}
    inner = table.table("peers")
    for key, text in inner.rest().items():
        if not key.isdecimal() or int(key) >= NODE_LIMIT:
            raise inner.wrong(key, text, "node ids as keys, such as 2 = '127.0.0.1:7402'")
        address = _address(inner, key, text)
        if int(key) != me:  # one list of peers may serve all nodes
            peers[NodeId(int(key))] = address
    return peers


def _contacts(table: Table) -> list[Address]:
    """One address or several; they are tried in turn."""
    given = table.anything("contact", [])
    return [
        _address(table, "contact", text)
        for text in ([given] if not isinstance(given, list) else given)
    ]


def _security(table: Table, folder: Path) -> Security:
    tls = table.flag("tls", True)
    for key in ("identity", "authority", "sign"):
        if table.has(key) and not tls:
            raise table.wrong("tls", False, f"true, because there is {key!r}")
    security = Security(
        tls=tls,
        identity=folder / table.text("identity", "identity"),
        authority=folder / table.text("authority") if table.has("authority") else None,
        sign=table.flag("sign", False),
    )
    table.finish()
    return security


def _clients(
    whole: Table, security: Security, blueprint: Blueprint, folder: Path
) -> ClientDoor | None:
    """The door, if there is one."""
    table = whole.table("clients")
    if not table.has("listen"):
        table.finish()
        return None
    listen = _address(table, "listen", table.text("listen"))
    http = _address(table, "http", table.text("http")) if table.has("http") else None
    has_own = table.has("certificate") or table.has("key")
    tls = table.flag("tls", security.tls or has_own)
    if tls and not security.tls and not has_own:
        raise table.wrong("tls", True, "certificate and key, for this node has no identity")
    if not tls and has_own:
        raise table.wrong("tls", False, "true, because there is a certificate")
    if not (tls and security.tls):
        what = "tokens (security.tls = false)" if tls else "TLS (clients.tls = false)"
        for key, address in (("listen", listen), ("http", http)):
            if address is not None and not address.is_loopback():
                raise ConfigError(
                    f"{whole.at(f'clients.{key}')}: {address} can be reached by others, and "
                    f"without {what} only loopback addresses (127.0.0.1) are allowed"
                )
    spec = blueprint.protocol
    if "causal_order" not in spec.guarantees:
        raise ConfigError(
            f"{whole.at('clients.listen')}: {spec.name} does not promise causal order, so a client "
            "that comes back could not be told what it has missed; choose another protocol"
        )
    known = blueprint.groups.names
    given = [str(name) for name in table.items("groups")]
    made = [name[:-1] for name in given if name.endswith("*")] if given else [""]
    groups = [name for name in given if not name.endswith("*")] if given else list(known)
    for name in groups:
        if name not in known:
            raise table.wrong("groups", name, f"groups of this cluster ({', '.join(known)})")
    door = ClientDoor(
        listen=listen,
        http=http,
        tls=tls,
        certificate=folder / table.text("certificate") if has_own else None,
        key=folder / table.text("key") if has_own else None,
        origins=[str(origin) for origin in table.items("origins")],
        groups=groups,
        made_groups=made,
        kept_messages=table.integer("kept_messages", KEPT_FOR_CLIENTS.value, least=1),
        kept_bytes=table.integer("kept_bytes", KEPT_FOR_CLIENTS_BYTES.value, least=1),
    )
    table.finish()
    return door


def _check_private(table: Table, places: list[tuple[str, Address]]) -> None:
    for key, address in places:
        if not address.is_loopback():
            raise ConfigError(
                f"{table.at(key)}: {address} can be reached by others, and without TLS "
                "(security.tls = false) only loopback addresses (127.0.0.1) are allowed"
            )


def _cluster_key(table: Table, transport: str, folder: Path) -> bytes:
    """What nodes on UDP prove their membership with; empty if no file is given."""
    given = table.text("cluster_key", "")
    table.finish()
    if not given:
        return b""
    if transport != "udp":
        raise table.wrong("cluster_key", given, "none, or transport = 'udp' in [node]")
    try:
        key = (folder / given).read_bytes()
    except OSError as error:
        raise ConfigError(f"{table.where}: udp.cluster_key: {given}: {error.strerror}") from None
    if len(key) < SHORTEST_KEY:
        raise table.wrong("cluster_key", given, f"a file of at least {SHORTEST_KEY} random bytes")
    return key


def _topology(table: Table, kind: str, nodes: list[NodeId]) -> Topology:
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
    return Topology({node: list(peers) for node, peers in neighbours.items()})


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


def _patterns(table: Table, nodes: list[NodeId]) -> GroupPatterns:
    """Who is in groups that are made later: `"doc/*" = "*"`, taken out of [groups]."""
    patterns = GroupPatterns()
    for name in table.patterns():
        value = table.anything(name)
        if value == "*":
            patterns.members[name[:-1]] = None
        elif isinstance(value, list) and all(node in nodes for node in value):
            patterns.members[name[:-1]] = frozenset(NodeId(node) for node in value)
        else:
            raise table.wrong(name, value, f"'*' or a list of node ids ({_listed(nodes)})")
    return patterns


def _groups(table: Table, nodes: list[NodeId]) -> Groups:
    members: dict[str, list[NodeId]] = {}
    for name, value in table.rest().items():
        if value == "*":
            members[name] = list(nodes)
            continue
        if not isinstance(value, list) or not all(node in nodes for node in value):
            raise table.wrong(name, value, f"'*' or a list of node ids ({_listed(nodes)})")
        members[name] = [NodeId(node) for node in value]
    _check_not_empty(members, table)
    return Groups(members)


def _groups_of_comers(table: Table, me: NodeId, late: bool) -> tuple[Groups, list[GroupId]]:
    """The groups where nobody knows all nodes: what this node founds, and what it joins late."""
    mine: dict[str, list[NodeId]] = {}
    for name, value in table.rest().items():
        if value != "*" and not isinstance(value, list):
            raise table.wrong(name, value, "'*' or a list of node ids")
        mine[name] = [me] if value == "*" or me in value else []
    _check_not_empty(mine, table)
    if not late:
        return Groups(mine), []
    joins = [GroupId(group) for group, founders in enumerate(mine.values()) if founders]
    return Groups({name: [] for name in mine}), joins


def _check_not_empty(members: dict[str, list[NodeId]], table: Table) -> None:
    if not members:
        raise ConfigError(f"{table.where}: groups: expected at least one, such as all = '*'")


def _changing_blueprint(
    table: Table, overlay_table: Table, kind: str, me: NodeId, groups: Groups, folder: Path
) -> Blueprint:
    """Nobody is known at first but the node itself."""
    spec = find_overlay(kind)
    options = _settings(overlay_table, spec, "overlay")
    return _blueprint(table, spec, options, Topology({me: []}), groups, folder)


def _fixed_blueprint(
    table: Table,
    overlay_table: Table,
    kind: str,
    nodes: list[NodeId],
    groups: Groups,
    folder: Path,
) -> Blueprint:
    """The graph of all nodes, for ever."""
    spec = find_overlay("static_graph")
    topology = _topology(overlay_table, kind, nodes)
    return _blueprint(table, spec, spec.settings({}), topology, groups, folder)


def _blueprint(
    table: Table,
    overlay: OverlaySpec,
    overlay_options: dict[str, OptionValue],
    topology: Topology,
    groups: Groups,
    folder: Path,
) -> Blueprint:
    protocol_table = table.table("protocol")
    name = protocol_table.text("name")
    protocol = find_protocol(str(folder / name) if name.endswith(".py") else name)
    detector_table = table.table("detector")
    detector = find_detector(detector_table.text("kind", DEFAULT_DETECTOR, DETECTORS))
    return Blueprint(
        protocol,
        _settings(protocol_table, protocol, "protocol"),
        overlay,
        overlay_options,
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
