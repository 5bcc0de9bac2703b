"""Many nodes that only answer at their control sockets: fifty of them cost no more than one."""

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

from causalcast.runtime.operating.control_client import control_path


def status_of(node: int, peers: list[int], **changes: Any) -> dict[str, Any]:
    """What a node says that is well."""
    traffic = {"sent_bytes": 1000, "received_bytes": 1000}
    traffic |= {"sent_messages": 10, "received_messages": 10}
    return {
        "node": node,
        "name": f"node-{node}",
        "version": "1",
        "build": "interpreted",
        "starts": 1,
        "takes_part": True,
        "groups": ["chat"],
        "asked_for": [],
        "links": peers,
        "certificate_expires": None,
        "published": {"chat": 5},
        "delivered": {"chat": 7},
        "suspected": [],
        "publishers_wait": [],
        "waiting": 0,
        "unacknowledged": 0,
        "journal": {"bytes": 100, "held_bytes": 0, "syncs": 1, "sync_seconds": 0.1},
        "kept_bytes": 0,
        "kept_for": {str(peer): 0 for peer in peers},
        "held": {"messages": 0, "bytes": 0, "oldest_seconds": 0.0, "oldest": []},
        "inbox": {"chat": 0},
        "traffic": {str(peer): dict(traffic) for peer in peers},
        "queues": {str(peer): 0 for peer in peers},
        "repeated": {},
        "delivery_seconds": {"below": [], "count": 0, "sum": 0.0},
        "whole_way_seconds": {"below": [], "count": 0, "sum": 0.0},
        "from_the_future": 0,
        "process": {"cpu_seconds": 1.0, "resident_bytes": 50_000_000},
        "trace": {"bytes": 10, "lost_rows": 0},
        "trouble": {},
        "conditions": {},
        "notes": {},
        **changes,
    }


class FakeNodes:
    """A ring of nodes; what each says can be changed while it is asked. A context manager."""

    def __init__(self, place: Path, count: int) -> None:
        self.place = place
        self.said = {
            node: status_of(node, sorted({(node - 2) % count + 1, node % count + 1} - {node}))
            for node in range(1, count + 1)
        }
        self.events: dict[int, list[dict[str, Any]]] = {}
        self.mute: set[int] = set()  # these take requests and say nothing
        self.asked: list[str] = []
        self._servers: dict[int, asyncio.Server] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> "FakeNodes":
        self._thread.start()
        for node in self.said:
            self.start(node)
        return self

    def __exit__(self, *_: object) -> None:
        for node in list(self._servers):
            self.stop(node)
        asyncio.run_coroutine_threadsafe(self._end_all(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end_all(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def start(self, node: int) -> None:
        """Let it answer."""
        folder = self.place / f"node-{node}"
        folder.mkdir(parents=True, exist_ok=True)
        serving = asyncio.start_unix_server(
            lambda reader, writer: self._serve(node, reader, writer), control_path(folder, node)
        )
        future = asyncio.run_coroutine_threadsafe(serving, self._loop)
        self._servers[node] = future.result(10)

    def stop(self, node: int) -> None:
        """It is killed: its socket stays, and nobody listens there."""
        server = self._servers.pop(node)

        async def close() -> None:
            server.close()

        asyncio.run_coroutine_threadsafe(close(), self._loop).result(10)

    async def _serve(
        self, node: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while line := await reader.readline():
            request = json.loads(line)
            self.asked.append(request["do"])
            if node in self.mute:
                continue
            answer: dict[str, Any] = {"ok": True}
            if request["do"] == "status":
                answer |= self.said[node]
            elif request["do"] == "events":
                told = self.events.get(node, [])
                answer |= {"events": told[request["since"] :], "next": len(told)}
            elif request["do"] == "explain":
                answer |= {"waits_for": ["1.1"], "reasons": ["waits for 1.1\x1b[8m"]}
            writer.write(json.dumps(answer).encode() + b"\n")
        writer.close()
