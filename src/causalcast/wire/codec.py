"""Messages to bytes and back, for real nodes: checked while they are decoded. Never compiled.

For every class a tagged msgspec struct is made, so that decoding and checking types is one pass in
C; what stands in it is said by `forms.py`. Messages that each continue the one before are one
array: the complement of the index, the fields of the first, and in the place of its body a list of
bodies.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Annotated, Any, Final, get_args, get_origin

import msgspec
from msgspec import Meta, Raw

from causalcast.core.ids import NODE_LIMIT, NUMBER_MASK, GroupId, MessageId, NodeId
from causalcast.core.message import LONGEST_RUN, Message, Single
from causalcast.errors import WireError
from causalcast.limits import Limit
from causalcast.wire.forms import (
    BODIES,
    BODY,
    CLOCK,
    CLOCK_KIND,
    MESSAGE,
    MESSAGES,
    NODE,
    NUMBER,
    PUBLICATIONS,
    Form,
    Forms,
)
from causalcast.wire.framing import MANY, MOST_TOGETHER
from causalcast.wire.runs import Arrived, publications_of

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
_PLAIN: Final = (bool, int, float, str, bytes)


def codec_of(layers: Sequence[Sequence[type[Message]]]) -> "Codec":
    """The codec of these messages, made once: a campaign makes thousands of worlds, and nothing
    in a codec changes."""
    return _made(tuple(map(tuple, layers)), METADATA_BYTES.value)


class Codec(Forms):
    """Encodes and decodes the messages of one kind of node."""

    def __init__(
        self, layers: Sequence[Sequence[type[Message]]], max_body: int = BODY_BYTES.default
    ) -> None:
        super().__init__(layers)
        self._encoder = msgspec.msgpack.Encoder()
        self._from_struct: dict[type, tuple[int, Callable[[Any], Message]]] = {}
        self._arrived: dict[type, Callable[[Any], Arrived]] = {}
        self._run_to_tuple: dict[type[Message], Callable[[list[Any], Any], tuple[Any, ...]]] = {}
        body = Annotated[bytes, Meta(max_length=max_body)]
        for form in self.forms:
            self._add_structs(form, body)
        self.max_frame = max_body + METADATA_BYTES.value
        any_message = _union([*self._from_struct])
        any_run: Any = _union([*self._arrived])
        self._decoder = msgspec.msgpack.Decoder(any_message)
        self._decoder_of_frame = msgspec.msgpack.Decoder(any_run)
        self._decoder_of_many = msgspec.msgpack.Decoder(list.__class_getitem__(any_run))
        self._decoder_of_sizes = msgspec.msgpack.Decoder(list[Raw])

    def encode(self, message: Message) -> bytes:
        """The bytes of one message."""
        return self._encoder.encode(self.to_tuple[type(message)](message))

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

    def decode_all(
        self, frames: Iterable[memoryview], sizes: list[int] | None = None
    ) -> tuple[list[Arrived], WireError | None]:
        """All messages of some frames and what they carry, up to the first that is none. `sizes`
        gets the bytes of each, if somebody wants to know."""
        decode, decode_many = self._decoder_of_frame.decode, self._decoder_of_many.decode
        found: list[Arrived] = []
        arrived = self._arrived
        try:
            for data in frames:
                if len(data) == 0 or data[0] != MANY:
                    structs = [decode(data)]
                    if sizes is not None:
                        sizes.append(len(data))
                elif len(data) <= MOST_TOGETHER.value:
                    structs = decode_many(data)
                    if sizes is not None:
                        sizes.extend(map(len, self._decoder_of_sizes.decode(data)))
                else:
                    return found, WireError(f"{len(data)} bytes of messages in one frame")
                for struct in structs:
                    found.append(arrived[type(struct)](struct))
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            return found, WireError(f"not a message of this cluster: {error}")
        except WireError as error:  # of a message inside a message
            return found, error
        return found, None

    # Making the glue of one class

    def _add_structs(self, form: Form, body: Any) -> None:
        slots = [(name, _type_in(kind, body)) for name, kind in form.slots]
        struct = msgspec.defstruct(
            f"Wire{form.index}", slots, tag=form.index, array_like=True, forbid_unknown_fields=True
        )
        scope, arguments, carried = self.scope(form), form.arguments, form.carried
        self._from_struct[struct] = (form.layer, eval(f"lambda s: make({arguments})", scope))
        comma = "," if carried else ""
        self._arrived[struct] = eval(
            f"lambda s: ({form.layer}, (m := make({arguments})), ({carried}{comma}))", scope
        )
        if issubclass(form.message_class, Single):
            self._add_run(form, body)

    def _add_run(self, form: Form, body: Any) -> None:
        """The same for messages that each continue the one before: many bodies instead of one."""
        (carrier,) = (field for field in form.fields if field.run_slots)
        name = carrier.name
        slots = [slot for field in form.fields for slot in field.run_slots or field.slots]
        struct = msgspec.defstruct(
            f"Run{form.index}",
            [(slot, _type_in(kind, body)) for slot, kind in slots],
            tag=-1 - form.index,
            array_like=True,
            forbid_unknown_fields=True,
        )
        out = list(form.out)
        out[out.index("p.body")] = f"[x.{name}.body for x in run]"
        scope = self.scope(form)
        self._run_to_tuple[form.message_class] = eval(
            f"lambda run, m: ({-1 - form.index}, {', '.join(out)})", scope
        )
        arguments = ", ".join(field.run_back or field.back for field in form.fields)
        self._arrived[struct] = eval(
            f"lambda s: ({form.layer}, (m := make({arguments})),"
            f" publications_of(m.{name}, s.{name}_body))",
            {**scope, "publications_of": publications_of, "first_of": _first_of},
        )


def _type_in(kind: Any, body: Any) -> Any:
    """The msgspec type of a slot."""
    if kind is BODIES:
        return Annotated[list[body], Meta(min_length=2, max_length=LONGEST_RUN.value)]
    types = {
        NODE: _Node,
        NUMBER: _Number,
        BODY: body,
        MESSAGE: Raw,
        MESSAGES: list[Raw],
        PUBLICATIONS: list[tuple[_Node, _Number, _Node, body]],
        CLOCK: _checked(CLOCK_KIND) | bytes,
    }
    return types[kind] if isinstance(kind, str) else _checked(kind)


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
