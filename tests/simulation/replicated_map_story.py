"""Clients of the example's replicated map, on simulated nodes that crash and lose one another.

Several clients read and write, and move from node to node with their sessions. What they saw is
kept, and judged afterwards from the outside: by what clients sent and got, by the order in which
each copy applied writes, and by what the protocol delivered. `check` returns what is wrong.
"""

import asyncio
import importlib.util
import json
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from causalcast.core.ids import number_of, origin_of
from causalcast.errors import NodeError
from causalcast.runtime.node import ReceivedMessage
from causalcast.testing import Applications, Cluster, VirtualNode
from causalcast.testing.applications import VirtualGroup

EXAMPLE = Path(__file__).parents[2] / "examples" / "replicated_map.py"


def load_example() -> Any:
    """The example as a module."""
    spec = importlib.util.spec_from_file_location("replicated_map", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["replicated_map"] = module
    spec.loader.exec_module(module)
    return module


example = load_example()

OVERLAYS = {
    "vector_clock_broadcast": ["full_mesh", "ring", "line"],
    "causal_barriers": ["full_mesh"],
    "locamu": ["line", "star"],
}
KEYS = ["a", "b", "c"]
Write = tuple[int, int]  # a node, and which of its writes
Stamp = tuple[int, int, int]  # clock and write: the order in which writes replace one another


@dataclass
class Client:
    """What one client did and saw, in its own order."""

    name: int
    token: str = ""
    node: int = 0
    writes: int = 0
    added: dict[str, int] = field(default_factory=dict)
    # ("wrote", key, value), ("read", key, value), ("total", key, sum): only what was answered.
    past: list[tuple[str, str, Any]] = field(default_factory=list)


class WatchedReplica(example.Replica):  # type: ignore[misc]
    """A copy that tells in which order writes were applied."""

    order: list[Write]
    kept = 0

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._file.execute("PRAGMA synchronous = OFF")  # the machine itself does not crash here

    def apply(self, node: int, number: int, body: bytes) -> bool:
        applied: bool = super().apply(node, number, body)
        if applied:
            self.order.append((int(node), number))
        return applied

    def commit(self) -> None:
        super().commit()
        self.kept = len(self.order)


class BusyGroup(VirtualGroup):
    """A group of a node that is busy: a message waits a while before it is applied."""

    pause: Callable[[], float]

    async def __anext__(self) -> ReceivedMessage:
        message = await super().__anext__()
        await asyncio.sleep(self.pause())
        return message


class Story:
    """One random run, drawn from a seed."""

    def __init__(
        self,
        seed: int,
        folder: Path,
        map_class: type[Any] = example.ReplicatedMap,
        replica_class: type[Any] = example.Replica,
    ) -> None:
        self.chance = chance = random.Random(f"{seed}/story")
        self.folder = folder
        self.nodes = chance.choice([3, 3, 4])
        protocol = chance.choice(list(OVERLAYS))
        self.cluster = Cluster(
            self.nodes,
            protocol,
            overlay=chance.choice(OVERLAYS[protocol]),
            groups={"map": range(self.nodes)},
            latency_ms=(1, chance.choice([5, 40, 120])),
            loss=chance.choice([0.0, 0.1]),
            sync_ms=chance.choice([0.0, 4.0]),
            seed=seed,
        )
        self.applications = Applications(self.cluster, seed)
        self.map_class = map_class
        self.replica_class = type("Watched", (WatchedReplica, replica_class), {})
        self.maps: dict[int, Any] = {}
        self.order: dict[int, list[Write]] = {node: [] for node in range(self.nodes)}
        self.clients = [Client(name) for name in range(4)]
        self.wrong: list[str] = []
        self.fired: dict[str, int] = {protocol: 1}
        self.finals: list[tuple[dict[str, str], dict[str, int]]] = []

    def run(self) -> list[str]:
        """Play it; what is wrong comes back."""
        self.applications.run(self._play())
        for inbox in self.applications.inboxes.values():
            self._count("redelivered", inbox.redelivered)
        return self.wrong + self.check()

    # What happens

    async def _play(self) -> None:
        for node in range(self.nodes):
            self.applications.start(node, self._application)
        await asyncio.sleep(0.05)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._break_things())
            for client in self.clients:
                tasks.create_task(self._use(client))
        self.cluster.heal()
        for node in range(self.nodes):
            if self.applications.nodes[node].life.is_over:
                self.applications.recover(node, self._application)
        await self._settle()
        for node in range(self.nodes):
            replica = self.maps[node].replica
            totals = {key: replica.total(key) for key in KEYS}
            self.finals.append((replica.items(), totals))

    async def _settle(self) -> None:
        """Wait until every copy has every write, or long enough to say that it never will."""
        for _ in range(60):
            await asyncio.sleep(0.5)
            expected = set(self._published())
            if all(set(order) == expected for order in self.order.values()):
                break

    async def _application(self, node: VirtualNode) -> None:
        """What runs at a node: the example's map, with a copy that is watched."""
        original, example.Replica = example.Replica, self.replica_class
        try:
            shared = self.map_class(node, self.folder / f"map-{node.id}.sqlite")
        finally:
            example.Replica = original
        if self.chance.random() < 0.3:
            shared._group = BusyGroup(node, "map", self.cluster.group_id("map"))
            shared._group.pause = lambda: self.chance.uniform(0.0, 0.1)
            self._count("busy")
        shared.replica.order = self.order[node.id]
        shared.replica.kept = len(shared.replica.order)
        async with shared:
            self.maps[node.id] = shared
            await asyncio.Event().wait()

    async def _break_things(self) -> None:
        chance = self.chance
        for _ in range(chance.randint(3, 6)):
            await asyncio.sleep(chance.uniform(0.02, 0.3))
            node = chance.randrange(self.nodes)
            kind = chance.choice(["crash", "crash", "partition", "delay"])
            self._count(kind)
            if kind == "crash":
                self._crash(node)
                await asyncio.sleep(chance.choice([0.001, 0.1, 0.5]))
                self.applications.recover(node, self._application)
            elif kind == "partition":
                self.cluster.partition([node], [n for n in range(self.nodes) if n != node])
                await asyncio.sleep(chance.uniform(0.1, 1.0))
                self.cluster.heal()
            else:
                self.cluster.delay(node, (node + 1) % self.nodes, chance.choice([0, 100, 300]))

    def _crash(self, node: int) -> None:
        self.applications.crash(node, self.chance.random())
        shared = self.maps.pop(node, None)
        if shared is not None:
            del self.order[node][shared.replica.kept :]  # what was not committed is undone
            shared.replica.close()

    async def _use(self, client: Client) -> None:
        chance = self.chance
        for _ in range(chance.randint(15, 30)):
            await asyncio.sleep(chance.choice([0.0, 0.001, 0.03, 0.1]))
            if chance.random() < 0.5:
                client.node = chance.randrange(self.nodes)
                self._count("moved")
            if client.node in self.maps:
                await self._one_request(client)

    async def _one_request(self, client: Client) -> None:
        """Ask the node, as the server of the example is asked: with a token, and for one back."""
        shared = self.maps[client.node]
        session = example.Session(client.token)
        if not shared.replica.covers(session.seen):
            self._count("waited")
        key = self.chance.choice(KEYS)
        kind = self.chance.choice(["put", "put", "delete", "add", "get", "get", "get", "total"])
        client.writes += 1
        value = f"{client.name}-{client.writes}"
        work: dict[str, Callable[[], Any]] = {
            "put": lambda: shared.put(key, value, session),
            "delete": lambda: shared.delete(key, session),
            "add": lambda: shared.add(key, client.writes, session),
            "get": lambda: self._get(shared, key, session),
            "total": lambda: shared.total(key, session),
        }
        try:
            async with asyncio.timeout(1.0):
                result = await self.applications.call(client.node, work[kind]())
        except (NodeError, TimeoutError):
            self._count("unanswered")  # it may have happened or not; the client keeps its token
            return
        client.token = session.token()
        if kind == "put":
            client.past.append(("wrote", key, value))
        elif kind == "get":
            client.past.append(("read", key, result))
        elif kind == "add":
            client.added[key] = client.added.get(key, 0) + client.writes
        elif kind == "total":
            client.past.append(("total", key, (result, client.added.get(key, 0))))

    async def _get(self, shared: Any, key: str, session: Any) -> str | None:
        value: str | None = await shared.get(key, session)
        if value is not None and value != shared.replica.get(key):
            self.wrong.append("a read is not what the copy has")
        return value

    def _count(self, kind: str, times: int = 1) -> None:
        self.fired[kind] = self.fired.get(kind, 0) + times

    # What must be true of it

    def check(self) -> list[str]:
        """Everything that is wrong with what happened."""
        bodies = self._published()
        found = list(self._check_copies(bodies))
        by_value = {
            body["value"]: write for write, body in bodies.items() if body.get("value") is not None
        }
        stamps = {write: (body["clock"], *write) for write, body in bodies.items()}
        deletes = [
            (body["key"], stamps[write])
            for write, body in bodies.items()
            if "value" in body and body["value"] is None
        ]
        for client in self.clients:
            found += self._check_client(client, by_value, stamps, deletes)
        return found

    def _published(self) -> dict[Write, dict[str, Any]]:
        """Every write that the protocol delivered anywhere."""
        bodies: dict[Write, dict[str, Any]] = {}
        for node in range(self.nodes):
            for publication in self.cluster.publications(node):
                write = (int(origin_of(publication.id)), number_of(publication.id))
                bodies[write] = json.loads(publication.body)
        return bodies

    def _check_copies(self, bodies: dict[Write, dict[str, Any]]) -> Iterator[str]:
        values: dict[str, tuple[Stamp, str | None]] = {}
        totals = dict.fromkeys(KEYS, 0)
        for write, body in bodies.items():
            key = body["key"]
            if "add" in body:
                totals[key] += body["add"]
                continue
            stamp = (body["clock"], *write)  # of one node the later write must win
            if key not in values or stamp > values[key][0]:
                values[key] = (stamp, body["value"])
        expected = {key: value for key, (_, value) in sorted(values.items()) if value is not None}
        for node, (items, sums) in enumerate(self.finals):
            order = self.order[node]
            if len(order) != len(set(order)):
                yield f"node {node} applied a write twice"
            if set(order) != set(bodies):
                yield f"node {node} lacks writes: {sorted(set(bodies) - set(order))}"
            if items != expected:
                yield f"no convergence: node {node} has {items}, expected {expected}"
            if sums != totals:
                yield f"a wrong sum: node {node} has {sums}, expected {totals}"

    def _check_client(
        self,
        client: Client,
        by_value: dict[str, Write],
        stamps: dict[Write, Stamp],
        deletes: list[tuple[str, Stamp]],
    ) -> Iterator[str]:
        latest: dict[str, tuple[Write, str]] = {}  # of each key: the newest it wrote or read, how
        known: dict[Write, str] = {}
        sums: dict[str, int] = {}
        for kind, key, what in client.past:
            if kind == "total":
                result, own = what
                if result < own:
                    yield f"read your writes: {client.name} added {own}, and read {result}"
                if result < sums.get(key, 0):
                    yield f"monotonic reads: {client.name} read a sum that shrank"
                sums[key] = result
                continue
            if what is None:  # deleted, so some deletion is newer than what was seen before
                before = latest.get(key)
                if before and not any(k == key and s > stamps[before[0]] for k, s in deletes):
                    yield f"{before[1]}: {client.name} had {before[0]}, and read nothing"
                continue
            write = by_value.get(what)
            if write is None:
                yield f"lost: {client.name} has an answer for {what}, and nobody has that write"
                continue
            if kind == "read":
                before = latest.get(key)
                if before and stamps[write] < stamps[before[0]]:
                    yield f"{before[1]}: {client.name} read {write} after {before[0]}"
                latest[key] = (write, "monotonic reads")
                known[write] = "writes follow reads"
                continue
            for earlier, guarantee in known.items():
                if stamps[earlier] >= stamps[write]:
                    yield f"{guarantee}: {write} does not replace {earlier}, which it follows"
                for node, order in self.order.items():
                    if write in order and earlier not in order[: order.index(write)]:
                        yield f"{guarantee}: node {node} applied {write} before {earlier}"
            latest[key] = (write, "read your writes")
            known[write] = "monotonic writes"
