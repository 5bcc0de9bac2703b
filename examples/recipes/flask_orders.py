"""A web application with threads that writes each order into SQLite exactly once.

    python flask_orders.py node.toml orders.sqlite 8000

The node runs in this process. What it delivers is written in batches: one transaction holds the
orders and, for each origin, the number of the last message in it; the batch is acknowledged after
the commit. Killed before the commit, the program gets the batch again and writes it. Killed after
it, the numbers say that it is written. A browser that got no answer sends the same key again: it
may be published twice, and is one order, for the key is the primary key.
"""

import sqlite3
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from flask import Flask, jsonify, request
from flask.typing import ResponseReturnValue

import causalcast
from causalcast.errors import NodeError

TABLES = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
CREATE TABLE IF NOT EXISTS orders (key TEXT PRIMARY KEY, pieces INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS stock (pieces INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS seen (origin INTEGER PRIMARY KEY, number INTEGER NOT NULL);
INSERT INTO stock SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM stock);
"""
BATCH = 500  # messages of one commit, at most


def opened(path: Path) -> sqlite3.Connection:
    """The database, with its tables."""
    database = sqlite3.connect(path, isolation_level=None, timeout=30)
    database.executescript(TABLES)
    return database


def write(database: sqlite3.Connection, messages: Sequence[causalcast.SyncMessage]) -> None:
    """One batch, each message of it once, in one commit."""
    seen = dict(database.execute("SELECT origin, number FROM seen"))
    database.execute("BEGIN IMMEDIATE")
    for message in messages:
        if message.number <= seen.get(message.origin, 0):
            continue  # written in an earlier life
        seen[message.origin] = message.number
        pieces, _, key = message.payload.decode().partition(" ")
        new = database.execute("INSERT OR IGNORE INTO orders VALUES (?, ?)", (key, int(pieces)))
        if new.rowcount:
            database.execute("UPDATE stock SET pieces = pieces - ?", (int(pieces),))
    database.executemany("INSERT OR REPLACE INTO seen VALUES (?, ?)", seen.items())
    database.execute("COMMIT")


def keep_writing(orders: causalcast.SyncGroup, path: Path) -> None:
    """Write whatever comes, until the node stops."""
    database = opened(path)
    try:
        while True:
            messages = orders.receive_many(BATCH, timeout=1)
            if messages:
                write(database, messages)
                orders.ack_many(messages)
    except NodeError:
        database.close()


def application(orders: causalcast.SyncGroup, path: Path) -> Flask:
    """What browsers speak with, in as many threads as there are requests."""
    app = Flask(__name__)

    @app.post("/orders")
    def order() -> ResponseReturnValue:
        given = request.get_json()
        orders.publish(f"{int(given['pieces'])} {given['key']}".encode())
        return jsonify(accepted=given["key"]), 202  # durable here; all nodes will have it

    @app.get("/stock")
    def stock() -> ResponseReturnValue:
        database = opened(path)
        (pieces,) = database.execute("SELECT pieces FROM stock").fetchone()
        (count,) = database.execute("SELECT count(*) FROM orders").fetchone()
        database.close()
        return jsonify(pieces=pieces, orders=count)

    return app


def main() -> None:
    """Serve until Ctrl-C."""
    config, path, port = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    opened(path).close()
    with causalcast.open_sync(config) as node, node.group("orders") as orders:
        threading.Thread(target=keep_writing, args=(orders, path), daemon=True).start()
        application(orders, path).run(port=port, threaded=True)


if __name__ == "__main__":
    main()
