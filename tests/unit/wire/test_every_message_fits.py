"""Whatever a node can say fits: what is longer than a frame may be travels in pieces.

Every message class of every protocol, overlay and detector, each of its fields that can grow with a
node's state grown beyond the limit of a frame.
"""

from typing import Any, get_origin

import msgspec
import pytest

from causalcast.core.message import Message, Publication
from causalcast.core.spec import LayerSpec
from causalcast.registry import (
    detector_names,
    find_detector,
    find_overlay,
    find_protocol,
    overlay_names,
    protocol_names,
)
from causalcast.runtime.links.introductions import Addresses
from causalcast.testing.conformance import example_of
from causalcast.wire.codec import Codec
from causalcast.wire.framing import LONGEST_MESSAGE, FrameReader, frame

LARGEST_FRAME = 4096  # of these links; the rules are the same for megabytes


class OnlyAddresses:
    messages = [Addresses]


def layers() -> list[Any]:
    found: list[LayerSpec] = [find_protocol(name) for name in protocol_names()]
    found += [find_overlay(name) for name in overlay_names()]
    found += [find_detector(name) for name in detector_names()]
    return [*found, OnlyAddresses]


def grown(kind: Any, example: Any, size: int) -> Any:
    """The value of a field after a long life: so many bytes of it, on the wire."""
    if kind in (bytes, str):
        return example * (size // len(example))
    count = size // len(msgspec.msgpack.encode(example, enc_hook=_as_fields)) * 3
    if get_origin(kind) is list:
        return example * count
    ((key, value),) = example.items()
    names = range(count) if isinstance(key, int) else map(str, range(count))
    return dict.fromkeys(names, value)


def _as_fields(value: Any) -> Any:
    if isinstance(value, Publication):
        return [value.id, value.group, value.body]
    return {name: getattr(value, name) for name in type(value).wire.fields}


def cases() -> list[Any]:
    found: dict[str, Any] = {}
    for spec in layers():
        for message_class in spec.messages:
            for field, kind in message_class.wire.fields.items():
                if kind in (bytes, str) or get_origin(kind) in (list, dict):
                    name = f"{message_class.wire.name}.{field}"
                    found[name] = pytest.param(message_class, spec.messages, field, id=name)
    return [*found.values()]


@pytest.mark.parametrize(("message_class", "others", "field"), cases())
def test_a_message_that_grew_travels(
    message_class: type[Message], others: list[type[Message]], field: str
) -> None:
    kind = message_class.wire.fields[field]
    message = example_of(message_class, others)
    fields = {name: getattr(message, name) for name in message_class.wire.fields}
    codec = Codec([others])
    fields[field] = grown(kind, fields[field], LARGEST_FRAME)
    encoded = codec.encode(message_class(*fields.values()))
    assert len(encoded) > LARGEST_FRAME
    reader = FrameReader(LARGEST_FRAME)
    reader.longest = LONGEST_MESSAGE.value
    (came,) = reader.feed(frame(encoded, LARGEST_FRAME))
    assert codec.encode(codec.decode(came)[1]) == encoded
