"""A cluster under virtual time: publish, break things, let time pass, look at what was delivered.

Nothing here waits for a real clock or depends on one: a test of ten simulated minutes takes
milliseconds and gives the same result every time.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from causalcast.core.ids import GroupId, MessageId, NodeId, message_id, origin_of
from causalcast.core.made_groups import NEWS, MadeGroups, decode_news
from causalcast.core.message import Publication
from causalcast.errors import NodeError
from causalcast.judge import Judgement, judge
from causalcast.runtime.host.group_directory import check_made_name, check_offers_made
from causalcast.runtime.host.newcomers import is_about_states
from causalcast.runtime.metadata import Metadata, body_of, payload_in
from causalcast.runtime.security.rights import GroupPatterns
from causalcast.simulator.scenario_run import ScenarioRun
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.generate import toml_text
from causalcast.trace.kinds import WEAKER_FORMS
from causalcast.trace.run_folder import Run

MS = 1000  # microseconds


def _apart(
    groups: Mapping[str, Sequence[int]],
) -> tuple[dict[str, Sequence[int]], GroupPatterns]:
    """Groups of the start, and who is in those that are made under a prefix (`"doc/*"`)."""
    patterns = GroupPatterns()
    for name, members in groups.items():
        if name.endswith("*"):
            patterns.members[name[:-1]] = frozenset(map(NodeId, members))
    return {name: of for name, of in groups.items() if not name.endswith("*")}, patterns


def _nothing(*_: object) -> None:
    """Nobody wants to hear of it."""


class Cluster:
    """Simulated nodes, driven by a test.

    `overlay` is a kind of graph (`ring`, `star`, `full_mesh`, …) or a list of edges; `latency_ms` a
    number or a pair (lowest, highest). What the protocol delivers at a node is in `delivered`.
    """

    def __init__(
        self,
        nodes: int = 3,
        protocol: str = "vector_clock_broadcast",
        *,
        overlay: str | Sequence[tuple[int, int]] = "full_mesh",
        groups: Mapping[str, Sequence[int]] | None = None,
        options: Mapping[str, Any] | None = None,
        latency_ms: float | tuple[float, float] = 1.0,
        loss: float = 0.0,
        duplication: float = 0.0,
        fifo: bool = False,
        sync_ms: float = 0.0,
        detection_ms: float = 50.0,
        seed: int = 0,
    ) -> None:
        low, high = latency_ms if isinstance(latency_ms, tuple) else (latency_ms, latency_ms)
        self.latency_ms = low, high  # what requests take from node to node
        latency: Any = latency_ms
        if isinstance(latency_ms, tuple):
            latency = {"kind": "uniform", "low": latency_ms[0], "high": latency_ms[1]}
        graph: dict[str, Any] = {"kind": overlay, "nodes": nodes}
        if not isinstance(overlay, str):
            graph = {"kind": "edges", "nodes": nodes, "edges": [list(edge) for edge in overlay]}
        founded, self._patterns = _apart(groups or {})
        tables: list[tuple[str, dict[str, Any]]] = [
            ("options", dict(options or {})),
            ("overlay", graph),
            (
                "network",
                {"latency_ms": latency, "loss": loss, "duplication": duplication, "fifo": fifo},
            ),
            ("disk", {"sync_ms": sync_ms}),
            ("detector", {"kind": "link_loss", "delay_ms": detection_ms}),
            ("groups", {name: list(members) for name, members in founded.items()}),
        ]
        text = toml_text({"protocol": protocol, "until_ms": 0, "seed": seed}, tables)
        self._run = ScenarioRun(Scenario(text, "cluster"), "full")
        self._world = self.world = self._run.simulation
        self.blueprint = self._run.scenario.blueprint
        self.protocol = self.blueprint.protocol
        self._groups = self.blueprint.groups
        self._deliveries: list[list[Publication]] = [[] for _ in range(nodes)]
        self._published: dict[tuple[int, int], GroupId] = {}  # by node and number
        self._react: Callable[[int, Publication], None] | None = None
        self._made: dict[int, MadeGroups] = {}  # by node; what it knows outlives a crash
        self._on_groups: Callable[[int, str, GroupId, bool], None] | None = None
        self._making: set[tuple[int, str]] = set()  # who makes a group is in it at once
        self.on_joins: Callable[[int, GroupId], None] = _nothing
        self.on_states: Callable[[int, NodeId, bytes], None] = _nothing
        self._world.listener = self._on_delivery
        self._world.on_news = self._on_news

    # What an application does

    def group_id(self, name: str, node: int | None = None) -> GroupId:
        """The number of a group; NodeError if there is none of that name, as far as `node` has
        heard, or anybody."""
        for knower in self._made if node is None else [node]:
            made = self.made_at(knower).id_of(name)
            if made is not None:
                return made
        try:
            return self._groups.id_of(name)
        except KeyError:
            known = ", ".join(self._groups.names)
            raise NodeError(f"no group {name!r} (this cluster has: {known})") from None

    def groups_of(self, node: int) -> list[GroupId]:
        """The groups that a node is a member of now."""
        return list(self._world.nodes[node].groups)

    def counts_of(self, node: int) -> dict[str, dict[str, int]]:
        """How much was published and delivered at a node, per group; as `Node.status` has it."""
        names = self._groups.names
        delivered = {name: len(self.delivered(node, name)) for name in names}
        durable = self._world.nodes[node].disk.published
        groups = [self._published.get((node, number)) for number in range(1, durable + 1)]
        published = {name: groups.count(self.group_id(name)) for name in names}
        return {"published": published, "delivered": delivered}

    def publish(
        self, node: int, body: bytes, group: str | None = None, said: Metadata | None = None
    ) -> MessageId:
        """Publish at `node`, to its first group unless told; the new message's id comes back."""
        target = GroupId(0) if group is None else self.group_id(group, node)
        return self.publish_to(node, target, body, said)

    def publish_to(
        self, node: int, target: GroupId, body: bytes, said: Metadata | None = None
    ) -> MessageId:
        """The same to a group by its number."""
        at_us = max(1, self._world.now)  # 0 would be no time
        body = body_of(body, said, at_us, stamps=False)
        if not self._world.lives.publish(NodeId(node), target, body):
            raise AssertionError(f"node {node} is down")
        number = self._world.nodes[node].published
        self._published[node, number] = target  # a crash may take it back; the number comes again
        return message_id(NodeId(node), number)

    def on_delivery(self, react: Callable[[int, Publication], None]) -> None:
        """Call `react(node, publication)` after each delivery; it may publish."""
        self._react = react

    def delivered(self, node: int, group: str | None = None) -> list[bytes]:
        """The bodies delivered at `node` so far, in order; of one group, if named."""
        wanted = None if group is None else self.group_id(group)
        found = self._deliveries[node]
        entries = [entry for entry in found if wanted is None or entry.group == wanted]
        return [payload_in(entry.body) for entry in entries]

    def publications(self, node: int) -> list[Publication]:
        """What was delivered at `node` so far, in order, with ids and groups."""
        return list(self._deliveries[node])

    def explain(self, node: int, message: MessageId) -> list[MessageId]:
        """What a message that is held at `node` waits for."""
        return self._world.nodes[node].stack.multicast.explain(message)

    def reasons(self, node: int, message: MessageId) -> list[str]:
        """The same in words."""
        return self._world.nodes[node].stack.multicast.reasons(message)

    # Time

    def run_ms(self, milliseconds: float) -> None:
        """Let time pass."""
        self._world.run(self._world.now + round(milliseconds * MS))

    def settle(self, at_most_ms: float = 60_000) -> None:
        """End all faults, bring everybody back, and let time pass until nothing happens."""
        self._world.calm_down()
        self._run.faults.recover_all()
        end = self._world.now + round(at_most_ms * MS)
        while not self._world.is_idle() and self._world.now < end:
            self._world.run(min(end, self._world.now + 100 * MS))

    # Faults

    def crash(self, node: int, keep: float = 0.0) -> None:
        """Kill a node; of what it had sent, the first `keep` of each link still arrives."""
        self._world.lives.crash(NodeId(node), keep)

    def recover(self, node: int) -> None:
        """Bring a node back with what it had persisted."""
        self._world.lives.recover(NodeId(node))

    def cut(self, a: int, b: int, loud: bool | None = None) -> None:
        """Let nothing pass between two nodes; loudly, both hear of the lost link.

        It is silent unless told, except where the protocol needs reliable links: there a silent
        cut is refused.
        """
        self._world.link_faults.cut(NodeId(a), NodeId(b), self._run.scenario.loudness(loud))

    def partition(self, *sides: Sequence[int], loud: bool | None = None) -> None:
        """Let nothing pass between these sides; loud or silent as a cut."""
        named = [[NodeId(node) for node in side] for side in sides]
        self._world.link_faults.partition(named, self._run.scenario.loudness(loud))

    def heal(self) -> None:
        """End every cut and partition."""
        self._world.link_faults.heal(None, None)

    def delay(self, a: int, b: int, extra_ms: float) -> None:
        """Let messages between two nodes take longer; 0 ends it."""
        self._world.link_faults.delay(NodeId(a), NodeId(b), round(extra_ms * MS))

    def pause(self, node: int) -> None:
        """Let a node stand still."""
        self._world.pause(NodeId(node))

    def resume(self, node: int) -> None:
        """Let it go on."""
        self._world.resume(NodeId(node))

    def suspect(self, node: int, by: int | None = None) -> None:
        """Let `by`, or everybody linked to it, suspect a node wrongly."""
        self._world.doubts.suspect(NodeId(node), None if by is None else NodeId(by))

    def command(self, node: int, words: str) -> None:
        """Tell a node what an operator would, such as "gone 3" or "part 0 1"."""
        try:
            command = self._run.scenario.blueprint.command(words)
        except ValueError as error:
            raise NodeError(str(error)) from None
        objection = self._world.nodes[node].stack.multicast.objection(command)
        if not self._world.lives.command(NodeId(node), words):
            raise NodeError(f"{command}: {objection or 'the node is down'}")

    def join(self, node: int, group: str) -> bool:
        """Make a node a member of a group, or let it ask to be admitted; False if it is or does so.

        NodeError if that cannot be asked for now.
        """
        number, world = self.group_id(group, node), self._world
        stack = world.nodes[node].stack
        if number in world.nodes[node].groups or stack.is_joining(number):
            return False
        reason = stack.multicast.refusal(number, joining=True)
        if reason:
            raise NodeError(f"cannot join {group!r} now: {reason}")
        self.on_joins(node, number)
        world.lives.join_group(NodeId(node), number)
        return True

    def leave(self, node: int, group: str) -> None:
        """End its membership, or let it ask for it no longer."""
        self._world.lives.leave_group(NodeId(node), self.group_id(group, node))

    # Groups that are made while it runs

    def create_group(self, node: int, name: str) -> MessageId | None:
        """Let a node make a group; None if it knows one of that name. All nodes hear of it before
        anything that is published to it."""
        check_offers_made(self.protocol)
        check_made_name(name)
        if name in self.known_groups(node):
            return None
        self._making.add((node, name))
        return self.publish_to(node, NEWS, self.made_at(node).making(name).encode())

    def remove_group(self, node: int, name: str) -> MessageId:
        """Let there be no such group any more; only one that was made."""
        check_offers_made(self.protocol)
        if self.made_at(node).id_of(name) is None:
            raise NodeError(f"no group {name!r} that was made")
        return self.publish_to(node, NEWS, self.made_at(node).removing(name).encode())

    def known_groups(self, node: int) -> list[str]:
        """All groups that a node has heard of."""
        return [*self._groups.names, *self.made_at(node).names()]

    def made_at(self, node: int) -> MadeGroups:
        """What a node knows of groups that were made."""
        return self._made.setdefault(node, MadeGroups())

    def on_groups(self, react: Callable[[int, str, GroupId, bool], None]) -> None:
        """Call `react(node, name, group, is_there)` when a node has heard of a change."""
        self._on_groups = react

    def _on_news(self, node: NodeId, publication: Publication) -> None:
        body, origin = payload_in(publication.body), origin_of(publication.id)
        if is_about_states(body):  # they are told after the step, as deliveries are
            self._world.plan(self._world.now, lambda: self.on_states(node, origin, body))
            return
        news = decode_news(body)
        assert news is not None  # all nodes here are honest
        change = self.made_at(node).take(news)
        for group in change.removed:
            self._world.end(node, group)
            self._tell(node, news.name, group, False)
        for group in change.made:
            is_maker = origin == node and (node, news.name) in self._making
            self._making.discard((node, news.name))
            if is_maker or self._patterns.is_member(node, news.name):
                self._world.enter(node, group)
            self._tell(node, news.name, group, True)

    def _tell(self, node: NodeId, name: str, group: GroupId, is_there: bool) -> None:
        react = self._on_groups
        if react is not None:  # after the step, as deliveries are told
            self._world.plan(self._world.now, lambda: react(node, name, group, is_there))

    # Judgement

    def trace(self) -> Run:
        """Everything that happened so far, as a trace; complete if nothing is left to happen."""
        run = self._run.result()
        run.header.complete = self._world.is_idle()
        return run

    def judgement(self) -> Judgement:
        """What the brute-force checker says of it."""
        return judge(self.trace())

    def check(self) -> None:
        """Fail unless everything that the protocol promises was kept."""
        found = self.judgement()
        promised = self.protocol.guarantees
        names = [WEAKER_FORMS.get(guarantee, guarantee) for guarantee in promised]
        broken = [violation for name in names for violation in found.violations[name]]
        if broken:
            raise AssertionError(f"{len(broken)} violations; first: {broken[0]}")
        if found.pending:
            raise AssertionError(f"not decided: {', '.join(sorted(found.pending))}")

    def _on_delivery(self, node: NodeId, publication: Publication) -> None:
        while node >= len(self._deliveries):  # a reborn node has a new id
            self._deliveries.append([])
        self._deliveries[node].append(publication)
        if self._react is not None:
            self._react(node, publication)
