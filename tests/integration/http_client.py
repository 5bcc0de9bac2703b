"""Nodes with doors for HTTP too, and clients that say there what they like."""

import asyncio
import json
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import quote

from door_nodes import Doors
from loopback_nodes import PATIENCE, free_ports

from causalcast.runtime.node_config import NodeConfig


class Answer:
    """What came back."""

    def __init__(self, head: bytes, body: bytes = b"") -> None:
        first, *lines = head.decode().strip().split("\r\n")
        self.status = int(first.split()[1])
        self.headers = {
            name.lower(): value for name, value in (line.split(": ", 1) for line in lines)
        }
        self.said: dict[str, Any] = json.loads(body) if body else {}


class Event:
    """One event of a stream."""

    def __init__(self, text: str) -> None:
        fields = dict(line.split(": ", 1) for line in text.strip().splitlines())
        self.kind = fields["event"]
        self.id = fields.get("id", "")
        self.data = fields["data"]

    @property
    def said(self) -> dict[str, Any]:
        """Its data."""
        found: dict[str, Any] = json.loads(self.data)
        return found


class HttpClient:
    """One connection."""

    def __init__(self, port: int, tls: bool = False, **headers: str) -> None:
        self._port = port
        self._tls = tls
        self._headers = {"Host": f"127.0.0.1:{port}"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter

    async def __aenter__(self) -> "HttpClient":
        context = None
        if self._tls:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self.reader, self.writer = await asyncio.open_connection(
            "127.0.0.1", self._port, ssl=context, limit=1 << 20
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.transport.abort()

    def say(self, method: str, target: str, body: bytes = b"", **headers: str) -> None:
        """A whole request."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        length = {"Content-Length": str(len(body))} if method == "POST" else {}
        lines = [f"{name}: {value}" for name, value in (self._headers | length | named).items()]
        head = "\r\n".join([f"{method} {target} HTTP/1.1", *lines])
        self.writer.write(f"{head}\r\n\r\n".encode() + body)

    async def hear(self) -> Answer:
        """The head and the body of an answer."""
        async with asyncio.timeout(PATIENCE):
            head = await self.reader.readuntil(b"\r\n\r\n")
            answer = Answer(head)
            if "content-length" in answer.headers:
                size = int(answer.headers["content-length"])
                answer = Answer(head, await self.reader.readexactly(size))
            return answer

    async def ask(self, past: str = "", query: str = "", **words: Any) -> Answer:
        """One request of the protocol."""
        headers = {"Causalcast_Past": past} if past else {}
        self.say("POST", f"/v1/ask{query}", json.dumps(words).encode(), **headers)
        return await self.hear()

    async def read(self, *groups: str, query: str = "", **headers: str) -> Answer:
        """Begin to read; the first events are passed over."""
        named = "&".join(f"group={quote(group)}" for group in groups)
        self.say("GET", f"/v1/messages?{named}{query}", **headers)
        answer = await self.hear()
        if answer.status == 200:
            assert (await self.event()).kind == "stream"
            assert (await self.event()).kind == "subscribed"
        return answer

    async def event(self) -> Event:
        """The next event of the stream."""
        async with asyncio.timeout(PATIENCE):
            while (text := (await self.reader.readuntil(b"\n\n")).decode()) == ":\n\n":
                pass
        return Event(text)

    async def texts(self, count: int) -> list[str]:
        """What the next messages say."""
        return [(await self.event()).said["text"] for _ in range(count)]


class HttpDoors(Doors):
    """Nodes with both doors."""

    def __init__(self, folder: Path, nodes: int, **others: Any) -> None:
        super().__init__(folder, nodes, **others)
        taken = {*self.ports.values(), *self.doors.values()}
        ports = [port for port in free_ports(3 * nodes) if port not in taken]
        self.http = dict(zip(self.ids, ports, strict=False))
        self.http_host = "127.0.0.1"
        self._plain_door = self._door

    def config(self, node: int, **changes: str) -> NodeConfig:
        self._door = f'{self._plain_door}\nhttp = "{self.http_host}:{self.http[node]}"\n'
        return super().config(node, **changes)

    def client(self, node: int, **headers: str) -> HttpClient:
        """A connection to the door of a node."""
        return HttpClient(self.http[node], self.authority is not None, **headers)
