"""What clients and the door say: frames that are something, and those that are nothing."""

import importlib.util
import json
from pathlib import Path

import pytest

from causalcast.clients.protocol import (
    Delivery,
    Hello,
    Publish,
    body_of,
    decode_reply,
    decode_request,
    delivery_frame,
    encode,
    encode_with_body,
    id_named,
    name_of,
    note,
)
from causalcast.clients.unhandled import Unhandled
from causalcast.core.ids import NO_MESSAGE, NodeId, message_id
from causalcast.errors import WireError

ROOT = Path(__file__).parents[3]


def test_a_body_travels_as_text_as_base64_or_behind_the_object() -> None:
    message = message_id(NodeId(3), 17)
    for body in (b"hello", b"\xff\x00", b""):
        for binary in (False, True):
            reply, behind = decode_reply(delivery_frame(message, "all", body, binary))
            assert isinstance(reply, Delivery)
            assert (reply.message, body_of(reply, behind)) == ("3.17", body)
    request, behind = decode_request(encode_with_body(Publish(1, "all"), b"\xff"))
    assert isinstance(request, Publish) and body_of(request, behind) == b"\xff"


def test_positions_survive_the_way() -> None:
    hello, _ = decode_request(encode(Hello(1, past={"all": {3: 17}})))
    assert isinstance(hello, Hello) and hello.past == {"all": {3: 17}}
    note(hello.past, "all", message_id(NodeId(3), 16))
    note(hello.past, "other", message_id(NodeId(1), 2))
    assert hello.past == {"all": {3: 17}, "other": {1: 2}}


@pytest.mark.parametrize("name", ["", "3", "3.", ".3", "a.b", "1.2.3", "-1.2", "9" * 30 + ".1"])
def test_what_names_no_message_is_refused(name: str) -> None:
    with pytest.raises(WireError, match="no message"):
        id_named(name)
    assert id_named(name_of(message_id(NodeId(3), 17))) == message_id(NodeId(3), 17)


def test_a_position_is_behind_what_was_handled_without_a_gap() -> None:
    unhandled = Unhandled()
    one, two, three = (message_id(NodeId(1), number) for number in (1, 2, 3))
    for message in (one, two, three):
        assert unhandled.arrived(message) == (True, False)
    assert unhandled.handled(two) == NO_MESSAGE
    assert unhandled.arrived(two) == (False, True)
    assert unhandled.handled(one) == two
    assert unhandled.handled(one) == NO_MESSAGE
    assert unhandled.handled(three) == three


@pytest.mark.parametrize(
    ("kind", "some"), [("asyncapi", {"Hello", "Delivery"}), ("openapi", {"Publish", "Refusal"})]
)
def test_the_description_for_tools_is_that_of_the_code(kind: str, some: set[str]) -> None:
    path = ROOT / "scripts" / f"clients_{kind}.py"
    spec = importlib.util.spec_from_file_location(f"clients_{kind}", path)
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    made = (ROOT / "docs" / f"clients.{kind}.json").read_text()
    assert made == script.document(), f"python scripts/clients_{kind}.py writes it anew"
    assert some <= json.loads(made)["components"]["schemas"].keys()
