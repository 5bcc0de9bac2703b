"""Streams of the UDP transport alone: an end that reads slowly, and a way that loses much."""

import asyncio

from loopback_nodes import free_ports, until
from lossy_proxy import LossyProxies

from causalcast.runtime.links.address_book import Address
from causalcast.runtime.links.doorway import Strangers
from causalcast.runtime.links.udp.carrier import UdpCarrier
from causalcast.runtime.links.udp.sealing import ClusterKey
from causalcast.runtime.links.udp.session import MOST_UNREAD, UdpTransport, most_kept

BLOCK = bytes(range(256)) * 256


class Stream(asyncio.BufferedProtocol):
    """Takes what comes, checks it, and says when it ends."""

    def __init__(self) -> None:
        self.transport: UdpTransport
        self.taken = 0
        self.lost = False
        self._buffer = bytearray(1 << 16)

    def is_stranger(self) -> bool:
        return False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, UdpTransport)
        self.transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        start = self.taken % 256
        assert self._buffer[:nbytes] == (BLOCK + BLOCK)[start : start + nbytes]
        self.taken += nbytes

    def pause_writing(self) -> None:
        pass

    def resume_writing(self) -> None:
        pass

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True


class Pair:
    """Two carriers and a stream from one to the other."""

    def __init__(self) -> None:
        self.carriers = [UdpCarrier(ClusterKey(b"key" * 11)) for _ in range(2)]
        self.writing, self.reading = Stream(), Stream()

    async def connect(self, through: LossyProxies | None = None) -> None:
        """Dial, through a proxy if there is one."""
        ports = free_ports(2)
        door = self.carriers[1].doorway(Strangers(), lambda: self.reading, lambda: None, print)
        await door.bind(Address("127.0.0.1", ports[1]))
        door.open()
        await self.carriers[0].bind("127.0.0.1", ports[0])
        host, port = "127.0.0.1", ports[1]
        if through is not None:
            host, port = through.before((host, port))[:2]
        await self.carriers[0].connect(lambda: self.writing, host, port, None)

    def close(self) -> None:
        for stream in (self.writing, self.reading):
            if hasattr(stream, "transport"):
                stream.transport.abort()
        for carrier in self.carriers:
            carrier.close_when_empty()


def test_an_end_that_does_not_read_stops_the_other_and_loses_nothing() -> None:
    """Longer than a peer's silence would be borne: it is not silent, it has no room."""

    async def story() -> None:
        pair = Pair()
        await pair.connect()
        pair.writing.transport.write(BLOCK)
        await until(lambda: pair.reading.taken == len(BLOCK))
        pair.reading.transport.pause_reading()
        blocks = 200
        for _ in range(blocks):
            pair.writing.transport.write(BLOCK)
        await asyncio.sleep(6)
        held = pair.reading.transport._unread_bytes
        assert MOST_UNREAD.value < held <= most_kept()
        assert pair.writing.transport.get_write_buffer_size() > 0
        assert pair.carriers[1].counts["a_slow_reader"] == 0
        assert not pair.writing.lost and not pair.reading.lost
        pair.reading.transport.resume_reading()
        await until(lambda: pair.reading.taken == (blocks + 1) * len(BLOCK))
        assert pair.carriers[0].counts["retransmissions"] < blocks
        pair.close()

    asyncio.run(story())


def test_a_stream_through_much_loss() -> None:
    """Three of ten datagrams are lost each way."""
    proxies = LossyProxies(0.3)

    async def story() -> None:
        pair = Pair()
        await pair.connect(proxies)
        for _ in range(100):
            pair.writing.transport.write(BLOCK)
        await until(lambda: pair.reading.taken == 100 * len(BLOCK))
        pair.writing.transport.close()
        await until(lambda: pair.writing.lost and pair.reading.lost)
        pair.close()

    with proxies.running():
        asyncio.run(story())
    assert proxies.fired["lost"] > 20
