"""How fast an application takes what waits for it: one message at a time, and many at once.

A node that was away catches up: so many durable messages wait in its inbox, and it takes and
acknowledges all of them. Then threads publish, and one takes messages into SQLite, with a commit
for each, or for each batch. Both ways take turns; medians of the rounds, and the ratio.

    python benchmarks/reading.py --messages 100000
"""

import argparse
import asyncio
import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import causalcast
from causalcast.runtime.node_config import NodeConfig
from causalcast.runtime.sync_node import SyncNode

BODY = b"." * 32
AT_ONCE = 1000
TOML = """
[node]
id = 1
listen = "127.0.0.1:7777"
[cluster]
name = "reading"
peers = { 1 = "127.0.0.1:7777" }
[protocol]
name = "vector_clock_broadcast"
[groups]
all = "*"
[storage]
path = "data"
[security]
tls = false
"""

Taking = Callable[[causalcast.Group, int], Awaitable[None]]


async def one_by_one(group: causalcast.Group, count: int) -> None:
    for _ in range(count):
        message = await anext(group)
        await message.ack()


async def many_at_once(group: causalcast.Group, count: int) -> None:
    while count > 0:
        messages = await group.receive_many(AT_ONCE)
        await group.ack_many(messages)
        count -= len(messages)


async def catch_up(folder: Path, count: int, take: Taking) -> float:
    """Messages per second that a node takes which finds so many when it starts."""
    config = NodeConfig.parse(TOML, folder)
    async with causalcast.Node(config) as node:
        for _ in range(count // AT_ONCE):
            await node.group("all").publish_many([BODY] * AT_ONCE)
    async with causalcast.Node(config) as node:
        began = time.perf_counter()
        await take(node.group("all"), count)
        return count / (time.perf_counter() - began)


def into_sqlite(folder: Path, count: int, threads: int, at_once: int) -> float:
    """Messages per second from threads that publish into a table, exactly once."""
    table = sqlite3.connect(folder / "table", isolation_level=None)
    table.execute("PRAGMA journal_mode=WAL")
    table.execute("CREATE TABLE seen (id INTEGER PRIMARY KEY, body BLOB)")
    with SyncNode(NodeConfig.parse(TOML, folder)) as node:
        group = node.group("all")

        def publish() -> None:
            for _ in range(count // threads // at_once):
                group.publish_many([BODY] * at_once)

        publishers = [threading.Thread(target=publish) for _ in range(threads)]
        began = time.perf_counter()
        for each in publishers:
            each.start()
        left = count // threads // at_once * at_once * threads
        while left:
            messages = group.receive_many(at_once)
            table.execute("BEGIN")
            rows = [(message.id, message.payload) for message in messages]
            table.executemany("INSERT OR IGNORE INTO seen VALUES (?, ?)", rows)
            table.execute("COMMIT")
            group.ack_many(messages)
            left -= len(messages)
        took = time.perf_counter() - began
        for each in publishers:
            each.join()
    table.close()
    return count / took


def told(name: str, slow: list[float], fast: list[float]) -> None:
    one, many = statistics.median(slow), statistics.median(fast)
    print(f"{name:<28} {one:>10,.0f} {many:>10,.0f}  × {many / one:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=16)
    options = parser.parse_args()
    ones: list[float] = []
    manies: list[float] = []
    for _ in range(options.rounds):
        for take, rates in ((one_by_one, ones), (many_at_once, manies)):
            with tempfile.TemporaryDirectory() as folder:
                rates.append(asyncio.run(catch_up(Path(folder), options.messages, take)))
    print(f"{'messages per second':<28} {'one':>10} {'many':>10}")
    told(f"catching up {options.messages:,}", ones, manies)
    ones, manies = [], []
    for _ in range(options.rounds):
        for at_once, rates in ((1, ones), (100, manies)):
            with tempfile.TemporaryDirectory() as folder:
                count = options.messages // (10 if at_once == 1 else 1)
                rates.append(into_sqlite(Path(folder), count, options.threads, at_once))
    told(f"{options.threads} threads, SQLite", ones, manies)


if __name__ == "__main__":
    main()
