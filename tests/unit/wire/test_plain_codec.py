"""Without msgspec messages have the same bytes, and a simulation leaves the same rows."""

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from causalcast.core import GroupId, NodeId, Publication, message_id
from causalcast.core.message import Message
from causalcast.errors import WireError
from causalcast.parts.broadcast.stamped_broadcast import Stamped
from causalcast.registry import (
    detector_names,
    find_detector,
    find_overlay,
    find_protocol,
    overlay_names,
    protocol_names,
)
from causalcast.testing.conformance import example_of
from causalcast.wire.codec import Codec
from causalcast.wire.plain_codec import PlainCodec

LAYERS = [
    [message for name in detector_names() for message in find_detector(name).messages],
    [message for name in overlay_names() for message in find_overlay(name).messages],
]
PROTOCOLS = [find_protocol(name) for name in protocol_names()]


@pytest.mark.parametrize("spec", PROTOCOLS, ids=lambda spec: spec.name)
def test_every_message_has_the_same_bytes(spec: object) -> None:
    of_protocol: list[type[Message]] = list(spec.messages)  # type: ignore[attr-defined]
    layers = [*LAYERS, of_protocol]
    checked, plain = Codec(layers), PlainCodec(layers)
    for message_class in [one for layer in layers for one in layer]:
        message = example_of(message_class, of_protocol or [Stamped])
        data = checked.encode(message)
        assert plain.encode(message) == data
        layer, decoded = plain.decode(data)
        assert (layer, repr(decoded)) == (checked.decode(data)[0], repr(message))
        described = [codec.describe(message, len(data)) for codec in (checked, plain)]
        assert described[0].metadata_bytes == described[1].metadata_bytes


@settings(max_examples=30)
@given(
    st.integers(0, 2**31 - 1),
    st.integers(1, 2**32 - 1),
    st.binary(max_size=70_000),
    st.dictionaries(st.integers(0, 2**31 - 1), st.integers(0, 2**64 - 1), max_size=40),
)
def test_numbers_and_lengths_of_every_size(
    origin: int, number: int, body: bytes, needs: dict[NodeId, int]
) -> None:
    layers = [[Stamped]]
    message = Stamped(Publication(message_id(NodeId(origin), number), GroupId(0), body), needs)
    data = Codec(layers).encode(message)
    assert PlainCodec(layers).encode(message) == data
    assert repr(PlainCodec(layers).decode(data)[1]) == repr(message)


@pytest.mark.parametrize("data", [b"", b"\x95\x00", b"\x00", b"\x90", b"\x91\xc4\x05ab"])
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        PlainCodec([[Stamped]]).decode(data)


WITHOUT = """
import hashlib, sys

class Nowhere:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Nowhere())
from causalcast.shipped import sample
from causalcast.simulator.plain_result import plain_result
from causalcast.simulator.scenario_run import prepare
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.judge import judge

for name, protocol in (
    ("revoke_then_post", "naive_flood"),
    ("crashes_on_lossy_tree", None),
    ("new_link_of_three", None),
):
    running = prepare(Scenario.read(sample("scenarios", name), protocol), "full")
    running.run()
    rows = running.recorder.rows()
    found = judge(plain_result(running))
    digest = hashlib.sha256(repr(rows).encode()).hexdigest()
    print(name, len(rows), digest, found.all_broken())
"""


def test_a_simulation_needs_neither_pyarrow_nor_msgspec() -> None:
    outputs = [
        subprocess.run(
            [sys.executable, "-c", WITHOUT.replace("BLOCKED", repr(blocked))],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for blocked in ((), ("pyarrow", "msgspec", "numpy", "rich", "cryptography"))
    ]
    assert outputs[0] == outputs[1]
    assert "revoke_then_post" in outputs[0] and "['causal_order']" in outputs[0]
