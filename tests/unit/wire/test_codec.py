"""The wire says what was declared and refuses all else; sizes are those of the real frame."""

import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from causalcast.core import GroupId, Message, MessageId, NodeId, Publication, Wire, message_id
from causalcast.core.ids import NUMBER_MASK
from causalcast.core.message import LONGEST_RUN, SHORT_BODY
from causalcast.core.message import Wire as WireType
from causalcast.errors import WireError
from causalcast.parts.broadcast.reliable_sending import Accepted, Have
from causalcast.parts.broadcast.stamped_broadcast import Stamped
from causalcast.protocols.vector_clock_broadcast import SPEC
from causalcast.registry import find_detector, find_overlay, find_protocol, protocol_names
from causalcast.simulator.scenario_run import ScenarioRun
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.testing.conformance import example_of
from causalcast.wire.codec import Codec
from causalcast.wire.framing import LENGTH_BYTES, MANY, MOST_TOGETHER, frame, frame_all
from causalcast.wire.runs import in_runs, one_by_one

CODEC = Codec([[], [], SPEC.messages])


class Everything(Message):
    """Every type a field can have."""

    wire = Wire(
        "test.everything",
        flag=bool,
        number=int,
        share=float,
        text=str,
        data=bytes,
        node=NodeId,
        message=MessageId,
        publication=Publication,
        inner=Message,
        publications=list[Publication],
        inners=list[Message],
        counts=dict[NodeId, int],
        ids=list[MessageId],
    )

    def __init__(self, *fields: object) -> None:
        self.__dict__.update(zip(Everything.wire.fields, fields, strict=True))


def registered_messages() -> list[type[Message]]:
    specs = [find_protocol(name) for name in protocol_names()]
    layers = [find_detector("heartbeat"), find_overlay("static_graph")]
    return [message for spec in [*specs, *layers] for message in spec.messages]


@pytest.mark.parametrize("message_class", registered_messages(), ids=lambda c: c.wire.name)
def test_the_declaration_is_the_constructor(message_class: type[Message]) -> None:
    """Compiled classes have no signature left, so this looks at the source's."""
    assert isinstance(message_class.wire, WireType)
    arguments = list(inspect.signature(message_class.__init__).parameters)[1:]
    declared = list(message_class.wire.fields)
    assert arguments == declared or (not declared and arguments == ["args", "kwargs"])


def test_every_type_of_field_survives() -> None:
    codec = Codec([[Stamped, Everything]])
    message = example_of(Everything, [Stamped])
    layer, decoded = codec.decode(codec.encode(message))
    assert layer == 0
    assert repr(decoded) == repr(message)


def test_messages_nested_without_end_are_refused() -> None:
    """Each level of `Accepted` costs an attacker a few bytes and us a call."""
    inner = CODEC.encode(Stamped(Publication(message_id(NodeId(1), 1), GroupId(0), b""), {}))
    level = CODEC.encode(
        Accepted(Stamped(Publication(message_id(NodeId(1), 1), GroupId(0), b""), {}))
    )
    head = level[: len(level) - len(inner)]
    with pytest.raises(WireError):
        CODEC.decode(head * 100_000 + inner)


@given(
    st.integers(0, 2**31 - 1),
    st.integers(1, 2**32 - 1),
    st.integers(0, 2**31 - 1),
    st.binary(max_size=200),
    st.dictionaries(st.integers(0, 2**31 - 1), st.integers(0, 2**32)),
)
def test_round_trip(
    origin: int, number: int, group: int, body: bytes, needs: dict[NodeId, int]
) -> None:
    message = Stamped(Publication(message_id(NodeId(origin), number), GroupId(group), body), needs)
    layer, decoded = CODEC.decode(CODEC.encode(message))
    assert isinstance(decoded, Stamped) and layer == 2
    assert decoded.publication.id == message.publication.id
    assert (decoded.publication.group, decoded.publication.body) == (group, body)
    assert decoded.needs == needs


@given(st.binary(max_size=80))
def test_noise_is_a_message_or_a_wire_error(noise: bytes) -> None:
    try:
        layer, message = CODEC.decode(noise)
    except WireError:
        return
    assert CODEC.decode(CODEC.encode(message))[0] == layer


def test_a_body_beyond_the_limit_is_refused() -> None:
    small = Codec([[], [], SPEC.messages], max_body=10)
    message = Stamped(Publication(message_id(NodeId(1), 1), GroupId(0), bytes(11)), {})
    with pytest.raises(WireError):
        small.decode(CODEC.encode(message))


def test_ids_out_of_range_are_refused() -> None:
    good = CODEC.encode(Stamped(Publication(message_id(NodeId(1), 1), GroupId(0), b""), {}))
    negative = Stamped(Publication(MessageId(-5 << 32 | 1), GroupId(0), b""), {})
    assert CODEC.decode(good)
    with pytest.raises(WireError):
        CODEC.decode(CODEC.encode(negative))


def test_the_digest_tells_apart_what_cannot_talk() -> None:
    assert CODEC.digest("a") == Codec([[], [], SPEC.messages]).digest("a")
    assert CODEC.digest("a") != CODEC.digest("b")
    assert CODEC.digest("a") != Codec([[], [], SPEC.messages[:1]]).digest("a")


def test_simulated_sizes_are_those_of_real_frames() -> None:
    """Every send row of a simulation has the size that the same message has on a socket."""
    scenario = Scenario(
        """
        protocol = "vector_clock_broadcast"
        until_ms = 100
        [overlay]
        kind = "ring"
        nodes = 4
        [[publish]]
        node = [0, 1, 2]
        count = 5
        payload_bytes = 33
        """,
        "sizes",
    )
    running = ScenarioRun(scenario, "messages")
    sent: list[int] = []
    real_encode = running.codec.encode

    def encode_and_measure(message: Message) -> bytes:
        data = real_encode(message)
        described = running.codec.describe(message, len(data))
        assert described.payload_bytes + described.metadata_bytes == len(frame(data))
        sent.append(len(frame(data)))
        return data

    running.codec.encode = encode_and_measure  # type: ignore[method-assign]
    running.run()
    rows = running.result().events.to_pylist()
    recorded = {r["payload_bytes"] + r["metadata_bytes"] for r in rows if r["kind"] == "send"}
    assert recorded and recorded <= set(sent)
    assert {r["payload_bytes"] for r in rows if r["kind"] == "send"} == {0, 33}


def together(*bodies: bytes) -> memoryview:
    """The body of the frame that carries these."""
    return memoryview(frame_all(list(bodies)))[LENGTH_BYTES:]


def some_stamped(count: int) -> list[Message]:
    return [
        Stamped(Publication(message_id(NodeId(1), number), GroupId(0), b"x" * number), {})
        for number in range(1, count + 1)
    ]


def test_messages_that_share_a_frame_are_those_that_were_sent() -> None:
    codec = Codec([[], [], SPEC.messages])
    messages = some_stamped(5)
    bodies = [codec.encode(message) for message in messages]
    found, error = codec.decode_all(
        [together(*bodies[:3]), together(*bodies[3:4]), *map(memoryview, bodies[4:])]
    )
    assert error is None
    assert [layer for layer, _, _ in found] == [2] * 5
    assert [repr(message) for _, message, _ in found] == [repr(message) for message in messages]
    assert [[p.id for p in carried] for _, _, carried in found] == [
        [message.publication.id] for message in messages
    ]


@pytest.mark.parametrize("bad", [b"", b"\xc1", bytes([0xDD, 0, 0, 0, 1, 0x90]), bytes([0xDD])])
def test_what_came_before_nonsense_counts(bad: bytes) -> None:
    codec = Codec([[], [], SPEC.messages])
    bodies = [codec.encode(message) for message in some_stamped(2)]
    found, error = codec.decode_all([together(*bodies), memoryview(bad), together(*bodies)])
    assert len(found) == 2
    assert isinstance(error, WireError)


def test_nonsense_inside_a_shared_frame_voids_it() -> None:
    codec = Codec([[], [], SPEC.messages])
    (body,) = (codec.encode(message) for message in some_stamped(1))
    found, error = codec.decode_all([together(body, b"\x91\x7f", body)])
    assert (found, type(error)) == ([], WireError)


def a_run(count: int, needs: dict[NodeId, int], first: int = 7) -> list[Stamped]:
    return [
        Stamped(Publication(message_id(NodeId(3), first + i), GroupId(1), b"%d" % i), dict(needs))
        for i in range(count)
    ]


@pytest.mark.parametrize("needs", [{}, {NodeId(1): 5}, {NodeId(node): 9 for node in range(40)}])
def test_messages_that_continue_one_another_travel_as_one(needs: dict[NodeId, int]) -> None:
    codec = Codec([[], [], SPEC.messages])
    run = a_run(LONGEST_RUN.value, needs)
    assert in_runs([*run]) == [run]
    data = codec.encode_run([*run])
    assert len(data) < sum(len(codec.encode(message)) for message in run) / 2
    found, error = codec.decode_all([memoryview(data), together(data, codec.encode(run[0]))])
    assert error is None
    assert [len(carried) for _, _, carried in found] == [len(run), len(run), 1]
    apart = [one for some in found for one in one_by_one(some)]
    assert [repr(message) for _, message, _ in apart] == [repr(m) for m in (*run, *run, run[0])]
    assert all(codec.publications(message) == list(carried) for _, message, carried in apart)
    assert {layer for layer, _, _ in apart} == {2}


@pytest.mark.parametrize(
    "other",
    [
        Stamped(Publication(message_id(NodeId(3), 9), GroupId(1), b""), {}),
        Stamped(Publication(message_id(NodeId(4), 8), GroupId(1), b""), {}),
        Stamped(Publication(message_id(NodeId(3), 8), GroupId(2), b""), {}),
        Stamped(Publication(message_id(NodeId(3), 8), GroupId(1), b""), {NodeId(1): 1}),
        Stamped(Publication(message_id(NodeId(3), 8), GroupId(1), bytes(SHORT_BODY.value + 1)), {}),
        Have({}, [], False, False),
    ],
)
def test_what_differs_in_more_does_not_continue(other: Message) -> None:
    (first,) = a_run(1, {})
    assert in_runs([first, other, first]) == [[first], [other], [first]]


def test_runs_end() -> None:
    messages = a_run(2 * LONGEST_RUN.value + 1, {})
    runs = in_runs([*messages])
    assert [len(run) for run in runs] == [LONGEST_RUN.value, LONGEST_RUN.value, 1]
    assert [message for run in runs for message in run] == messages


def test_a_run_is_no_message_inside_others_and_ends_before_the_last_number() -> None:
    codec = Codec([[], [], SPEC.messages])
    data = codec.encode_run([*a_run(2, {})])
    with pytest.raises(WireError):
        codec.decode(data)
    too_long = codec.encode_run([*a_run(LONGEST_RUN.value + 1, {})])
    beyond = codec.encode_run([*a_run(2, {}, first=NUMBER_MASK)])
    for bad in (too_long, beyond):
        assert isinstance(codec.decode_all([memoryview(bad)])[1], WireError)


def test_a_shared_frame_that_is_too_large_is_refused() -> None:
    codec = Codec([[], [], SPEC.messages])
    data = codec.encode_run([*a_run(2, {})])
    fits = (MOST_TOGETHER.value - 5) // len(data)
    assert codec.decode_all([together(*[data] * fits)])[1] is None
    # By hand: whoever keeps to the rules sends two frames.
    head = bytes([MANY]) + (fits + 1).to_bytes(4, "big")
    found, error = codec.decode_all([memoryview(head + data * (fits + 1))])
    assert found == [] and isinstance(error, WireError)
    assert "bytes of messages in one frame" in str(error)


def test_a_frame_of_frames_is_refused() -> None:
    codec = Codec([[], [], SPEC.messages])
    (body,) = (codec.encode(message) for message in some_stamped(1))
    inner = bytes(together(body, body))
    assert isinstance(codec.decode_all([together(inner, inner)])[1], WireError)


@given(st.binary(max_size=60))
def test_noise_in_shared_frames_is_messages_or_a_wire_error(noise: bytes) -> None:
    codec = Codec([[], [], SPEC.messages])
    data = memoryview(bytes([0xDD, 0, 0, 0, 2]) + noise)
    found, error = codec.decode_all([data])
    assert (len(found) == 2) != isinstance(error, WireError)
