"""QUIC (aioquic) behind the interface of our carriers, to be measured beside them.

One connection with one stream per link; TLS 1.3 is part of QUIC, so the bytes are encrypted with a
certificate made for the run (which nobody checks here: the handshake is not what is measured).
"""

import asyncio
import datetime
import socket
import ssl
from collections.abc import Callable
from typing import Any, cast

from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.asyncio.server import QuicServer
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ConnectionTerminated, QuicEvent, StreamDataReceived
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from causalcast.runtime.links.address_book import Address
from causalcast.runtime.links.carrier import ContextNow, ProtocolFactory
from causalcast.runtime.links.doorway import Strangers

ALPN = "causalcast"
SOCKET_BUFFER = 4 << 20  # as our own carrier asks for
DATAGRAM = 1452  # bytes: what an Ethernet carries; 1,200 would be the default
WINDOW = 16 << 20  # bytes under way that the receiver allows: not what is measured


class QuicTransport(asyncio.Transport):
    """A stream of QUIC with asyncio's interface, as far as links use it."""

    def __init__(self, connection: "QuicLink", stream: int) -> None:
        super().__init__()
        self._connection = connection
        self._stream = stream
        self._high = 1 << 16
        self._is_paused = False
        self._is_planned = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = high or self._high

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._connection.socket() if name == "socket" else default

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._connection.quic.send_stream_data(self._stream, bytes(data))
        if not self._is_planned:
            self._is_planned = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._is_planned = False
        self._connection.transmit()
        self.look_at_buffer()

    def look_at_buffer(self) -> None:
        """Let the writer wait while more is in the buffer than it asked for."""
        waiting = self._connection.unsent(self._stream)
        if not self._is_paused and waiting > self._high:
            self._is_paused = True
            self._connection.user.pause_writing()
        elif self._is_paused and waiting < self._high // 4:
            self._is_paused = False
            self._connection.user.resume_writing()

    def abort(self) -> None:
        self._connection.close()


class QuicLink(QuicConnectionProtocol):
    """One connection of QUIC, which hands the bytes of its stream to a protocol of asyncio."""

    def __init__(self, quic: QuicConnection, make_user: Callable[[], Any], **more: Any) -> None:
        super().__init__(quic, **more)
        self.quic = quic
        self.user: Any = None
        self.stream_transport: QuicTransport | None = None
        self._make_user = make_user

    def socket(self) -> socket.socket:
        assert self._transport is not None
        return cast(socket.socket, self._transport.get_extra_info("socket"))

    def begin(self, stream: int) -> None:
        """There is a stream: the protocol may speak."""
        self.user = self._make_user()
        self.stream_transport = QuicTransport(self, stream)
        self.user.connection_made(self.stream_transport)

    def unsent(self, stream: int) -> int:
        """Bytes of a stream that were not acknowledged (aioquic has no public name for it)."""
        sender = self.quic._streams[stream].sender
        return int(sender._buffer_stop - sender._buffer_start)

    def quic_event_received(self, event: QuicEvent) -> None:
        if isinstance(event, StreamDataReceived):
            if self.user is None:
                self.begin(event.stream_id)
            data = memoryview(event.data)
            while data:
                room = self.user.get_buffer(len(data))
                taken = min(len(room), len(data))
                room[:taken] = data[:taken]
                self.user.buffer_updated(taken)
                data = data[taken:]
        elif isinstance(event, ConnectionTerminated) and self.user is not None:
            self.user.connection_lost(None)

    def datagram_received(self, data: bytes | str, addr: Any) -> None:
        super().datagram_received(data, addr)
        if self.stream_transport is not None:
            self.stream_transport.look_at_buffer()


class QuicCarrier:
    """Carries links over QUIC."""

    def __init__(self, congestion: str = "reno") -> None:
        self._congestion = congestion
        self._loop = asyncio.get_running_loop()

    def configuration(self, is_client: bool) -> QuicConfiguration:
        """What both ends agree on."""
        found = QuicConfiguration(
            is_client=is_client,
            alpn_protocols=[ALPN],
            congestion_control_algorithm=self._congestion,
            max_datagram_size=DATAGRAM,
            max_data=WINDOW,
            max_stream_data=WINDOW,
        )
        found.verify_mode = ssl.CERT_NONE
        if not is_client:
            found.certificate, found.private_key = _certificate()
        return found

    async def connect(
        self, factory: ProtocolFactory, host: str, port: int, context: ssl.SSLContext | None
    ) -> None:
        quic = QuicConnection(configuration=self.configuration(is_client=True))
        _, link = await self._loop.create_datagram_endpoint(
            lambda: QuicLink(quic, factory), family=socket.AF_INET, local_addr=("0.0.0.0", 0)
        )
        _enlarge(link.socket())
        link.connect((host, port))
        await link.wait_connected()
        link.begin(quic.get_next_available_stream_id())

    def doorway(
        self,
        strangers: Strangers,
        guest: ProtocolFactory,
        context: ContextNow,
        failed: Callable[[str], None],
    ) -> "QuicDoorway":
        return QuicDoorway(self.configuration(is_client=False), guest)


class QuicDoorway:
    """Where connections of QUIC arrive."""

    def __init__(self, configuration: QuicConfiguration, guest: ProtocolFactory) -> None:
        self._configuration = configuration
        self._guest = guest
        self._server: asyncio.DatagramTransport | None = None

    async def bind(self, address: Address) -> None:
        """Take the port, and accept."""

        def make_link(quic: QuicConnection, stream_handler: Any = None) -> QuicLink:
            return QuicLink(quic, self._guest)

        loop = asyncio.get_running_loop()
        self._server, _ = await loop.create_datagram_endpoint(
            lambda: QuicServer(configuration=self._configuration, create_protocol=make_link),
            local_addr=(address.host, address.port),
        )
        _enlarge(self._server.get_extra_info("socket"))

    def open(self) -> None:
        """It accepts from the beginning."""

    def close(self) -> None:
        assert self._server is not None
        self._server.close()


def _enlarge(bound: Any) -> None:
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        bound.setsockopt(socket.SOL_SOCKET, option, SOCKET_BUFFER)


def _certificate() -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "benchmark")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    return made, key
