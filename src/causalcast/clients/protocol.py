"""What clients and the door say to one another, version 1; `docs/clients.md` tells it to people.

A text frame is one JSON object; `do` says what it is. A binary frame is the same object with a body
behind it: four bytes of length (the highest first), the object, the body.
"""

from typing import Final, TypeVar

import msgspec

from causalcast.any_node import Since
from causalcast.core.ids import MessageId, NodeId, message_id, number_of, origin_of
from causalcast.errors import WireError
from causalcast.runtime.metadata import has_metadata, metadata_in, payload_in

VERSION: Final = 1
SUBPROTOCOL: Final = "causalcast.v1"
LENGTH_BYTES: Final = 4
LONGEST_KEY: Final = 64

# By group and origin the number of the last message: what somebody has, or has seen.
Position = dict[str, dict[int, int]]

# Why something is refused; the text beside it is for people.
BAD_FRAME: Final = "bad_frame"
NO_TOKEN: Final = "no_token"
NOT_ALLOWED: Final = "not_allowed"
NO_GROUP: Final = "no_group"
NOT_YET: Final = "not_yet"
ELSEWHERE: Final = "elsewhere"
GAP: Final = "gap"
KEY_USED: Final = "key_used"
TOO_MANY: Final = "too_many"
TOO_SLOW: Final = "too_slow"
REFUSED: Final = "refused"  # by the node: too large, no right of the node itself
STOPPING: Final = "stopping"

# Close codes of WebSocket that belong to applications.
CLOSE_CODES: Final = {
    BAD_FRAME: 4400,
    NO_TOKEN: 4401,
    TOO_SLOW: 4408,
    NOT_YET: 4409,
    ELSEWHERE: 4410,
    TOO_MANY: 4429,
    STOPPING: 4503,
}


class Hello(msgspec.Struct, tag_field="do", tag="hello"):
    """The first frame of a client: who it is, and what it has seen or published anywhere."""

    version: int
    token: str = ""
    name: str = ""  # where there are no tokens
    past: Position = {}
    binary: bool = False  # send bodies in binary frames


class Publish(msgspec.Struct, tag_field="do", tag="publish", omit_defaults=True):
    """Publish a body: that of the binary frame, `text`, or `base64`."""

    id: int
    group: str
    key: str = ""
    text: str | None = None
    base64: bytes | None = None
    headers: dict[str, str] = {}
    content_type: str = ""


class Subscribe(msgspec.Struct, tag_field="do", tag="subscribe"):
    """Send what these groups deliver: from `seen` on, or from now, or all that is kept."""

    id: int
    groups: list[str]
    seen: Position | None = None
    log: str = ""  # of which node `seen` is, where that matters
    since: Since = "now"
    window: int = 0  # 0: as large as it may be


class Unsubscribe(msgspec.Struct, tag_field="do", tag="unsubscribe"):
    """Send no more of these groups."""

    id: int
    groups: list[str]


class Ack(msgspec.Struct, tag_field="do", tag="ack"):
    """These messages are handled: there is room for others."""

    messages: list[str]


class ListGroups(msgspec.Struct, tag_field="do", tag="groups"):
    """Which groups are there for this client?"""

    id: int


class CreateGroup(msgspec.Struct, tag_field="do", tag="create_group"):
    """Make this group; one that there is already is no error."""

    id: int
    group: str


class RemoveGroup(msgspec.Struct, tag_field="do", tag="remove_group"):
    """Let there be no such group any more, at any node. Only those that were made go."""

    id: int
    group: str


class Presence(msgspec.Struct, tag_field="do", tag="presence"):
    """Who is there, as far as this node knows?"""

    id: int


Change = CreateGroup | RemoveGroup
Request = Hello | Publish | Subscribe | Unsubscribe | Ack | ListGroups | Presence | Change


class Welcome(msgspec.Struct, tag_field="do", tag="welcome", omit_defaults=True):
    """The node has all that the client's past names; from now on it delivers and accepts."""

    version: int
    node: int
    cluster: str
    name: str
    body_bytes: int
    window: int


class Delivery(msgspec.Struct, tag_field="do", tag="message", omit_defaults=True):
    """One message of a group; in a binary frame the body stands behind it."""

    message: str
    group: str
    text: str | None = None
    base64: bytes | None = None
    headers: dict[str, str] = {}
    content_type: str = ""
    published_us: int = 0  # since 1970, by the clock of the node; 0: it does not say


class Published(msgspec.Struct, tag_field="do", tag="published"):
    """It is durable at the node, or was published before with this key."""

    id: int
    message: str


class Subscribed(msgspec.Struct, tag_field="do", tag="subscribed"):
    """Messages of these groups come, those behind `seen`."""

    id: int
    groups: list[str]
    seen: Position
    log: str
    window: int


class GroupList(msgspec.Struct, tag_field="do", tag="group_list"):
    """What this client may do where."""

    id: int
    publish: list[str]
    subscribe: list[str]


class Present(msgspec.Struct, tag_field="do", tag="present"):
    """Neighbours of this node: linked, and of those that are silent. It knows of no others."""

    id: int
    node: int
    linked: list[int]
    suspected: list[int]


class Done(msgspec.Struct, tag_field="do", tag="done"):
    """It was done; there is nothing to say about it."""

    id: int


class Refusal(msgspec.Struct, tag_field="do", tag="refusal", omit_defaults=True):
    """It was not done. With id 0 it is said of the whole connection, which ends."""

    id: int
    code: str
    error: str
    group: str = ""  # which of those that were asked for


Reply = Welcome | Delivery | Published | Subscribed | GroupList | Present | Done | Refusal

Said = TypeVar("Said")

_requests: Final[msgspec.json.Decoder[Request]] = msgspec.json.Decoder(Request)
_replies: Final[msgspec.json.Decoder[Reply]] = msgspec.json.Decoder(Reply)
_encoder: Final = msgspec.json.Encoder()


def encode(said: Request | Reply) -> str:
    """A text frame."""
    return _encoder.encode(said).decode()


def encode_with_body(said: Request | Reply, body: bytes) -> bytes:
    """A binary frame."""
    head = _encoder.encode(said)
    return b"".join((len(head).to_bytes(LENGTH_BYTES, "big"), head, body))


def decode_request(frame: str | bytes) -> tuple[Request, bytes | None]:
    """What a client says, and the body behind it; WireError if it is nothing."""
    return _decoded(_requests, "request", frame)


def decode_reply(frame: str | bytes) -> tuple[Reply, bytes | None]:
    """What a node says, and the body behind it; WireError if it is nothing."""
    return _decoded(_replies, "reply", frame)


def _decoded(
    decoder: msgspec.json.Decoder[Said], what: str, frame: str | bytes
) -> tuple[Said, bytes | None]:
    head, body = _split(frame)
    try:
        return decoder.decode(head), body
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise WireError(f"no {what} of version {VERSION}: {error}") from None


def _split(frame: str | bytes) -> tuple[bytes, bytes | None]:
    if isinstance(frame, str):
        return frame.encode("utf-8", "surrogatepass"), None
    length = int.from_bytes(frame[:LENGTH_BYTES], "big")
    if len(frame) < LENGTH_BYTES + length:
        raise WireError("a binary frame that is shorter than it says")
    return frame[LENGTH_BYTES : LENGTH_BYTES + length], frame[LENGTH_BYTES + length :]


def body_of(said: Publish | Delivery, behind: bytes | None) -> bytes:
    """The one body of a publication or a delivery; WireError if there is none, or more."""
    given = [
        body
        for body in (behind, None if said.text is None else said.text.encode(), said.base64)
        if body is not None
    ]
    if len(given) != 1:
        raise WireError("expected one body: `text`, `base64`, or a binary frame")
    return given[0]


def delivery_frame(message: MessageId, group: str, body: bytes, binary: bool) -> str | bytes:
    """A delivery as a client wants it."""
    delivery, payload = Delivery(name_of(message), group), payload_in(body)
    if has_metadata(body):
        known = metadata_in(body)
        delivery.headers, delivery.content_type = dict(known.headers), known.content_type
        delivery.published_us = known.published_us
    if binary:
        return encode_with_body(delivery, payload)
    try:
        delivery.text = payload.decode()
    except UnicodeDecodeError:
        delivery.base64 = payload
    return encode(delivery)


def name_of(message: MessageId) -> str:
    """`3.17`: the 17th publication of node 3."""
    return f"{origin_of(message)}.{number_of(message)}"


def id_named(name: str) -> MessageId:
    """The message of such a name; WireError if it is none."""
    origin, dot, number = name.partition(".")
    if not dot or not (origin.isdecimal() and number.isdecimal()) or len(name) > 24:
        raise WireError(f"{name[:24]!r} is no message: expected origin.number, such as 3.17")
    return message_id(NodeId(int(origin)), int(number))


def note(position: Position, group: str, message: MessageId) -> None:
    """Somebody has one more message of a group."""
    origin, number = origin_of(message), number_of(message)
    of_group = position.setdefault(group, {})
    if number > of_group.get(origin, 0):
        of_group[origin] = number
