"""Messages to bytes and back, from what each message class declares. Never compiled.

For every class a tagged msgspec struct is made, so that decoding and checking types is one pass in
C, and two lines of Python that move fields between it and the plain class. Written out once per
class, they cost a third of a loop over `getattr`.

On the wire a message is an array: its index in the node's list of messages (layer by layer, in
the order of the SPECs), then its fields. A message id is two fields, its origin and its number; a
publication is four: origin, number, group, body. A large clock is packed (`packed_clock.py`).
Messages that each continue the one before are one array: the complement of that index, the fields
of the first, and in the place of its body a list of bodies.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Annotated, Any, Final, get_args, get_origin

import msgspec
from msgspec import Meta, Raw

from causalcast.core.ids import NODE_LIMIT, NUMBER_MASK, GroupId, MessageId, NodeId
from causalcast.core.message import LONGEST_RUN, Envelope, Message, Publication, Single
from causalcast.errors import WireError
from causalcast.limits import Limit
from causalcast.wire.framing import LENGTH_BYTES, MANY, MOST_TOGETHER
from causalcast.wire.packed_clock import packed_clock, unpacked_clock
from causalcast.wire.runs import Arrived, publications_of

WIRE_VERSION: Final = 4
BODY_BYTES: Final = Limit(
    "wire.codec.body_bytes",
    1 << 20,
    least=1,
    most=64 << 20,
    unit="bytes",
    about="a body that may be published",
    setting="[limits] body_bytes",
)
METADATA_BYTES: Final = Limit(
    "wire.codec.metadata_bytes",
    1 << 20,
    least=16,
    most=64 << 20,
    unit="bytes",
    about="what a frame may have beside the largest body; longer messages travel in pieces",
)

_Node = Annotated[int, Meta(ge=0, lt=NODE_LIMIT)]
_Number = Annotated[int, Meta(ge=1, le=NUMBER_MASK)]
_CLOCK: Final = dict[NodeId, int]
_PLAIN: Final = (bool, int, float, str, bytes)


class Description:
    """What a trace says of a message on its way: which publication it carries, and sizes."""

    __slots__ = ("clock_entries", "group", "message", "metadata_bytes", "name", "payload_bytes")

    def __init__(
        self,
        name: str,
        message: int,
        group: int,
        payload_bytes: int,
        metadata_bytes: int,
        clock_entries: int = -1,
    ) -> None:
        self.name = name
        self.message = message
        self.group = group
        self.payload_bytes = payload_bytes
        self.metadata_bytes = metadata_bytes  # framing included
        self.clock_entries = clock_entries  # of all vector clocks in it; -1 if it has no clock


def codec_of(layers: Sequence[Sequence[type[Message]]]) -> "Codec":
    """The codec of these messages, made once: a campaign makes thousands of worlds, and nothing
    in a codec changes."""
    return _made(tuple(map(tuple, layers)), METADATA_BYTES.value)


class Codec:
    """Encodes and decodes the messages of one kind of node."""

    def __init__(
        self, layers: Sequence[Sequence[type[Message]]], max_body: int = BODY_BYTES.default
    ) -> None:
        self._encoder = msgspec.msgpack.Encoder()
        self._to_tuple: dict[type[Message], Callable[[Any], tuple[Any, ...]]] = {}
        self._publications: dict[type[Message], Callable[[Any], list[Publication]]] = {}
        self._clocks: dict[type[Message], Callable[[Any], list[int]]] = {}
        self._nodes: dict[type[Message], Callable[[Any], list[NodeId]]] = {}
        self._spoken_of: dict[type[Message], Callable[[Any], Iterable[int]]] = {}
        self._groups: dict[type[Message], Callable[[Any], Iterable[int]]] = {}
        self._from_struct: dict[type, tuple[int, Callable[[Any], Message]]] = {}
        self._arrived: dict[type, Callable[[Any], Arrived]] = {}
        self._run_to_tuple: dict[type[Message], Callable[[list[Any], Any], tuple[Any, ...]]] = {}
        self._names: list[str] = []
        body = Annotated[bytes, Meta(max_length=max_body)]
        for layer, classes in enumerate(layers):
            for message_class in classes:
                self._add(layer, message_class, body)
        self.max_frame = max_body + METADATA_BYTES.value
        any_message = _union([*self._from_struct])
        any_run: Any = _union([*self._arrived])
        self._decoder = msgspec.msgpack.Decoder(any_message)
        self._decoder_of_frame = msgspec.msgpack.Decoder(any_run)
        self._decoder_of_many = msgspec.msgpack.Decoder(list.__class_getitem__(any_run))

    def encode(self, message: Message) -> bytes:
        """The bytes of one message."""
        return self._encoder.encode(self._to_tuple[type(message)](message))

    def encode_run(self, messages: list[Message]) -> bytes:
        """The bytes of messages that each continue the one before."""
        if len(messages) == 1:
            return self.encode(messages[0])
        to_tuple = self._run_to_tuple[type(messages[0])]
        return self._encoder.encode(to_tuple(messages, messages[0]))

    def decode(self, data: bytes | memoryview | Raw) -> tuple[int, Message]:
        """The layer and the message; raises WireError for anything that is not one."""
        try:
            struct = self._decoder.decode(data)
            layer, make = self._from_struct[type(struct)]
            return layer, make(struct)  # messages inside messages are decoded here
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise WireError(f"not a message of this cluster: {error}") from None

    def decode_all(self, frames: Iterable[memoryview]) -> tuple[list[Arrived], WireError | None]:
        """All messages of some frames and what they carry, up to the first that is none."""
        decode, decode_many = self._decoder_of_frame.decode, self._decoder_of_many.decode
        found: list[Arrived] = []
        arrived = self._arrived
        try:
            for data in frames:
                if len(data) == 0 or data[0] != MANY:
                    structs = [decode(data)]
                elif len(data) <= MOST_TOGETHER.value:
                    structs = decode_many(data)
                else:
                    return found, WireError(f"{len(data)} bytes of messages in one frame")
                for struct in structs:
                    found.append(arrived[type(struct)](struct))
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            return found, WireError(f"not a message of this cluster: {error}")
        except WireError as error:  # of a message inside a message
            return found, error
        return found, None

    def describe(self, message: Message, size: int) -> Description:
        """What the trace says of a message that took `size` bytes."""
        publications = self._publications[type(message)](message)
        payload = sum(len(publication.body) for publication in publications)
        first = publications[0] if publications else None
        return Description(
            type(message).wire.name,
            -1 if first is None else first.id,
            -1 if first is None else first.group,
            payload,
            LENGTH_BYTES + size - payload,
            self._clock_entries(message),
        )

    def publications(self, message: Message) -> list[Publication]:
        """The publications that a message carries."""
        return self._publications[type(message)](message)

    def _clock_entries(self, message: Message) -> int:
        sizes = self._clocks_of(message)
        return sum(sizes) if sizes else -1

    def nodes_named(self, message: Message) -> list[NodeId]:
        """The nodes that a message names in its fields, by themselves or in lists."""
        return self._nodes[type(message)](message)

    def nodes_spoken_of(self, message: Message) -> Iterable[int]:
        """Every node that a message speaks of, wherever in it: in clocks, lists and ids, and in
        messages inside; those of its publications aside."""
        return self._spoken_of[type(message)](message)

    def groups_spoken_of(self, message: Message) -> Iterable[int]:
        """The same for groups."""
        return self._groups[type(message)](message)

    def digest(self, *facts: object) -> str:
        """A short name for the wire version, the list of messages, and further `facts`."""
        text = repr((WIRE_VERSION, self._names, facts))
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    # Making the glue of one class

    def _add(self, layer: int, message_class: type[Message], body: Any) -> None:
        index = len(self._names)
        fields = [
            _Field(name, kind, self, body) for name, kind in message_class.wire.fields.items()
        ]
        slots = [slot for field in fields for slot in field.slots]
        struct = msgspec.defstruct(
            f"Wire{index}", slots, tag=index, array_like=True, forbid_unknown_fields=True
        )
        scope: dict[str, Any] = {
            "make": message_class,
            "Publication": Publication,
            "codec": self,
            "packed_clock": packed_clock,
            "unpacked_clock": unpacked_clock,
        }
        to_tuple = ", ".join([str(index), *(part for field in fields for part in field.out)])
        arguments = ", ".join(field.back for field in fields)
        carried = ", ".join(field.publications for field in fields if field.publications)
        self._to_tuple[message_class] = eval(f"lambda m: ({to_tuple},)", scope)
        self._from_struct[struct] = (layer, eval(f"lambda s: make({arguments})", scope))
        if issubclass(message_class, Envelope):
            carried = "*m.carried()"
        self._arrived[struct] = eval(
            f"lambda s: ({layer}, (m := make({arguments})), ({carried}{',' if carried else ''}))",
            scope,
        )
        self._publications[message_class] = eval(f"lambda m: [{carried}]", scope)
        if issubclass(message_class, Single):
            self._add_run(layer, index, message_class, fields, scope)
        clocks = " + ".join(field.clocks for field in fields if field.clocks)
        self._clocks[message_class] = eval(f"lambda m: {clocks or '[]'}", scope)
        named = " + ".join(field.nodes for field in fields if field.nodes)
        self._nodes[message_class] = eval(f"lambda m: {named or '[]'}", scope)
        for kind, table, inner in (
            (NodeId, self._spoken_of, "nodes_spoken_of"),
            (GroupId, self._groups, "groups_spoken_of"),
        ):
            found = [_all_of(kind, f"m.{f.name}", f.kind, inner) for f in fields]
            table[message_class] = eval(f"lambda m: {_joined(found)}", scope)
        shape = ", ".join(
            f"{name}: {_spelled(kind)}" for name, kind in message_class.wire.fields.items()
        )
        self._names.append(f"{layer} {message_class.wire.name}({shape})")

    def _add_run(
        self,
        layer: int,
        index: int,
        message_class: type[Message],
        fields: "list[_Field]",
        scope: dict[str, Any],
    ) -> None:
        """The same for messages that each continue the one before: many bodies instead of one."""
        (carrier,) = (field for field in fields if field.run_slots)
        name = carrier.name
        struct = msgspec.defstruct(
            f"Run{index}",
            [slot for field in fields for slot in field.run_slots or field.slots],
            tag=-1 - index,
            array_like=True,
            forbid_unknown_fields=True,
        )
        out = [part for field in fields for part in field.out]
        out[out.index("p.body")] = f"[x.{name}.body for x in run]"
        self._run_to_tuple[message_class] = eval(
            f"lambda run, m: ({-1 - index}, {', '.join(out)})", scope
        )
        arguments = ", ".join(field.run_back or field.back for field in fields)
        self._arrived[struct] = eval(
            f"lambda s: ({layer}, (m := make({arguments})),"
            f" publications_of(m.{name}, s.{name}_body))",
            {**scope, "publications_of": publications_of, "first_of": _first_of},
        )

    def _tuple_of(self, message: Message) -> tuple[Any, ...]:
        return self._to_tuple[type(message)](message)

    def _message_of(self, raw: Raw) -> Message:
        return self.decode(raw)[1]

    def _publications_of(self, message: Message) -> list[Publication]:
        return self._publications[type(message)](message)

    def _clocks_of(self, message: Message) -> list[int]:
        return self._clocks[type(message)](message)


class _Field:
    """How one declared field looks on the wire, and the code that moves it."""

    def __init__(self, name: str, kind: Any, codec: Codec, body: Any) -> None:
        self.name = name
        self.kind = kind
        self.publications = ""  # the publications it carries, as items of a list
        self.clocks = ""  # expression for the sizes of the vector clocks it carries
        self.nodes = ""  # expression for the nodes it names
        # Instead, where messages travel as one: the first of them.
        self.run_slots: list[tuple[str, Any]] = []
        self.run_back = ""
        if kind is Publication:
            o, n, g, b = (f"{name}_{part}" for part in ("origin", "number", "group", "body"))
            self.slots: list[tuple[str, Any]] = [(o, _Node), (n, _Number), (g, _Node), (b, body)]
            bodies = Annotated[list[body], Meta(min_length=2, max_length=LONGEST_RUN.value)]
            self.run_slots = [*self.slots[:3], (b, bodies)]
            self.run_back = f"Publication(first_of(s.{o}, s.{n}, s.{b}), s.{g}, s.{b}[0])"
            self.out = [
                f"(p := m.{name}).id >> 32",
                f"p.id & {NUMBER_MASK}",
                "p.group",
                "p.body",
            ]
            self.back = f"Publication(s.{o} << 32 | s.{n}, s.{g}, s.{b})"
            self.publications = f"m.{name}"
        elif kind is MessageId:
            o, n = f"{name}_origin", f"{name}_number"
            self.slots = [(o, _Node), (n, _Number)]
            self.out = [f"m.{name} >> 32", f"m.{name} & {NUMBER_MASK}"]
            self.back = f"s.{o} << 32 | s.{n}"
        elif kind is Message:
            self.slots = [(name, Raw)]
            self.out = [f"codec._tuple_of(m.{name})"]
            self.back = f"codec._message_of(s.{name})"
            self.publications = f"*codec._publications_of(m.{name})"
            self.clocks = f"codec._clocks_of(m.{name})"
        elif get_origin(kind) is list and get_args(kind)[0] is Message:
            self.slots = [(name, list[Raw])]
            self.out = [f"[codec._tuple_of(x) for x in m.{name}]"]
            self.back = f"[codec._message_of(x) for x in s.{name}]"
            self.publications = f"*(p for x in m.{name} for p in codec._publications_of(x))"
            self.clocks = f"[c for x in m.{name} for c in codec._clocks_of(x)]"
        elif get_origin(kind) is list and get_args(kind)[0] is Publication:
            self.slots = [(name, list[tuple[_Node, _Number, _Node, body]])]
            self.out = [f"[(p.id >> 32, p.id & {NUMBER_MASK}, p.group, p.body) for p in m.{name}]"]
            self.back = f"[Publication(o << 32 | n, g, b) for o, n, g, b in s.{name}]"
            self.publications = f"*m.{name}"
        elif kind == _CLOCK:
            self.slots = [(name, _checked(kind) | bytes)]
            self.out = [f"packed_clock(m.{name})"]
            self.back = f"unpacked_clock(s.{name})"
            self.clocks = f"[len(m.{name})]"
        else:
            self.slots = [(name, _checked(kind))]
            self.out = [f"m.{name}"]
            self.back = f"s.{name}"
            if get_origin(kind) is dict and get_args(kind)[1] == _CLOCK:
                self.clocks = f"[sum(map(len, m.{name}.values()))]"  # one per group, say
            if kind is NodeId:
                self.nodes = f"[m.{name}]"
            elif get_origin(kind) is list and get_args(kind)[0] is NodeId:
                self.nodes = f"m.{name}"


def _all_of(wanted: Any, value: str, kind: Any, inner: str, depth: int = 0) -> str:
    """An expression for everything of one kind of id in a value of a declared type; empty if there
    can be none. `inner`: what the codec calls this for messages inside messages."""
    container, arguments = get_origin(kind), get_args(kind)
    if kind is wanted:
        return f"({value},)"
    if kind is MessageId and wanted is NodeId:
        return f"({value} >> 32,)"
    if kind is Message:
        return f"codec.{inner}({value})"
    if container is list:
        return value if arguments[0] is wanted else _each(wanted, value, arguments[0], inner, depth)
    if container is dict:
        keys = value if arguments[0] is wanted else _each(wanted, value, arguments[0], inner, depth)
        values = _each(wanted, f"{value}.values()", arguments[1], inner, depth)
        return _joined([keys, values]) if keys or values else ""
    if container is tuple:
        parts = [
            _all_of(wanted, f"{value}[{place}]", argument, inner, depth)
            for place, argument in enumerate(arguments)
        ]
        return _joined(parts) if any(parts) else ""
    return ""


def _joined(expressions: list[str]) -> str:
    """What all of these give, one after the other; those that are empty give nothing."""
    found = [expression for expression in expressions if expression]
    if len(found) < 2:
        return found[0] if found else "()"
    return f"[*{', *'.join(found)}]"


def _each(wanted: Any, values: str, kind: Any, inner: str, depth: int) -> str:
    """The same for every one of many values."""
    one = f"x{depth}"
    found = _all_of(wanted, one, kind, inner, depth + 1)
    return f"[y{depth} for {one} in {values} for y{depth} in {found}]" if found else ""


def _spelled(kind: Any) -> str:
    """A declared type in words that are the same in every build: compiled code names no modules."""
    if get_origin(kind) is not None:
        inner = ", ".join(_spelled(one) for one in get_args(kind))
        return f"{get_origin(kind).__name__}[{inner}]"
    return getattr(kind, "__name__", str(kind))


def _union(structs: list[type]) -> Any:
    union: Any = structs[0] if structs else Raw
    for struct in structs[1:]:
        union = union | struct
    return union


def _first_of(origin: int, number: int, bodies: list[bytes]) -> int:
    """The id of the first of many publications; raises ValueError if there are not so many."""
    if number + len(bodies) - 1 > NUMBER_MASK:
        raise ValueError("numbers beyond the last one")
    return origin << 32 | number


def _checked(kind: Any) -> Any:
    """The msgspec type of a plain field; ids are checked for their range."""
    if kind in (NodeId, GroupId):
        return _Node
    if kind is MessageId:
        return Annotated[int, Meta(ge=0)]  # inside containers an id stays one packed number
    if kind in _PLAIN:
        return kind
    container, arguments = get_origin(kind), get_args(kind)
    if container in (list, dict, tuple) and arguments:
        return container[tuple(_checked(argument) for argument in arguments)]
    supertype = getattr(kind, "__supertype__", None)
    if supertype is not None:
        return _checked(supertype)
    raise TypeError(f"{kind!r} cannot be declared in a Wire")


@lru_cache(maxsize=64)
def _made(layers: tuple[tuple[type[Message], ...], ...], metadata_bytes: int) -> Codec:
    return Codec(layers)
