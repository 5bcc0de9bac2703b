"""The bare mesh: asyncio and a length before each message. No codec, no order, no repetition.

Everybody is linked with everybody; the messages of one turn leave in one write per link. This is
the floor under anything that runs on asyncio.
"""

import asyncio
import socket
import ssl
import struct
from pathlib import Path

from member import Member, run_member

LENGTH = struct.Struct(">I")


class Link(asyncio.Protocol):
    """One connection."""

    def __init__(self, mesh: "BareMesh") -> None:
        self.mesh = mesh
        self.room = asyncio.Event()
        self.room.set()
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport.set_write_buffer_limits(high=1 << 20)
        self.mesh.links.append(self)

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
        at, end, take = 0, len(data), self.mesh.tally.take
        while end - at >= 4:
            stop = at + 4 + LENGTH.unpack_from(data, at)[0]
            if stop > end:
                break
            take(data[at + 4 : stop])
            at = stop
        self._rest = data[at:]

    def pause_writing(self) -> None:
        self.room.clear()

    def resume_writing(self) -> None:
        self.room.set()


class BareMesh(Member):
    """A link to each other member."""

    async def open(self) -> None:
        loop, work = asyncio.get_running_loop(), self.work
        self.links: list[Link] = []
        self._out: list[bytes] = []
        server = client = None
        if work.tls:
            server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            server.load_cert_chain(Path(work.tls) / "certificate.pem", Path(work.tls) / "key.pem")
            client = ssl.create_default_context(cafile=str(Path(work.tls) / "certificate.pem"))
        port = work.ports[str(work.me)]
        self._server = await loop.create_server(lambda: Link(self), "127.0.0.1", port, ssl=server)
        for other in work.members:
            if other < work.me:
                while True:
                    try:
                        await loop.create_connection(
                            lambda: Link(self), "127.0.0.1", work.ports[str(other)], ssl=client
                        )
                        break
                    except ConnectionRefusedError:
                        await asyncio.sleep(0.02)
        while len(self.links) < len(work.members) - 1:
            await asyncio.sleep(0.01)

    async def publish(self, body: bytes) -> None:
        self._out += (LENGTH.pack(len(body)), body)
        if self.work.me in self.work.receivers:
            self.tally.take(body)

    async def flush(self) -> None:
        data = b"".join(self._out)
        self._out = []
        for link in self.links:
            link.transport.write(data)
        for link in self.links:
            await link.room.wait()
        await asyncio.sleep(0)

    async def close(self) -> None:
        self._server.close()
        for link in self.links:
            link.transport.close()


if __name__ == "__main__":
    run_member(BareMesh)
