"""Datagrams of the point-to-point layer as bytes: a fixed head, the message, a checksum.

The head names the sender by the address of its receiving socket, as the report has it: datagrams
leave from another socket. The checksum finds what was cut or damaged on the way; it is no defence
against forgery, for which the tokens of the conversation are (and encryption, in the transport).
"""

import ipaddress
import struct
import zlib
from typing import Final

from causalcast.datagrams.point_to_point import EARLY_BITS, LAST_KIND, Datagram
from causalcast.errors import WireError

MAGIC: Final = b"cU"
VERSION: Final = 2
# magic, version, kind, sender's address and port, the two tokens, number and transmission,
# answered number and its transmission, ack, early, settled, room
_HEAD: Final = struct.Struct("!2sBB16sHQQIBIBIQIH")
_CHECKSUM: Final = struct.Struct("!I")
OVERHEAD: Final = _HEAD.size + _CHECKSUM.size
LARGEST: Final = 1472  # with the heads of UDP and IPv4 1,500 bytes, the limit of the report
LARGEST_BODY: Final = LARGEST - OVERHEAD

Sender = tuple[str, int]


def encode(datagram: Datagram, sender: Sender) -> bytes:
    """The bytes that are sent."""
    host, port = sender
    assert len(datagram.body) <= LARGEST_BODY
    head = _HEAD.pack(
        MAGIC,
        VERSION,
        datagram.kind,
        _packed(host),
        port,
        datagram.source,
        datagram.target,
        datagram.number,
        datagram.transmission,
        datagram.answers,
        datagram.answered_transmission,
        datagram.ack,
        datagram.early & (1 << EARLY_BITS) - 1,
        datagram.settled,
        datagram.room,
    )
    data = head + datagram.body
    return data + _CHECKSUM.pack(zlib.crc32(data))


def decode(data: bytes) -> tuple[Sender, Datagram]:
    """Who sent it, and what; WireError for what is no whole datagram of ours."""
    if not OVERHEAD <= len(data) <= LARGEST:
        raise WireError(f"a datagram of {len(data)} bytes")
    (checksum,) = _CHECKSUM.unpack_from(data, len(data) - _CHECKSUM.size)
    if checksum != zlib.crc32(data[: -_CHECKSUM.size]):
        raise WireError("a datagram with a wrong checksum")
    magic, version, kind, host, port, *fields = _HEAD.unpack_from(data)
    if magic != MAGIC or version != VERSION or kind > LAST_KIND:
        raise WireError("a datagram of another kind")
    datagram = Datagram(kind, *fields)
    datagram.body = data[_HEAD.size : -_CHECKSUM.size]
    return (_unpacked(host), port), datagram


def _packed(host: str) -> bytes:
    """An address in 16 bytes; one of IPv4 as IPv6 maps it."""
    address = ipaddress.ip_address(host)
    if isinstance(address, ipaddress.IPv4Address):
        return bytes(10) + b"\xff\xff" + address.packed
    return address.packed


def _unpacked(packed: bytes) -> str:
    address = ipaddress.IPv6Address(packed)
    return str(address.ipv4_mapped or address)
