"""A document of pycrdt (Yjs) that survives, kept equal to those of pages and of other programs.

    python pycrdt_document.py ws://127.0.0.1:7500 doc document.sqlite new

It speaks with `causalcast_yjs.js`: pages that come late, or were away for long, ask, and a program
that is always there answers. So this is the keeper of a document (docs/clients.md). `new` is for
the first keeper of a new document, once; any other one that has nothing yet asks.

**The trap.** The document in memory has edits that are not published yet. Who stores the document
stores them, too. If the program dies before it has published them it comes back with edits that
nobody else has or will ever get, and every later edit that builds on them stands still everywhere
else. So what is stored here is what the group has delivered, own edits included, and nothing else:
a table of updates, in one transaction with the position of this client. Edits that were not
published when the program died are lost, as those of a page are that is closed too early.
"""

import asyncio
import contextlib
import json
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pycrdt import Doc, merge_updates

import causalcast
from causalcast.errors import Gap, Unanswered

TABLES = """
PRAGMA synchronous = FULL;
CREATE TABLE IF NOT EXISTS updates (number INTEGER PRIMARY KEY, change BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS position (
    place INTEGER PRIMARY KEY CHECK (place = 0), json TEXT, sure INTEGER
);
"""
MERGED_AT = 1000  # updates in the table become one
PIECE = 1 << 19  # bytes of one message; a node takes 1 MiB


class SharedDocument:
    """A `Doc` whose changes are those of the group."""

    def __init__(self, path: Path, is_new: bool = False) -> None:
        self.doc: Doc[Any] = Doc()
        self.name = f"python-{self.doc.client_id}"
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.executescript(TABLES)
        self._pieces: dict[str, dict[int, bytes]] = {}
        self._said = 0
        for (change,) in self._database.execute("SELECT change FROM updates ORDER BY number"):
            self.doc.apply_update(change)
        found = self._database.execute("SELECT json, sure FROM position").fetchone()
        self.position: dict[str, Any] | None = json.loads(found[0]) if found else None
        self.is_whole = is_new or self.position is not None  # else it asks, and answers nobody
        self.is_sure = is_new or (found is not None and bool(found[1]))  # nobody doubts its answers

    async def edit(
        self, chat: causalcast.RemoteGroup, change: Callable[[Doc[Any]], object]
    ) -> None:
        """Change the document, and return when that is durable at a node."""
        before = self.doc.get_state()
        with self.doc.transaction():
            change(self.doc)
        await self._say(chat, "update", self.doc.get_update(before))

    async def follow(self, node: causalcast.RemoteNode, chat: causalcast.RemoteGroup) -> None:
        """Take what comes, store it, and answer who asks."""
        if not self.is_whole:
            await self._say(chat, "question", self.doc.get_state())
        while True:
            messages = await chat.receive_many(500)
            changes, asked = [], {}
            for message in messages:
                body = self._whole(message)
                kind = message.headers.get("yjs")
                if body is not None and kind in ("update", "answer"):
                    changes.append(body)
                    if message.headers.get("to") == self.name:
                        self.is_whole = True
                        self.is_sure |= "unsure" not in message.headers
                elif body is not None and kind == "question":
                    asked[message.headers["from"]] = body
            await chat.ack_many(messages)
            self.store(changes, node.position())
            stored = self._stored()
            doubt = {} if self.is_sure else {"unsure": "yes"}
            for who, state in asked.items() if self.is_whole else ():
                await self._say(chat, "answer", stored.get_update(state), to=who, **doubt)

    def store(self, changes: list[bytes], position: dict[str, Any]) -> None:
        """What was delivered, and where that leaves us, in one commit."""
        database = self._database
        database.execute("BEGIN IMMEDIATE")
        for change in changes:
            database.execute("INSERT INTO updates (change) VALUES (?)", (change,))
        if database.execute("SELECT count(*) FROM updates").fetchone()[0] > MERGED_AT:
            merged = self._merged()
            database.execute("DELETE FROM updates")
            database.execute("INSERT INTO updates (change) VALUES (?)", (merged,))
        if self.is_whole and not self._pieces:  # pieces would be missing in the next life
            database.execute(
                "INSERT OR REPLACE INTO position VALUES (0, ?, ?)",
                (json.dumps(position), self.is_sure),
            )
        database.execute("COMMIT")
        for change in changes:
            self.doc.apply_update(change)

    def close(self) -> None:
        """Nothing is stored after this."""
        self._database.close()

    def _merged(self) -> bytes:
        changes = self._database.execute("SELECT change FROM updates ORDER BY number").fetchall()
        return merge_updates(*(change for (change,) in changes))

    def _stored(self) -> Doc[Any]:
        """What others have or will get: an answer must not have more either."""
        stored: Doc[Any] = Doc()
        if self._database.execute("SELECT 1 FROM updates").fetchone():
            stored.apply_update(self._merged())
        return stored

    def _whole(self, message: causalcast.RemoteMessage) -> bytes | None:
        """All of something that comes in pieces; None as long as some are missing."""
        if "piece" not in message.headers:
            return message.payload
        number, count = map(int, message.headers["piece"].split("/"))
        pieces = self._pieces.setdefault(message.headers["of"], {})
        pieces[number] = message.payload
        if number < count:
            return None
        del self._pieces[message.headers["of"]]
        is_whole = len(pieces) == count  # else it comes twice, and was whole before
        return b"".join(pieces[one] for one in sorted(pieces)) if is_whole else None

    async def _say(
        self, chat: causalcast.RemoteGroup, kind: str, body: bytes, **others: str
    ) -> None:
        headers = {"yjs": kind, "from": self.name, **others}
        pieces = [body[at : at + PIECE] for at in range(0, len(body), PIECE)]
        self._said += 1
        for number, piece in enumerate(pieces, 1):
            if len(pieces) > 1:
                headers |= {"of": f"{self.name}-{self._said}", "piece": f"{number}/{len(pieces)}"}
            while True:
                try:
                    await chat.publish(piece, headers)
                    break
                except Unanswered:
                    pass  # again: an update may come twice


async def main(urls: list[str], group: str, path: Path, is_new: bool) -> None:
    """Keep the document until Ctrl-C."""
    document = SharedDocument(path, is_new)
    while True:
        try:
            async with (
                causalcast.connect(urls, name="keeper", position=document.position) as node,
                node.group(group, since="kept") as chat,
            ):
                await document.follow(node, chat)
        except Gap:  # away for longer than nodes keep messages: somebody else has them
            document.position, document.is_whole, document.is_sure = None, False, False


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(sys.argv[1].split(","), sys.argv[2], Path(sys.argv[3]), "new" in sys.argv))
