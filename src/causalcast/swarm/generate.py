"""Draws a random scenario from a seed, within what a protocol promises: faults, then calm.

Everything a promise covers is drawn: the graph, groups that overlap, who publishes, how messages
travel, who crashes and when. What the protocol does not promise to survive (by its `needs`,
`restart` and `tolerates`) is left out, so any violation found is a bug.
"""

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

from causalcast.core import graphs
from causalcast.core.ids import NodeId
from causalcast.core.spec import ProtocolSpec
from causalcast.registry import find_protocol
from causalcast.swarm.real_worlds import DRAWN, PLAIN, drawn_facts, expected_facts, tell
from causalcast.swarm.safe_parts import PROMISE

UNTIL_MS = 1500
CALM_MS = 30_000
MANY_NODES = 20
SIZES = (2, 3, 4, 5, 6, 8, 10, 13)
LARGE_TREES = (17, 24, 31)  # now and then, where only trees will do
LARGE_OVERLAYS = (20, 30, 40)  # now and then, where links may change
OPEN = "open_mesh"
OPEN_SHARE = 0.25  # of the seeds of protocols whose members agree who is one
OPEN_SETTLES_MS = 60_000
LARGE_FROM = 10  # who asks for small graphs gets no large ones


# What the drawn faults are called when they fire, and which of them only a tolerant protocol gets.
HARMLESS_KINDS = ("pause", "delay", "suspect", "join_group", "leave_group")
HARD_KINDS = ("crash", "crash_in_step", "recover", "compact", "cut", "partition", "lost_in_crash")
LOSSY_KINDS = ("loss", "duplication")
ORDERED_KINDS = ("order", "publication_refused")
DIED_FOR_GOOD = "died_for_good"  # was down when all was over
HANG = "hang"  # died for good, and its links stay
TIMED_KINDS = ("pause", "delay", "partition", HANG)  # a director has no clock for these


def random_scenario(
    spec: ProtocolSpec,
    seed: int,
    options: Mapping[str, Any],
    overlay: str = "",
    beyond: bool = False,
    for_good: bool = False,
    facts: str = PLAIN,
) -> str:
    """The text of a scenario for `spec`; the same seed gives the same text.

    `overlay` (`tree` or `mesh`) narrows the graphs further than the protocol needs. `beyond` also
    draws faults that the protocol does not promise to survive, `for_good` nodes that die as they
    publish and never come back. Where that is promised they die in any case; who hangs does so only
    where it was asked for. `facts`: whether the world is told to protocols (`real_worlds`).
    """
    draw = Draw(spec, seed, options, overlay)
    draw.beyond = beyond
    draw.for_good = for_good or promises_without_the_dead(spec)
    draw.hangs = for_good
    draw.facts = drawn_facts(spec, seed) if facts == DRAWN else {}
    return draw.scenario()


def promises_without_the_dead(spec: ProtocolSpec) -> bool:
    """Whether the protocol promises agreement among survivors even if others never return."""
    return "agreement" in spec.guarantees and spec.tolerates is not None


def may_join(spec: ProtocolSpec) -> bool:
    """Whether nodes may join groups. What a late member is owed is defined for FIFO order only."""
    return "fifo_order" in spec.guarantees


def links_needed(spec: ProtocolSpec, options: Mapping[str, Any]) -> str:
    """What links must be: any, reliable or fifo; for a protocol with all those it hosts."""
    hosted = [] if spec.contains is None else spec.contains(spec.settings(dict(options)))
    needs = [spec.needs.links, *(find_protocol(name).needs.links for name in hosted)]
    return max(needs, key=["any", "reliable", "fifo"].index)


def expected_kinds(
    spec: ProtocolSpec,
    by: str,
    beyond: bool,
    for_good: bool = False,
    options: Mapping[str, Any] | None = None,
    facts: str = PLAIN,
) -> list[str]:
    """The kinds of faults that a campaign of many seeds must have seen, and facts of worlds."""
    kinds = list(HARMLESS_KINDS)
    if for_good or promises_without_the_dead(spec):
        kinds += [DIED_FOR_GOOD]
    if for_good:
        kinds += [HANG]
    if spec.tolerates is not None or beyond:
        kinds += HARD_KINDS
    if links_needed(spec, options or {}) == "any":
        kinds += LOSSY_KINDS
    if spec.command_plans is not None:
        kinds += ORDERED_KINDS
    if spec.agrees_on_members:
        kinds += ["gone", "publication_refused"]
        kinds += ["join"] if by != "adversary" else []
    if not may_join(spec):
        kinds.remove("join_group")
    if facts == DRAWN:
        kinds += expected_facts(spec)
    return [kind for kind in kinds if by != "adversary" or kind not in TIMED_KINDS]


class Draw:
    """A scenario while it is drawn. The adversary takes only its nodes and its graph.

    Large because each kind of fault is a short method here: all draw from one generator,
    and the order in which they do so decides what a seed means.
    """

    def __init__(
        self,
        spec: ProtocolSpec,
        seed: int,
        options: Mapping[str, Any],
        overlay: str = "",
        sizes: Sequence[int] = SIZES,
    ) -> None:
        self.spec = spec
        self.overlay = spec.needs.overlay if overlay in ("", OPEN) else overlay
        self.seed = seed
        self.options = options
        self.links = links_needed(spec, options)
        self.rng = random.Random(f"scenario/{spec.name}/{seed}")
        self.beyond = False
        self.for_good = False
        self.hangs = False
        self.until_ms = UNTIL_MS
        self.calm_ms = 0  # as the number of nodes says
        self.facts: dict[str, Any] = {}  # what protocols are told of their world
        self.nodes = self.rng.choice(sizes)
        if self._may_change() and self.nodes >= LARGE_FROM and self.rng.random() < 0.3:
            self.nodes = self.rng.choice(LARGE_OVERLAYS)
        self.edges = self._graph()
        self.founders = self.nodes
        self.is_open = self._draw_open(overlay)
        if spec.agrees_on_members and "founders" not in options:
            self.founders = self.rng.randint(min(self.nodes, max(2, self.nodes - 3)), self.nodes)
            self.options = {**options, "founders": self.founders}

    def scenario(self) -> str:
        """The text of the scenario."""
        groups = self.groups()
        options = dict(self.options)
        if self.is_open:
            options.pop("founders", None)  # one founds it, all others are let in
        tables: list[tuple[str, dict[str, Any]]] = [
            ("options", options),
            ("overlay", self._overlay_table()),
            ("network", self._network()),
            ("disk", {"sync_ms": self.rng.choice([0, 0, 1, 10])}),
            ("detector", {"kind": "link_loss", "delay_ms": self.rng.choice([0, 5, 50, 300])}),
            ("groups", groups),
        ]
        streams = self._streams(groups)
        faults = self._faults(groups)
        if self.for_good:
            faults += self._joins(groups)  # what nobody can tell a late member is the hardest
        deaths = self._deaths(streams, faults) if self.for_good else []
        faults += self._orders(groups)
        if self.spec.agrees_on_members:
            faults += self._members(groups)
        dead = [death["node"] for death in deaths]
        faults = [f for f in faults if f["kind"] != "recover" or f["node"] not in dead] + deaths
        tables += [("[publish]", stream) for stream in streams]
        tables += [("[fault]", fault) for fault in faults]
        # Who sends the next message when the last has arrived needs long on a long line.
        calm_ms = self.calm_ms or (CALM_MS if self.nodes <= MANY_NODES else 2 * CALM_MS)
        if self.is_open:
            calm_ms *= 4  # among many, somebody's last word is lost again and again
        tables.append(("calm", {"ms": calm_ms, "recover_all": not deaths}))
        if tables[1][1]["kind"] in ("hyparview", OPEN):
            tables[2][1]["fifo"] = True  # what a new neighbour says must not overtake its yes
        head = {"protocol": self.spec.name, "until_ms": self.until_ms, "seed": self.seed}
        return toml_text(head, tell(tables, self.facts, self.spec))

    def _overlay_table(self) -> dict[str, Any]:
        """A graph that is given; half the time, where a protocol allows, one that changes."""
        if self.is_open:
            return {
                "kind": OPEN,
                "nodes": self.nodes,
                "retry_after": random.Random(f"open/{self.seed}").choice([50, 200]),
                "join_every_ms": 20,
                "settle_ms": OPEN_SETTLES_MS,  # founders are let in one after the other
            }
        if not self._may_change() or self.rng.random() < 0.5:
            return {"kind": "edges", "nodes": self.nodes, "edges": self.edges}
        return {
            "kind": "hyparview",
            "nodes": self.nodes,
            "active_view": self.rng.choice([3, 4, 5]),  # with two, overlays are rings
            "shuffle_every": self.rng.choice([300, 1000]),
            "retry_after": self.rng.choice([50, 200]),
            "probe_every": 1000,
            "join_every_ms": self.rng.choice([0, 20]),
            # Founders are owed everything: all must be in before the first publication.
            "settle_ms": self.rng.choice([2000, 4000]),
        }

    def _draw_open(self, overlay: str) -> bool:
        """Whether nobody is listed anywhere; drawn apart, so that seeds mean what they meant."""
        if not self.spec.agrees_on_members or overlay not in ("", OPEN):
            return False
        chance = random.Random(f"open/{self.spec.name}/{self.seed}").random()
        return overlay == OPEN or chance < OPEN_SHARE

    def _may_change(self) -> bool:
        """Whether the protocol promises something about nodes that come, go and switch links."""
        return self.spec.needs.overlay == "any" and PROMISE in self.spec.guarantees

    def _graph(self) -> list[list[int]]:
        if self.overlay == "tree" and self.rng.random() < 0.5:
            return self._shaped_tree()
        order = list(range(self.nodes))
        self.rng.shuffle(order)
        edges = [
            [order[self.rng.randrange(max(0, n - 3), n)], order[n]] for n in range(1, self.nodes)
        ]
        if self.overlay == "mesh" or self._links_all():
            return [[a, b] for a in range(self.nodes) for b in range(a + 1, self.nodes)]
        if self.overlay == "tree":
            return edges
        for _ in range(self.rng.randrange(self.nodes)):
            a, b = self.rng.sample(range(self.nodes), 2)
            if [a, b] not in edges and [b, a] not in edges:
                edges.append([a, b])
        return edges

    def _links_all(self) -> bool:
        """Whether all nodes are linked; protocols in zones need many links to show all they do."""
        hosts = self.overlay == "static" and self.spec.contains is not None
        return hosts and self.rng.random() < 0.6

    def _shaped_tree(self) -> list[list[int]]:
        """A line, a star or a binary tree, its nodes in any order; now and then a large one."""
        if self.nodes >= LARGE_FROM and self.rng.random() < 0.3:
            self.nodes = self.rng.choice(LARGE_TREES)
        order = list(range(self.nodes))
        self.rng.shuffle(order)
        parents = self.rng.choice([_line_parent, _star_parent, _binary_parent])
        return [[order[parents(n)], order[n]] for n in range(1, self.nodes)]

    def _network(self) -> dict[str, Any]:
        rng = self.rng
        latency: Any = rng.choice(
            [
                1.0,
                {"kind": "uniform", "low": 1, "high": rng.choice([5, 60])},
                {"kind": "exponential", "mean": rng.choice([2, 30])},
            ]
        )
        network: dict[str, Any] = {"latency_ms": latency, "exchange": "wire"}
        network["fifo"] = self.links == "fifo" or rng.random() < 0.4
        if self.links == "any":
            network["loss"] = rng.choice([0.0, 0.0, 0.05, 0.3])
            network["duplication"] = rng.choice([0.0, 0.0, 0.05, 0.3])
        return network

    def groups(self) -> dict[str, Any]:
        """Groups that overlap, by name."""
        groups: dict[str, Any] = {"all": "*"}
        for name in ("left", "right", "few")[: self.rng.randrange(4)]:
            size = self.rng.randint(1, self.nodes)
            groups[name] = sorted(self.rng.sample(range(self.nodes), size))
        if self.founders < self.nodes:  # who comes later joins groups, too
            groups["all"] = list(range(self.founders))
            for name in list(groups):
                groups[name] = [node for node in groups[name] if node < self.founders] or [0]
        return groups

    def removable(self) -> list[int]:
        """Whom operators may remove, rightly or not: never so many that a majority is lost."""
        return self.rng.sample(range(self.nodes), (self.founders - 1) // 2)

    def _members(self, groups: dict[str, Any]) -> list[dict[str, Any]]:
        """Nodes come, are removed after they died or while they are well, or are replaced."""
        rng = self.rng
        faults: list[dict[str, Any]] = []
        for node in range(self.founders, self.nodes):
            at = rng.randrange(UNTIL_MS)
            faults.append({"at_ms": at, "kind": "join", "node": node})
            for group in groups:
                if rng.random() < 0.7:
                    faults.append(self._change(at + 1 + rng.randrange(300), "join", node, group))
        for node in self.removable():
            at = rng.randrange(UNTIL_MS)
            if rng.random() < 0.3:
                continue
            if rng.random() < 0.6:
                death: dict[str, Any] = {"at_ms": at, "kind": "crash", "node": node}
                if rng.random() < 0.4:
                    death["after_effects"] = rng.randrange(8)
                faults.append(death)
            for by in rng.sample(range(self.nodes), min(self.nodes, rng.choice([1, 2]))):
                order = f"gone {node}"
                if self.founders < self.nodes and rng.random() < 0.3:
                    order = f"replace {node} {rng.randrange(self.founders, self.nodes)}"
                if by != node:
                    faults.append(self._order(at + rng.randrange(300), [NodeId(by)], order))
        for _ in self._some(2):  # views change in the middle of what else happens
            faults.append({"at_ms": rng.randrange(UNTIL_MS), "kind": "heal"})
        return faults

    def _streams(self, groups: dict[str, Any]) -> list[dict[str, Any]]:
        return [
            {
                "at_ms": self.rng.randrange(UNTIL_MS // 2),
                "node": self.rng.choice(["random", self.rng.randrange(self.nodes)]),
                "group": self.rng.choice(["random", *groups]),
                "count": self.rng.choice([1, 5, 20]),
                "interval_ms": self.rng.choice([1, 10, 60]),
                "payload_bytes": self.rng.choice([0, 8, 100]),
            }
            for _ in range(self.rng.randint(1, 4))
        ]

    def _faults(self, groups: dict[str, Any]) -> list[dict[str, Any]]:
        faults = self._pauses() + self._slow_links() + self._group_changes(groups)
        faults += self._suspicions()
        if self.overlay == "tree":
            faults += self._lone_suspicions()
        if self.overlay in ("tree", "mesh"):
            faults += self._joins(groups)
        if self.spec.tolerates is not None or self.beyond:
            faults += self._crashes()
            faults += self._cuts()
        if self._may_change():
            faults += self._comings_and_goings()
        return faults

    def _comings_and_goings(self) -> list[dict[str, Any]]:
        """Nodes that are not there at the start join, others leave for good."""
        faults: list[dict[str, Any]] = []
        for node in self.rng.sample(range(self.nodes), min(self.nodes - 1, len(self._some(4)))):
            kind = self.rng.choice(["join", "join", "leave"])
            faults.append({"at_ms": self.rng.randrange(UNTIL_MS), "kind": kind, "node": node})
        return faults

    def _span(self, longest: int) -> tuple[int, int]:
        start = self.rng.randrange(UNTIL_MS)
        return start, min(UNTIL_MS, start + self.rng.randint(1, longest))

    def _some(self, most: int) -> range:
        """A number of faults of one kind; often none."""
        return range(self.rng.randint(1, most) if self.rng.random() < 0.5 else 0)

    def _crashes(self) -> list[dict[str, Any]]:
        faults: list[dict[str, Any]] = []
        for _ in self._some(4):
            start, end = self._span(600)
            node = self.rng.randrange(self.nodes)
            crash: dict[str, Any] = {"at_ms": start, "kind": "crash", "node": node}
            if self.rng.random() < 0.3:
                crash["after_effects"] = self.rng.randrange(4)
            elif self.rng.random() < 0.5:
                crash["keep"] = self.rng.choice([0.0, 0.5, 1.0])
            if self.rng.random() < 0.3:
                faults.append({"at_ms": start, "kind": "compact", "node": node})
            faults.append(crash)
            faults.append({"at_ms": end, "kind": "recover", "node": node})
        return faults

    def _deaths(
        self, streams: list[dict[str, Any]], faults: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Nodes that die for good while they publish, most of them in the middle of a step; or
        soon after somebody joined or left, which they may or may not have heard. Some hang: only
        detectors tell the others of it."""
        changes = [fault for fault in faults if fault["kind"] in ("join", "leave")]
        deaths: list[dict[str, Any]] = []
        for node in self.rng.sample(range(self.nodes), min(self.nodes - 1, len(self._some(2)))):
            stream = self.rng.choice(streams)
            if self.rng.random() < 0.7:
                stream["node"] = node
            at = stream["at_ms"] + self.rng.randrange(stream["count"]) * stream["interval_ms"]
            if changes and self.rng.random() < 0.4:
                at = self.rng.choice(changes)["at_ms"] + self.rng.randrange(60)
            death: dict[str, Any] = {"at_ms": at, "kind": "crash", "node": node}
            if self.rng.random() < 0.6:
                death["after_effects"] = self.rng.randrange(12)
            else:
                death["keep"] = self.rng.choice([0.0, 0.5, 0.5])
                if self.hangs and self._tosses_for_hanging():
                    death["kind"] = HANG
            deaths.append(death)
        return deaths

    def _tosses_for_hanging(self) -> bool:
        """Drawn by a generator of its own, so that the rest of a seed is the same without it."""
        return random.Random(f"hang/{self.spec.name}/{self.seed}").random() < 0.5

    def _orders(self, groups: dict[str, Any]) -> list[dict[str, Any]]:
        """What operators do, and what applications do for it: leave their groups, and return."""
        faults: list[dict[str, Any]] = []
        if self.spec.command_plans is None:
            return faults
        graph = graphs.from_edges(self.nodes, [(a, b) for a, b in self.edges])
        plans = self.spec.command_plans(self.spec.settings(dict(self.options)), graph)
        for plan in plans:
            first, *others = plan.commands
            at = self.rng.randrange(UNTIL_MS // 3)
            if self.rng.random() < 0.3:
                continue
            faults.append(self._order(at, plan.at, first))
            for node in plan.leavers:
                for group in groups:
                    faults.append(self._change(at + self.rng.randrange(100), "leave", node, group))
            for _ in self._some(3):
                at += self.rng.choice([100, 300, 500])
                faults += [self._order(at, plan.at, order) for order in others]
                for _ in self._some(6):  # also of those that do not come from there
                    somebody = NodeId(self.rng.randrange(self.nodes))
                    node = self.rng.choice([*plan.leavers, somebody])
                    group = self.rng.choice(list(groups))
                    faults.append(self._change(at + self.rng.randrange(200), "join", node, group))
        return faults

    def _order(self, at: int, nodes: list[NodeId], order: str) -> dict[str, Any]:
        return {"at_ms": at, "kind": "order", "node": self.rng.choice(nodes), "order": order}

    def _change(self, at: int, kind: str, node: int, group: str) -> dict[str, Any]:
        return {"at_ms": at, "kind": kind, "node": node, "group": group}

    def _cuts(self) -> list[dict[str, Any]]:
        faults: list[dict[str, Any]] = []
        for _ in self._some(2):
            start, end = self._span(500)
            link = self.rng.choice(self.edges)
            loud = self.links != "any" or self.rng.random() < 0.5
            faults.append({"at_ms": start, "kind": "cut", "link": link, "loud": loud})
            faults.append({"at_ms": end, "kind": "heal", "link": link})
        if self.nodes > 2 and self.rng.random() < 0.2:
            start, end = self._span(500)
            cut = self.rng.randint(1, self.nodes - 1)
            sides = [list(range(cut)), list(range(cut, self.nodes))]
            # What needs reliable links must hear that they broke.
            loud = self.links != "any"
            faults.append({"at_ms": start, "kind": "partition", "sides": sides, "loud": loud})
            faults.append({"at_ms": end, "kind": "heal"})
        return faults

    def _pauses(self) -> list[dict[str, Any]]:
        faults = []
        for _ in self._some(2):
            start, end = self._span(300)
            node = self.rng.randrange(self.nodes)
            faults.append({"at_ms": start, "kind": "pause", "node": node})
            faults.append({"at_ms": end, "kind": "resume", "node": node})
        return faults

    def _slow_links(self) -> list[dict[str, Any]]:
        return [
            {
                "at_ms": self.rng.randrange(UNTIL_MS),
                "kind": "delay",
                "link": self.rng.choice(self.edges),
                "extra_ms": self.rng.choice([0, 20, 200]),
            }
            for _ in self._some(3)
        ]

    def _suspicions(self) -> list[dict[str, Any]]:
        return [
            {
                "at_ms": self.rng.randrange(UNTIL_MS),
                "kind": self.rng.choice(["suspect", "trust"]),
                "node": self.rng.randrange(self.nodes),
            }
            for _ in self._some(3)
        ]

    def _lone_suspicions(self) -> list[dict[str, Any]]:
        """One node alone suspects another: on a tree it may then send past it, others do not."""
        faults: list[dict[str, Any]] = []
        for _ in self._some(6):
            start, end = self._span(400)
            by, node = self.rng.sample(range(self.nodes), 2)
            lone = {"node": node, "by": by}
            faults.append({"at_ms": start, "kind": "suspect", **lone})
            faults.append({"at_ms": end, "kind": "trust", **lone})
        return faults

    def _joins(self, groups: dict[str, Any]) -> list[dict[str, Any]]:
        """Nodes that are in no member list yet: what goes to members alone must find them."""
        outside = [
            {"node": node, "group": group}
            for group, members in groups.items()
            if members != "*"
            for node in range(self.nodes)
            if node not in members
        ]
        return [
            {"at_ms": self.rng.randrange(UNTIL_MS), "kind": "join", **self.rng.choice(outside)}
            for _ in (self._some(4) if outside else ())
        ]

    def _group_changes(self, groups: dict[str, Any]) -> list[dict[str, Any]]:
        kinds = ["join", "leave"] if may_join(self.spec) else ["leave", "leave"]
        return [
            {
                "at_ms": self.rng.randrange(UNTIL_MS),
                "kind": self.rng.choice(kinds),
                "node": NodeId(self.rng.randrange(self.nodes)),
                "group": self.rng.choice(list(groups)),
            }
            for _ in self._some(3)
        ]


def _line_parent(node: int) -> int:
    return node - 1


def _star_parent(node: int) -> int:
    return 0


def _binary_parent(node: int) -> int:
    return (node - 1) // 2


def toml_text(head: dict[str, Any], tables: list[tuple[str, dict[str, Any]]]) -> str:
    """A scenario as text: the keys at its head, then its tables in order."""
    lines = _lines(head) + [line for name, content in tables for line in _table(name, content)]
    return "\n".join(lines) + "\n"


def _table(name: str, content: dict[str, Any]) -> list[str]:
    return ["", f"[{name}]", *_lines(content)]


def _lines(content: dict[str, Any]) -> list[str]:
    return [f"{_key(key)} = {_value(value)}" for key, value in content.items()]


def _key(key: str) -> str:
    """A key as TOML; names of limits have dots in them."""
    return json.dumps(key) if "." in key else key


def _value(value: Any) -> str:
    """A value as TOML; for all but tables that is JSON."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_value(part)}" for key, part in value.items()) + "}"
    return json.dumps(value)
