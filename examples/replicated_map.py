"""A map that every node has a copy of: a small application over a causal group.

    python examples/replicated_map.py up &                          three nodes on this machine
    python examples/replicated_map.py put boss revoked --node 1 --session ada
    python examples/replicated_map.py get boss --node 3 --session ada

Every write is a message to the group, and every node applies what the group delivers.

* **Survives restarts.** A copy lives in a SQLite file, and one transaction holds both what a write
  changed and that it was applied. Messages are acknowledged after the commit. So a node that is
  killed gets again whatever had not been committed, and skips what had.
* **Causal+ convergence.** A write carries a clock that is higher than all that its node has
  applied. The highest (clock, node) wins at every node: a write that follows another replaces it,
  and of two that know nothing of one another the same one wins everywhere.
* **Session guarantees.** A session remembers how far the nodes were that it spoke with. A node that
  is behind waits before it answers. So a client reads its own writes, never reads backwards, and
  what it writes follows, at every node, what it has read and written; also after it has moved to
  another node, since a session is a short text that the client takes along.
"""

import argparse
import asyncio
import json
import os
import sqlite3
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import causalcast
from causalcast.core import number_of
from causalcast.errors import CausalcastError, NodeError
from causalcast.runtime.operating.control_client import ControlClient
from causalcast.runtime.operating.local_cluster import ClusterPlan, LocalCluster
from causalcast.runtime.operating.node_process import run_node

GROUP = "map"
KEEP_EVERY = 0.05  # seconds between commits; what came meanwhile shares one
PATIENCE = 10.0  # seconds that a client waits for a node that is behind its session

Seen = dict[int, int]  # the number of the last write of each node


class Session:
    """How far the nodes were that a client has spoken with."""

    def __init__(self, token: str = "") -> None:
        """`token` is what `token()` returned, here or in another process."""
        self.seen: Seen = {int(node): number for node, number in json.loads(token or "{}").items()}

    def token(self) -> str:
        """The session as a text, to be taken to another node."""
        return json.dumps(self.seen)

    def remember(self, seen: Seen) -> None:
        """The client has seen these writes, and all that came before them."""
        for node, number in seen.items():
            self.seen[node] = max(number, self.seen.get(node, 0))


class Replica:
    """One copy of the map, in a SQLite file. Nothing here waits, and nothing knows of messages."""

    TABLES = """
        CREATE TABLE IF NOT EXISTS entries
            (key TEXT PRIMARY KEY, value TEXT, clock INTEGER, node INTEGER);
        CREATE TABLE IF NOT EXISTS counters (key TEXT PRIMARY KEY, total INTEGER);
        CREATE TABLE IF NOT EXISTS applied
            (node INTEGER PRIMARY KEY, number INTEGER, writes INTEGER, clock INTEGER);
    """
    # A deleted key keeps its row, without a value: else an older write would bring it back.
    PUT = """
        INSERT INTO entries VALUES (:key, :value, :clock, :node) ON CONFLICT (key)
        DO UPDATE SET value = excluded.value, clock = excluded.clock, node = excluded.node
        WHERE (excluded.clock, excluded.node) > (entries.clock, entries.node)
    """
    ADD = """
        INSERT INTO counters VALUES (:key, :add) ON CONFLICT (key)
        DO UPDATE SET total = total + excluded.total
    """
    APPLIED = """
        INSERT INTO applied VALUES (?, ?, 1, ?) ON CONFLICT (node)
        DO UPDATE SET number = excluded.number, writes = writes + 1, clock = excluded.clock
    """

    def __init__(self, path: Path) -> None:
        self._file = sqlite3.connect(path)
        self._file.execute("PRAGMA journal_mode = WAL")
        self._file.execute("PRAGMA synchronous = FULL")  # a commit survives a power cut
        self._file.executescript(self.TABLES)
        rows = self._file.execute("SELECT node, number, writes, clock FROM applied").fetchall()
        self.seen: Seen = {node: number for node, number, _, _ in rows}
        self.writes = {node: writes for node, _, writes, _ in rows}
        self.clock = max((clock for _, _, _, clock in rows), default=0)

    def new_write(self, **what: Any) -> bytes:
        """A write that follows everything that was applied here."""
        self.clock += 1
        return json.dumps({"clock": self.clock, **what}).encode()

    def apply(self, node: int, number: int, body: bytes) -> bool:
        """Apply the write `number` of `node`; False if that was done before a restart."""
        if number <= self.seen.get(node, 0):
            return False  # writes of one node come in their order
        write = json.loads(body)
        self.clock = max(self.clock, write["clock"])
        self._file.execute(self.ADD if "add" in write else self.PUT, {"node": node, **write})
        self._file.execute(self.APPLIED, (node, number, write["clock"]))
        self.seen[node] = number
        self.writes[node] = self.writes.get(node, 0) + 1
        return True

    def covers(self, seen: Seen) -> bool:
        """Whether all of that was applied here."""
        return all(self.seen.get(node, 0) >= number for node, number in seen.items())

    def get(self, key: str) -> str | None:
        """The value of a key; None if it has none."""
        row = self._file.execute("SELECT value FROM entries WHERE key = ?", (key,)).fetchone()
        return row[0] if row else None

    def total(self, key: str) -> int:
        """The sum of all that was added to a counter."""
        row = self._file.execute("SELECT total FROM counters WHERE key = ?", (key,)).fetchone()
        return row[0] if row else 0

    def items(self) -> dict[str, str]:
        """All keys with their values."""
        query = "SELECT key, value FROM entries WHERE value IS NOT NULL ORDER BY key"
        return dict(self._file.execute(query))

    def commit(self) -> None:
        """Let everything applied so far survive a crash."""
        self._file.commit()

    def close(self) -> None:
        """Close the file; what was not committed is lost, as in a crash."""
        self._file.close()


class ReplicatedMap:
    """The map at one node: `async with ReplicatedMap(node, path) as shared: ...`"""

    def __init__(self, node: causalcast.Node, path: Path) -> None:
        self.replica = Replica(path)
        self._node = node
        self._group = node.group(GROUP)
        self._news = asyncio.Event()
        self._uncommitted: list[Any] = []  # messages that were applied
        # Writes of an earlier life may still wait to be applied. Their clocks must be known before
        # this life writes, or it would give the same ones again.
        self._earlier = node.status()["published"].get(GROUP, 0)

    async def __aenter__(self) -> "ReplicatedMap":
        await self._group.__aenter__()
        self._tasks = await asyncio.TaskGroup().__aenter__()  # if one fails, so do we
        self._work = [self._tasks.create_task(work) for work in (self._apply(), self._keep())]
        return self

    async def __aexit__(self, *error: Any) -> None:
        for task in self._work:
            task.cancel()
        try:
            await self._tasks.__aexit__(*error)
            await self._commit()
        finally:
            self.replica.close()
            await self._group.__aexit__(*error)

    # What clients do

    async def put(self, key: str, value: str, session: Session | None = None) -> None:
        """Set a key; returns when that is durable, and visible here."""
        await self._write(session or Session(), key=key, value=value)

    async def delete(self, key: str, session: Session | None = None) -> None:
        """Remove a key."""
        await self._write(session or Session(), key=key, value=None)

    async def add(self, key: str, amount: int, session: Session | None = None) -> None:
        """Add to a counter; no addition is lost or counted twice, whoever else adds."""
        await self._write(session or Session(), key=key, add=amount)

    async def get(self, key: str, session: Session | None = None) -> str | None:
        """The value of a key, no older than what the session has seen."""
        await self._catch_up(session or Session())
        return self.replica.get(key)

    async def total(self, key: str, session: Session | None = None) -> int:
        """A counter, no older than what the session has seen."""
        await self._catch_up(session or Session())
        return self.replica.total(key)

    async def items(self, session: Session | None = None) -> dict[str, str]:
        """All keys and values."""
        await self._catch_up(session or Session())
        return self.replica.items()

    # How it is done

    async def _write(self, session: Session, **what: Any) -> None:
        await self._until(session.seen)
        while self.replica.writes.get(self._node.id, 0) < self._earlier:
            await self._news.wait()
        receipt = await self._group.publish(self.replica.new_write(**what))
        mine = {int(self._node.id): number_of(receipt.id)}
        session.remember(mine)
        await self._until(mine)

    async def _catch_up(self, session: Session) -> None:
        await self._until(session.seen)
        session.remember(self.replica.seen)

    async def _until(self, seen: Seen) -> None:
        while not self.replica.covers(seen):
            await self._news.wait()

    async def _apply(self) -> None:
        async for message in self._group:
            self.replica.apply(message.origin, message.number, message.payload)
            self._uncommitted.append(message)
            self._news.set()
            self._news = asyncio.Event()

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(KEEP_EVERY)
            await self._commit()

    async def _commit(self) -> None:
        """First the file, then the acknowledgements: the other way round a crash loses writes."""
        messages, self._uncommitted = self._uncommitted, []
        if messages:
            self.replica.commit()
        for message in messages:
            await message.ack()


# A server around it, and its command


class Server:
    """One node with its map; answers at the node's control socket."""

    def __init__(self, config: Path) -> None:
        self._config = config
        self._map: ReplicatedMap | None = None

    def run(self) -> None:
        """Run until a signal, or until whoever started it has gone."""
        requests = dict.fromkeys(("put", "delete", "add", "get", "total", "items"), self._answer)
        run_node(self._config, self._serve, {**requests, "pid": _pid}, until_stdin_closes=True)

    async def _serve(self, node: causalcast.Node) -> None:
        async with ReplicatedMap(node, self._config.parent / "map.sqlite") as self._map:
            await asyncio.Event().wait()

    async def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._map is None:
            raise NodeError("the map is not open yet")
        session = Session(request["session"])
        work: Coroutine[Any, Any, Any] = getattr(self._map, request["do"])(
            *request["arguments"], session=session
        )
        try:
            async with asyncio.timeout(PATIENCE):
                return {"result": await work, "session": session.token()}
        except TimeoutError:
            raise NodeError("this node is still behind the session; try again later") from None


def _pid(_: dict[str, Any]) -> dict[str, Any]:
    return {"pid": os.getpid()}


def up(folder: Path, nodes: int) -> None:
    """Run a cluster until Ctrl-C; a node that dies is started again."""
    own = (sys.executable, str(Path(__file__).resolve()), "node")
    everybody = list(range(1, nodes + 1))
    plan = ClusterPlan(nodes=nodes, overlay="full_mesh", groups={GROUP: everybody}, command=own)
    cluster = LocalCluster(folder, plan)
    try:
        cluster.start_all()
        print(f"{nodes} nodes are up in {folder}", flush=True)
        while True:
            time.sleep(0.2)
            for node in everybody:
                if not cluster.is_running(node):
                    cluster.come_back(node)
                    print(f"node {node} had gone, and is back", flush=True)
    except KeyboardInterrupt:
        pass
    finally:
        cluster.stop_all()


def ask(folder: Path, node: int, do: str, *arguments: Any, session: str = "") -> dict[str, Any]:
    """One request to a node that runs: `result`, and `session` as it is afterwards."""
    with ControlClient(folder / f"node-{node}", node, timeout=2 * PATIENCE) as client:
        return client.ask(do, arguments=arguments, session=session)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="A replicated map. See the top of the file.")
    parser.add_argument("do", help="up, put KEY VALUE, get KEY, delete KEY, items, pid, …")
    parser.add_argument("arguments", nargs="*")
    parser.add_argument("--dir", type=Path, default=Path("replicated-map"))
    parser.add_argument("--nodes", type=int, default=3, help="of `up`")
    parser.add_argument("--node", type=int, default=1, help="which node to ask")
    parser.add_argument("--session", type=Path, help="a file that keeps the session")
    options = parser.parse_args()
    if options.do == "up":
        up(options.dir, options.nodes)
    elif options.do == "node":
        Server(Path(options.arguments[0])).run()
    else:
        keep: Path | None = options.session
        token = keep.read_text() if keep and keep.exists() else ""
        arguments = [
            int(text) if text.lstrip("-").isdigit() and options.do == "add" else text
            for text in options.arguments
        ]
        answer = ask(options.dir, options.node, options.do, *arguments, session=token)
        if keep:
            keep.write_text(answer["session"])
        print(json.dumps(answer.get("result", answer.get("pid"))))


if __name__ == "__main__":
    try:
        main()
    except CausalcastError as error:
        sys.exit(f"replicated_map: {error}")
