"""Coverage-guided fuzzing of everything that takes datagrams.

    python tests/integration/fuzz_datagrams.py -runs=1000000 [CORPUS]

The bytes go to the parsers of `causalcast udp`, to a point-to-point layer (as bytes, and as fields
of well-formed datagrams of its conversation), and to the UDP transport: from outside, and as the
content of a sealed datagram, which only a member could send. Nothing may raise anything but
WireError, and nothing may grow without bound.
"""

import asyncio
import contextlib
import random
import struct
import sys
from typing import Any

import atheris

with atheris.instrument_imports(include=["causalcast"]):
    from causalcast.cli.udp import member_message
    from causalcast.datagrams import plain_bytes as plain
    from causalcast.datagrams import point_to_point as ptp
    from causalcast.datagrams.point_to_point import PointToPoint, PointToPointOptions
    from causalcast.errors import WireError
    from causalcast.protocols.member_multicast.members import MemberMulticast
    from causalcast.runtime.links.udp import session as udp_session
    from causalcast.runtime.links.udp.carrier import MOST_UNPROVEN, UdpCarrier
    from causalcast.runtime.links.udp.sealing import ClusterKey, Exchange, Sealer

FIELDS = struct.Struct("!BIBIBIQIH")
PLACE = ("127.0.0.1", 9)
MOST_BUFFERED = 4 << 20


class Sink(asyncio.BufferedProtocol):
    """An application that takes anything."""

    def __init__(self) -> None:
        self._buffer = bytearray(1 << 14)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer


class Target:
    """Layers that live through many inputs, so that one input meets the state of others."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.loop.call_later = self._never  # type: ignore[method-assign]
        self.loop.call_at = self._never  # type: ignore[assignment]
        asyncio.set_event_loop(self.loop)
        self.inputs = 0
        self.begin_again()

    def _never(self, *arguments: Any, **named: Any) -> asyncio.TimerHandle:
        return asyncio.TimerHandle(0, lambda: None, (), self.loop)

    def begin_again(self) -> None:
        options = PointToPointOptions(window=8, queue=16, fast_repeat=True, adapts=True)
        self.layer = PointToPoint(options, random.Random(1))
        self.layer.begin(1 << 40, 2 << 40, 0)
        self.multicast = MemberMulticast(0, 3)
        self.loop.run_until_complete(self._make_session())

    async def _make_session(self) -> None:
        self.carrier = UdpCarrier(ClusterKey(b"fuzz" * 8))
        self.carrier.transmit = lambda data, place: None  # type: ignore[method-assign]
        self.carrier.serve(lambda session: session.begin(Sink()))
        caller = Exchange()
        self.carrier._answer(5, caller.public, PLACE)
        (self.session,) = self.carrier._sessions.values()
        self.sealer = Sealer(b"s" * 32)
        self.session._opener = type(self.session._opener)(b"s" * 32)

    def take(self, data: bytes) -> None:
        """One input."""
        self.inputs += 1
        if self.inputs % 500 == 0 or self.session._gone:
            self.begin_again()
        with contextlib.suppress(WireError):
            _, found = plain.decode(data)
            self._to_layer(found)
        if len(data) >= FIELDS.size:
            kind, *fields = FIELDS.unpack_from(data)
            datagram = ptp.Datagram(kind % (ptp.LAST_KIND + 1), 2 << 40, 1 << 40, *fields)
            datagram.body = data[FIELDS.size :]
            self._to_layer(datagram)
        with contextlib.suppress(WireError):
            message = member_message.decode(data)
            if message.kind == member_message.LOST:
                self.multicast.lost(
                    1 + len(data) % 2, message.member % 3, message.stamped.vector[1]
                )
            elif message.kind in (member_message.PASSED_ON, member_message.COUNTED_ON):
                self.multicast.passed_on(message.member % 3, message.stamped)
            else:
                self.multicast.receive(1 + len(data) % 2, message.stamped)
            self.multicast.take_to_pass_on()
        asyncio._set_running_loop(self.loop)
        try:
            self._to_carrier(data)
        finally:
            asyncio._set_running_loop(None)

    def _to_layer(self, datagram: ptp.Datagram) -> None:
        layer, out = self.layer, []  # type: ignore[var-annotated]
        if layer.current is None:
            layer.begin(1 << 40, 2 << 40, 0)
        layer.send(b"message", self.inputs, out)
        layer.receive(datagram, self.inputs, out)
        layer.poll(self.inputs, out)
        layer.deadline()
        assert len(layer.candidates) <= ptp.MOST_CANDIDATES.value and layer.queued() <= 16
        if layer.current is not None:
            assert len(layer.current.early) <= 8 and len(layer.current.under_way) <= 9

    def _to_carrier(self, data: bytes) -> None:
        for form in (data, self.sealer.seal(self.session.session, data)):
            with contextlib.suppress(WireError):
                self.carrier._take(memoryview(form), PLACE, udp_session.microseconds(self.loop))
        for touched in list(self.carrier._touched):
            touched.after_reading()
        self.carrier._touched.clear()
        assert len(self.carrier._by_call) <= MOST_UNPROVEN.value
        assert len(self.session._buffer) <= MOST_BUFFERED


def main() -> None:
    target = Target()
    atheris.Setup(sys.argv, target.take)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
