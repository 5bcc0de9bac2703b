"""The same bytes without msgspec, for simulations where there is none, as in a browser.

Slower, and it trusts what it decodes: a simulation decodes only what it encoded. Real nodes use
`codec.py`, which checks everything. Both leave the same trace, and a test says so.
"""

import struct
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, Final, get_args, get_origin

from causalcast.core.message import Message
from causalcast.errors import WireError
from causalcast.wire.forms import Forms


class PlainCodec(Forms):
    """Encodes and decodes the messages of one kind of node in plain Python."""

    def __init__(self, layers: Sequence[Sequence[type[Message]]]) -> None:
        super().__init__(layers)
        self._make = [eval(f"lambda s: make({f.arguments})", self.scope(f)) for f in self.forms]
        self._slots = [[(name, _shaped(kind)) for name, kind in f.slots] for f in self.forms]

    def encode(self, message: Message) -> bytes:
        out = bytearray()
        _pack(self.to_tuple[type(message)](message), out)
        return bytes(out)

    def decode(self, data: Any) -> tuple[int, Message]:
        values = data if isinstance(data, tuple) else _Unpacker(bytes(data)).whole()
        if not isinstance(values, tuple) or not values:
            raise WireError("not a message of this cluster")
        index, *given = values
        slots = self._slots[index]
        fields = {name: shape(value) for (name, shape), value in zip(slots, given, strict=True)}
        return self.forms[index].layer, self._make[index](SimpleNamespace(**fields))


def _same(value: Any) -> Any:
    return value


def _shaped(kind: Any) -> Callable[[Any], Any]:
    """What makes a value of the declared type from lists that came as tuples."""
    if kind is float:
        return float
    container, arguments = get_origin(kind), get_args(kind)
    if container is dict:
        key, value = map(_shaped, arguments)
        return lambda found: {key(k): value(v) for k, v in found.items()}
    if container is list:
        one = _shaped(arguments[0])
        return lambda found: [one(item) for item in found]
    if container is tuple:
        if arguments[-1] is ...:
            each = _shaped(arguments[0])
            return lambda found: tuple(each(item) for item in found)
        shapes = [_shaped(argument) for argument in arguments]
        return lambda found: tuple(s(item) for s, item in zip(shapes, found, strict=True))
    supertype = getattr(kind, "__supertype__", None)
    return _same if supertype is None else _shaped(supertype)


def _pack(value: Any, out: bytearray) -> None:
    """Append a value in the shortest form of msgpack."""
    if value is None or value is True or value is False:
        out.append({None: 0xC0, False: 0xC2, True: 0xC3}[value])
    elif isinstance(value, int):
        _pack_int(value, out)
    elif isinstance(value, float):
        out += struct.pack(">Bd", 0xCB, value)
    elif isinstance(value, str):
        data = value.encode()
        if len(data) < 32:
            out.append(0xA0 | len(data))
        else:
            _pack_length(len(data), (0xD9, 0xDA, 0xDB), out)
        out += data
    elif isinstance(value, bytes):
        _pack_length(len(value), (0xC4, 0xC5, 0xC6), out)
        out += value
    elif isinstance(value, dict):
        if len(value) < 16:
            out.append(0x80 | len(value))
        else:
            _pack_length(len(value), (None, 0xDE, 0xDF), out)
        for key, item in value.items():
            _pack(key, out)
            _pack(item, out)
    elif isinstance(value, (list, tuple)):
        if len(value) < 16:
            out.append(0x90 | len(value))
        else:
            _pack_length(len(value), (None, 0xDC, 0xDD), out)
        for item in value:
            _pack(item, out)
    else:
        raise TypeError(f"{type(value).__name__} cannot be encoded")


def _pack_int(value: int, out: bytearray) -> None:
    if -32 <= value < 128:
        out += struct.pack(">b" if value < 0 else ">B", value)
        return
    first, codes = (0xCC, "BHIQ") if value >= 0 else (0xD0, "bhiq")
    for place, code in enumerate(codes):
        bits = 8 << place
        if (value < 1 << bits) if value >= 0 else (value >= -(1 << bits - 1)):
            out += struct.pack(f">B{code}", first + place, value)
            return
    raise OverflowError("an integer of more than 64 bits cannot be encoded")


def _pack_length(length: int, heads: tuple[int | None, int, int], out: bytearray) -> None:
    """The head of something with a length: for one byte, two, or four of it."""
    if heads[0] is not None and length < 1 << 8:
        out += struct.pack(">BB", heads[0], length)
    elif length < 1 << 16:
        out += struct.pack(">BH", heads[1], length)
    else:
        out += struct.pack(">BI", heads[2], length)


class _Unpacker:
    """Reads one value; arrays become tuples."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def whole(self) -> Any:
        """The value, which is all there is."""
        try:
            value = self._value()
        except (IndexError, struct.error) as error:
            raise WireError(f"not a message of this cluster: {error}") from None
        if self._at != len(self._data):
            raise WireError("not a message of this cluster: more follows it")
        return value

    def _value(self) -> Any:
        head = self._data[self._at]
        self._at += 1
        if head < 0x80:
            return head
        if head < 0x90:
            return self._map(head & 0x0F)
        if head < 0xA0:
            return self._array(head & 0x0F)
        if head < 0xC0:
            return self._bytes(head & 0x1F).decode()
        if head >= 0xE0:
            return head - 0x100
        if head in _CONSTANTS:
            return _CONSTANTS[head]
        code, what = _CODES[head]
        (number,) = struct.unpack_from(f">{code}", self._data, self._at)
        self._at += struct.calcsize(code)
        if what == "bytes":
            return self._bytes(number)
        if what == "text":
            return self._bytes(number).decode()
        if what == "array":
            return self._array(number)
        return self._map(number) if what == "map" else number

    def _bytes(self, length: int) -> bytes:
        data = self._data[self._at : self._at + length]
        if len(data) != length:
            raise IndexError("it ends too early")
        self._at += length
        return data

    def _array(self, length: int) -> tuple[Any, ...]:
        return tuple(self._value() for _ in range(length))

    def _map(self, length: int) -> dict[Any, Any]:
        found = {}
        for _ in range(length):
            key = self._value()
            found[key] = self._value()
        return found


_CONSTANTS: Final = {0xC0: None, 0xC2: False, 0xC3: True}
_CODES: Final = {
    0xC4: ("B", "bytes"), 0xC5: ("H", "bytes"), 0xC6: ("I", "bytes"),
    0xCB: ("d", "number"),
    0xCC: ("B", "number"), 0xCD: ("H", "number"), 0xCE: ("I", "number"), 0xCF: ("Q", "number"),
    0xD0: ("b", "number"), 0xD1: ("h", "number"), 0xD2: ("i", "number"), 0xD3: ("q", "number"),
    0xD9: ("B", "text"), 0xDA: ("H", "text"), 0xDB: ("I", "text"),
    0xDC: ("H", "array"), 0xDD: ("I", "array"),
    0xDE: ("H", "map"), 0xDF: ("I", "map"),
}  # fmt: skip
