"""Reads a TOML scenario: one file describes one simulation completely.

Everything is checked before anything runs; an error names the file, the key and what was expected.
"""

from pathlib import Path
from typing import Any

from causalcast.core.blueprint import Blueprint
from causalcast.core.groups import Groups
from causalcast.core.ids import GroupId, NodeId
from causalcast.core.spec import LayerSpec, OptionValue
from causalcast.core.topology import Topology
from causalcast.errors import ConfigError
from causalcast.registry import find_detector, find_overlay, find_protocol
from causalcast.simulator.scenarios.director import Step, parse
from causalcast.simulator.scenarios.faults import KINDS, LINK_FAULTS, NODE_FAULTS, Fault
from causalcast.simulator.scenarios.graph_table import read_topology
from causalcast.simulator.scenarios.limits_table import read_limits
from causalcast.simulator.scenarios.network_table import read_network
from causalcast.simulator.scenarios.workload import Stream
from causalcast.simulator.scenarios.world_table import NEEDS_RECORDS, may_come_back, read_world
from causalcast.toml_table import Table

MS = 1000  # microseconds


class RandomFaults:
    """How many crashes to draw from the seed, how long each lasts, and whether to be fair."""

    def __init__(self, crashes: int, downtime_us: tuple[int, int], within_budget: bool) -> None:
        self.crashes = crashes
        self.downtime_us = downtime_us
        self.within_budget = within_budget


class Scenario:
    """A simulation, described and checked, ready to be built.

    Large because each of its tables is an attribute here, and each kind of entry a short method.
    """

    def __init__(
        self,
        text: str,
        where: str,
        protocol: str | None = None,
        settings: dict[str, str] | None = None,
        seed: int | None = None,
    ) -> None:
        table = Table.parse(text, where)
        self.text = text
        self.where = where
        self.seed = table.integer("seed", 0)
        if seed is not None:
            self.seed = seed
        in_file = table.text("protocol", protocol or "")
        if not (protocol or in_file):
            raise ConfigError(f"{where}: key 'protocol' is missing")
        self.protocol_name = protocol or in_file
        self.overridden = self.protocol_name != in_file
        self.directed = table.has("steps")  # what happens is listed step by step
        until_ms = table.number("until_ms", 0 if self.directed else None, least=0)
        self.until_us = round(until_ms * MS)
        options = table.table("options").rest()
        self.join_every_us = self.settle_us = 0
        self.blueprint = self._blueprint(table, options, settings or {})
        self.network = read_network(table, where, self.seed, self.detection_us)
        self.world = read_world(table, self.network, self.directed)
        self.limits = read_limits(table)
        self.streams = [
            stream for entry in table.tables("publish") for stream in self._streams(entry)
        ]
        self.faults = [self._fault(entry) for entry in table.tables("fault")]
        self.random_faults = _random_faults(table.table("random_faults"))
        self.steps = [self._step(table, text) for text in table.items("steps")]
        if self.directed and (self.streams or self.faults or self.random_faults.crashes):
            raise ConfigError(
                f"{where}: steps: expected no publish, fault or random_faults beside them, "
                "for steps say what happens"
            )
        calm = table.table("calm")
        self.calm_us = round(calm.number("ms", 10_000, least=0) * MS)
        self.recover_all = calm.flag("recover_all", False)
        calm.finish()
        table.finish()
        self._check_fit()

    @staticmethod
    def read(
        path: Path,
        protocol: str | None = None,
        settings: dict[str, str] | None = None,
        seed: int | None = None,
    ) -> "Scenario":
        """Read a scenario from a file; protocol, options and seed may be overridden."""
        return Scenario(Table.text_of(path), str(path), protocol, settings, seed)

    def nodes(self) -> int:
        """How many nodes there are at the start."""
        return len(self.blueprint.topology.neighbours)

    def absent(self) -> list[NodeId]:
        """Nodes that are to join later and so are not there at the start."""
        return [fault.node for fault in self.faults if fault.kind == "join" and fault.group is None]

    # Who

    def _blueprint(
        self, table: Table, options: dict[str, Any], settings: dict[str, str]
    ) -> Blueprint:
        protocol = find_protocol(self.protocol_name)
        overlay_table = table.table("overlay")
        overlay_name, topology = read_topology(overlay_table, self.where, self.seed)
        overlay = find_overlay(overlay_name)
        if not overlay.static:
            # Founders join one after the other before anything else happens.
            self.join_every_us = round(overlay_table.number("join_every_ms", 20, least=0) * MS)
            self.settle_us = round(overlay_table.number("settle_ms", 10_000, least=0) * MS)
        overlay_options = self._settings(overlay, overlay_table.rest(), "overlay")
        detector_table = table.table("detector")
        detector = find_detector(detector_table.text("kind", "link_loss"))
        self.detection_us = round(detector_table.number("delay_ms", 50, least=0) * MS)
        detector_options = self._settings(detector, detector_table.rest(), "detector")
        if self.overridden:  # the file's options are those of the protocol it names
            known = {option.name for option in protocol.options}
            options = {name: value for name, value in options.items() if name in known}
        self.written_options = {**options, **settings}
        given = self._settings(protocol, self.written_options, "options")
        groups = self._groups(table.table("groups"), topology)
        return Blueprint(
            protocol,
            given,
            overlay,
            overlay_options,
            detector,
            detector_options,
            groups,
            topology,
            find_protocol,
        )

    def _settings(
        self, spec: LayerSpec, given: dict[str, Any], section: str
    ) -> dict[str, OptionValue]:
        try:
            return spec.settings(given)
        except ValueError as error:
            raise ConfigError(f"{self.where}: {section}.{error}") from None

    def _groups(self, table: Table, topology: Topology) -> Groups:
        everybody = list(topology.neighbours)
        subtrees = table.flag("subtrees", False)
        members: dict[str, list[NodeId]] = {}
        for name, named in table.rest().items():
            members[name] = self._members(table, name, named, everybody)
        if subtrees:
            if not topology.is_tree():
                raise ConfigError(f"{self.where}: groups.subtrees = true: expected a tree overlay")
            members.update(_subtrees(topology))
        if not members:
            members["all"] = everybody
        return Groups(members)

    def _members(
        self, table: Table, name: str, named: Any, everybody: list[NodeId]
    ) -> list[NodeId]:
        if named == "*":
            return everybody
        if not isinstance(named, list):
            raise table.wrong(name, named, 'a list of nodes, or "*" for everybody')
        return [self._node(table, name, node, len(everybody)) for node in named]

    def _node(self, table: Table, key: str, node: Any, nodes: int) -> NodeId:
        if type(node) is not int or not 0 <= node < nodes:
            raise table.wrong(key, node, f"a node from 0 to {nodes - 1}")
        return NodeId(node)

    # What happens

    def _streams(self, table: Table) -> list[Stream]:
        at_us = round(table.number("at_ms", 0.0, least=0) * MS)
        named = table.anything("node", "random")
        publishers: list[NodeId | None]
        if named == "random":
            publishers = [None]
        elif isinstance(named, list):
            publishers = [self._node(table, "node", node, self.nodes()) for node in named]
        else:
            publishers = [self._node(table, "node", named, self.nodes())]
        group = self._group(table, table.text("group", self.blueprint.groups.names[0]))
        count = table.integer("count", 1, least=0)
        interval_us = round(table.number("interval_ms", 10.0, least=0) * MS)
        payload = table.integer("payload_bytes", 32, least=0)
        table.finish()
        if interval_us == 0 and not self.network.bandwidth.limited:
            raise table.wrong("interval_ms", 0, "a number above 0 where bandwidth is unlimited")
        return [Stream(at_us, node, group, count, interval_us, payload) for node in publishers]

    def _step(self, table: Table, text: Any) -> Step:
        try:
            # Nodes that come back as somebody new have ids above those of the graph.
            step = parse(str(text), 2 * self.nodes(), self.blueprint.groups.names)
        except ValueError as error:
            raise table.wrong("steps", text, str(error)) from None
        objection = self.objection_to_step(str(step[0]))
        if objection:
            raise table.wrong("steps", text, f"another step, {objection}")
        if step[0] in ("gone", "order"):
            words = f"gone {step[2]}" if step[0] == "gone" else " ".join(map(str, step[2:]))
            try:
                self.blueprint.protocol.command(words)
            except ValueError as error:
                raise table.wrong("steps", text, f"another step: {error}") from None
        return step

    def objection_to_step(self, verb: str) -> str:
        """Why links of the kind that the protocol needs do not do this; empty if they may."""
        links = self.blueprint.links_needed()
        if verb in ("lose", "double") and self.world.links_lose_nothing:
            return "in this world links lose nothing"
        if (verb == "lose" and links != "any") or (verb == "double" and links == "fifo"):
            kind = "FIFO" if verb == "double" else "reliable"
            return f"{self.blueprint.protocol.name} needs {kind} links"
        return ""

    def _group(self, table: Table, name: str) -> GroupId | None:
        if name == "random":
            return None
        try:
            return self.blueprint.groups.id_of(name)
        except KeyError:
            known = ", ".join(self.blueprint.groups.names)
            raise table.wrong("group", name, f'one of {known}, or "random"') from None

    def _fault(self, table: Table) -> Fault:
        kind = table.text("kind", choices=KINDS)
        fault = Fault(round(table.number("at_ms", least=0) * MS), kind)
        if kind in NODE_FAULTS:
            fault.node = self._node(table, "node", table.integer("node"), self.nodes())
        if kind in LINK_FAULTS or (kind == "heal" and table.has("link")):
            fault.link = self._link(table)
        if kind == "partition":
            fault.sides = self._sides(table)
        if kind in ("cut", "partition"):
            fault.loud = self.loudness(table.flag("loud") if table.has("loud") else None)
        if kind == "delay":
            fault.extra_us = round(table.number("extra_ms", least=0) * MS)
        if kind in ("crash", "hang"):
            self._crash_details(table, fault)
        if kind in ("suspect", "trust") and table.has("by"):
            fault.by = self._node(table, "by", table.integer("by"), self.nodes())
        if kind == "gone":
            if not self.blueprint.protocol.gives_up_nodes():
                name = self.blueprint.protocol.name
                raise table.wrong("kind", kind, f"another kind: {name} cannot give a node up")
            fault.by = self._node(table, "by", table.integer("by"), self.nodes())
        if kind == "order":
            fault.order = table.text("order")
            try:
                self.blueprint.command(fault.order)
            except ValueError as error:
                raise table.wrong("order", fault.order, f"another one: {error}") from None
        if kind == "join" and table.has("via"):
            fault.via = self._node(table, "via", table.integer("via"), self.nodes())
        if kind in ("join", "leave") and table.has("group"):
            fault.group = self._group(table, table.text("group"))
        table.finish()
        return fault

    def loudness(self, asked: bool | None) -> bool:
        """Whether both ends hear of a cut: reliable links lose nothing without a word."""
        needed = self.blueprint.links_needed() != "any"
        reliable = needed or self.world.links_lose_nothing
        if asked is None:
            return reliable
        if reliable and not asked:
            name = self.blueprint.protocol.name
            why = f"{name} needs reliable links" if needed else "links lose nothing"
            raise ConfigError(f"{self.where}: fault.loud = false: expected true, {why}")
        return asked

    def _crash_details(self, table: Table, fault: Fault) -> None:
        if table.has("keep"):
            fault.keep = table.number("keep", least=0)
            if fault.keep > 1:
                raise table.wrong("keep", fault.keep, "a share from 0 to 1")
        if fault.kind == "crash" and table.has("after_effects"):
            fault.after_effects = table.integer("after_effects", least=0)

    def _link(self, table: Table) -> tuple[NodeId, NodeId]:
        ends = table.items("link")
        if len(ends) != 2 or ends[0] == ends[1]:
            raise table.wrong("link", ends, "two nodes such as [1, 2]")
        a, b = (self._node(table, "link", node, self.nodes()) for node in ends)
        return a, b

    def _sides(self, table: Table) -> list[list[NodeId]]:
        sides = table.items("sides")
        if len(sides) < 2 or not all(isinstance(side, list) for side in sides):
            raise table.wrong("sides", sides, "two or more lists of nodes")
        return [[self._node(table, "sides", node, self.nodes()) for node in s] for s in sides]

    # Does it fit?

    def _needs_records(self) -> str:
        """Why nodes must keep what they persist; empty if they need not."""
        if may_come_back(self.blueprint.protocol, self.world):
            return ""
        back = [fault.kind for fault in self.faults if fault.kind in NEEDS_RECORDS]
        back += ["random_faults"] if self.random_faults.crashes else []
        back += ["calm.recover_all"] if self.recover_all else []
        name = self.blueprint.protocol.name
        why = f"for {name} comes back with what it has kept"
        return f"expected true beside {back[0]}, {why}" if back else ""

    def _check_fit(self) -> None:
        """A protocol that needs more than this scenario offers is refused, with the reason."""
        if reason := self.blueprint.misfit():
            raise ConfigError(f"{self.where}: overlay: {reason}")
        if reason := self._needs_records():
            raise ConfigError(f"{self.where}: world.keeps_records = false: {reason}")
        links = self.blueprint.links_needed()
        name = self.blueprint.protocol.name
        if links != "any" and self.network.loss > 0:
            raise ConfigError(
                f"{self.where}: network.loss = {self.network.loss:g}: expected 0, "
                f"{name} needs reliable links"
            )
        if links == "fifo" and self.network.duplication > 0:
            raise ConfigError(
                f"{self.where}: network.duplication = {self.network.duplication:g}: expected 0, "
                f"{name} needs FIFO links"
            )
        if not self.blueprint.overlay.static and not self.network.fifo:
            overlay = self.blueprint.overlay.name
            raise ConfigError(f"{self.where}: network.fifo = false: {overlay} needs FIFO links")
        if links == "fifo" and not self.network.fifo:
            raise ConfigError(f"{self.where}: network.fifo = false: {name} needs FIFO links")


def _random_faults(table: Table) -> RandomFaults:
    crashes = table.integer("crashes", 0, least=0)
    downtime = table.anything("downtime_ms", [20, 200])
    numbers = isinstance(downtime, list) and [
        part for part in downtime if isinstance(part, (int, float)) and part >= 0
    ]
    if not numbers or len(numbers) != 2 or numbers != downtime or numbers[0] > numbers[1]:
        raise table.wrong("downtime_ms", downtime, "a pair such as [20, 200]")
    within_budget = table.flag("within_budget", True)
    table.finish()
    return RandomFaults(crashes, (round(numbers[0] * MS), round(numbers[1] * MS)), within_budget)


def _subtrees(topology: Topology) -> dict[str, list[NodeId]]:
    """One group per inner node of the tree rooted at node 0: the node and all below it."""
    order = list(topology.distances(NodeId(0), len(topology.neighbours)))
    parent: dict[NodeId, NodeId] = {}
    for node in order:
        for peer in topology.neighbours[node]:
            if peer != parent.get(node):
                parent[peer] = node
    below: dict[NodeId, list[NodeId]] = {node: [node] for node in order}
    for node in reversed(order):
        if node in parent:
            below[parent[node]] += below[node]
    return {f"subtree{node}": sorted(nodes) for node, nodes in below.items() if len(nodes) > 1}
