"""What is fuzzed: every place where bytes of somebody else become something.

A target is a function of some bytes. It may find them wrong in the way it is meant to (WireError,
ConfigError); any other exception is a bug. Two kinds for every protocol: `wire` takes bytes as they
come, `sense` makes messages that can be read and lets them happen at a node, in any order, from any
neighbour, between publications and timers. A node must survive whatever its neighbours say.
"""

import functools
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, get_args, get_origin

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from causalcast.core.effects import StartTimer
from causalcast.core.ids import GroupId, MessageId, NodeId, link_id, message_id
from causalcast.core.message import Message, Publication
from causalcast.core.outbox import Outbox
from causalcast.errors import ConfigError, NodeError, WireError
from causalcast.registry import find_protocol, protocol_names
from causalcast.runtime.links.enrolment import grant
from causalcast.runtime.links.greeting import (
    LIMIT,
    Greeting,
    differences,
    first_greeting,
    read_greeting,
)
from causalcast.runtime.links.introductions import Addresses
from causalcast.runtime.node_config import NodeConfig
from causalcast.runtime.security.admission import Admission
from causalcast.runtime.security.authority import Authority
from causalcast.runtime.security.join_token import make_token, read_token
from causalcast.runtime.security.revocations import Revocations
from causalcast.runtime.security.rights import Rights
from causalcast.runtime.security.signatures import Signatures, body_in
from causalcast.runtime.security.tls import Tls
from causalcast.wire.codec import Codec
from causalcast.wire.framing import MANY, FrameReader
from causalcast.wire.runs import one_by_one

Target = Callable[[bytes], None]

ME: Final = NodeId(1)
MOST_STEPS: Final = 12
BODY_LIMIT: Final = 4096
# Options that choose other code.
VARIANTS: Final = (
    "prc_broadcast/link_setup=safe_path",
    "cptcast/link_setup=safe_path",
    "plumtree/overlay=hyparview",
    "cptcast/overlay=hyparview",
)


class Drawn:
    """Values out of bytes; when they are used up everything is zero."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1] if self._at <= len(self._data) else 0

    def left(self) -> int:
        return max(0, len(self._data) - self._at)

    def number(self) -> int:
        """Mostly small, now and then huge or negative."""
        kind = self.byte()
        if kind < 200:
            return kind % 8
        if kind < 240:
            return kind
        if kind < 250:
            return int.from_bytes(bytes(self.byte() for _ in range(4)))
        return [-1, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 63) - 1][kind % 6]

    def node(self) -> NodeId:
        return NodeId(min(max(self.number(), 0), (1 << 31) - 1))

    def text(self) -> bytes:
        return bytes(self.byte() for _ in range(self.byte() % 16))

    def message_id(self) -> MessageId:
        return message_id(self.node(), min(max(self.number(), 1), (1 << 32) - 1))

    def publication(self) -> Publication:
        return Publication(self.message_id(), GroupId(self.byte() % 3), self.text())

    def value(self, kind: Any, classes: list[type[Message]], depth: int) -> Any:
        """A value of a field's declared type."""
        if kind is Publication:
            return self.publication()
        if kind is Message:
            return self.message(classes, depth + 1)
        if kind is MessageId:
            return self.message_id()
        if kind in (NodeId, GroupId):
            return self.node()
        supertype = getattr(kind, "__supertype__", None)
        if supertype is not None:
            return self.value(supertype, classes, depth)
        container, arguments = get_origin(kind), get_args(kind)
        if container is list:
            count = self.byte() % 5
            return [self.value(arguments[0], classes, depth) for _ in range(count)]
        if container is dict:
            count = self.byte() % 5
            key, inner = arguments
            return {
                self.value(key, classes, depth): self.value(inner, classes, depth)
                for _ in range(count)
            }
        if container is tuple:
            return tuple(self.value(argument, classes, depth) for argument in arguments)
        plain: dict[Any, Callable[[], Any]] = {
            int: self.number,
            bool: lambda: bool(self.byte() % 2),
            float: lambda: self.number() / 4,
            str: lambda: self.text().hex(),
            bytes: self.text,
        }
        return plain[kind]()

    def message(self, classes: list[type[Message]], depth: int = 0) -> Message:
        """A message of some class; deep inside one another they have no messages inside."""
        fitting = classes
        if depth > 2:
            fitting = [one for one in classes if Message not in one.wire.fields.values()]
        chosen = fitting[self.byte() % len(fitting)]
        kinds = chosen.wire.fields.values()
        return chosen(*[self.value(kind, classes, depth) for kind in kinds])


class Subject:
    """A node of one protocol with two or three neighbours, as its blueprint builds it."""

    def __init__(self, named: str) -> None:
        protocol, _, changed = named.partition("/")
        spec = find_protocol(protocol)
        overlay = 'kind = "full_mesh"'
        options = ""
        cluster = 'peers = { 2 = "127.0.0.1:7402", 3 = "127.0.0.1:7403", 4 = "127.0.0.1:7404" }'
        if spec.needs.overlay == "tree":
            overlay = 'kind = "tree"'
        if spec.contains is not None:
            options = "zone_size = 2"
        option, _, value = changed.partition("=")
        if option == "overlay":
            overlay, cluster = f'kind = "{value}"', ""
        elif option:
            options = f'{option} = "{value}"'
        self.config = NodeConfig.parse(
            f"""
            [node]
            id = {ME}
            listen = "127.0.0.1:7401"
            [cluster]
            {cluster}
            [protocol]
            name = "{protocol}"
            {options}
            [overlay]
            {overlay}
            [detector]
            kind = "heartbeat"
            [groups]
            ours = "*"
            theirs = [2, 3]
            [limits]
            body_bytes = {BODY_LIMIT}
            [security]
            tls = false
            """,
            Path(),
        )
        self.layers = self.config.blueprint.messages()
        self.codec = Codec([*self.layers, [Addresses]], BODY_LIMIT)
        nodes = self.config.blueprint.topology.neighbours
        self.nodes = None if self.config.is_changing() else list(nodes)
        self.neighbours = nodes[ME] or [NodeId(2), NodeId(3), NodeId(4)]
        self.classes = [one for layer in self.layers for one in layer]

    def live(self, drawn: Drawn) -> None:
        """Let a new node live through what is drawn."""
        blueprint = self.config.blueprint
        out = Outbox()
        stack = blueprint.build(ME, "fuzz")
        stack.groups = dict.fromkeys(blueprint.groups.groups_of(ME))
        published = 0
        admission = Admission(
            ME,
            blueprint.groups,
            self.nodes,
            Rights(),
            lambda: published,
            stack.multicast.furthest,
            None,
        )
        stack.start(out)
        for count, peer in enumerate(self.neighbours):
            stack.link_up(peer, link_id(max(peer, ME), count + 1), peer < ME, out)
        timers: dict[tuple[int, str, int], None] = {}
        for _ in range(MOST_STEPS):
            for effect in out.effects:
                if isinstance(effect, StartTimer):
                    timers[(effect.layer, effect.name, effect.subject)] = None
            out.effects, out.records = [], []
            out.now += 1000
            if not drawn.left():
                return
            what = drawn.byte() % 8
            if what == 0:
                published += 1
                stack.publish(Publication(message_id(ME, published), GroupId(0), b"mine"), out)
            elif what == 1 and timers:
                layer, name, subject = list(timers)[drawn.byte() % len(timers)]
                del timers[(layer, name, subject)]
                stack.expire(layer, name, subject, out)
            elif what == 2:  # then others speak for it
                stack.suspect(self.neighbours[drawn.byte() % len(self.neighbours)], out)
            else:
                peer = self.neighbours[drawn.byte() % len(self.neighbours)]
                self._receive(stack, admission, peer, drawn, out)

    def _receive(
        self, stack: Any, admission: Admission, peer: NodeId, drawn: Drawn, out: Outbox
    ) -> None:
        """As a host does: decoded, looked at, and then for the stack."""
        made = drawn.message(self.classes)
        try:
            layer, message = self.codec.decode(self.codec.encode(made))
            admission.check(peer, tuple(self.codec.publications(message)))
            admission.check_spoken_of(
                self.codec.nodes_spoken_of(message), self.codec.groups_spoken_of(message)
            )
        except (WireError, OverflowError):  # numbers of more than 64 bits cannot be sent
            return
        stack.receive(layer, peer, message, out)


@functools.cache
def subject(protocol: str) -> Subject:
    return Subject(protocol)


def sense_target(protocol: str) -> Target:
    def sense(data: bytes) -> None:
        subject(protocol).live(Drawn(data))

    return sense


def wire_target(protocol: str) -> Target:
    """Bytes become a message or are refused; a message that was read says the same again."""

    def wire(data: bytes) -> None:
        codec = subject(protocol).codec
        _take_apart(codec, data)
        try:
            _, message = codec.decode(data)
        except WireError:
            return
        codec.describe(message, len(data))
        again = codec.encode(message)
        assert codec.encode(codec.decode(again)[1]) == again

    return wire


def _take_apart(codec: Codec, data: bytes) -> None:
    """A frame may hold many messages; each of them is one by itself as well."""
    found, _ = codec.decode_all([memoryview(data)])
    for layer, message, carried in (one for some in found for one in one_by_one(some)):
        again = codec.decode(codec.encode(message))
        assert (again[0], codec.encode(again[1])) == (layer, codec.encode(message))
        assert codec.publications(message) == list(carried)


def stream_target(data: bytes) -> None:
    """A stream in pieces of any size: frames within the limit, whatever the pieces."""
    drawn = Drawn(data)
    reader = FrameReader(BODY_LIMIT)
    rest = memoryview(data)
    try:
        while rest:
            space = reader.writable()
            count = min(1 + drawn.byte(), len(rest), len(space))
            space[:count] = rest[:count]
            assert all(len(body) <= BODY_LIMIT for body in reader.filled(count))
            rest = rest[count:]
    except WireError:
        pass


def greeting_target(data: bytes) -> None:
    mine = first_greeting("test", ME, 1, "127.0.0.1:1", "digest", {"protocol": "x"})
    try:
        theirs: Greeting = read_greeting(data[: LIMIT.value])
    except WireError:
        return
    differences(mine, theirs)
    theirs.encode()


class Keys:
    """An authority, an identity and a token to begin with."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        self.authority = Authority.found(folder / "authority", "test")
        self.authority.make_identity(folder / "one", 1)
        self.authority.make_identity(folder / "two", 2)
        self.authority.revoke(node=2)
        self.tls = Tls(folder / "one", "test")
        self.revoked = self.authority.revocations().der
        self.token = make_token(self.authority, 1, 9, timedelta(hours=1))
        self.used = make_token(self.authority, 1, 9, timedelta(hours=1))
        key = Ed25519PrivateKey.generate()
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "node 1")])
        request = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, None)
        self.request = request.public_bytes(Encoding.DER)
        ticket = read_token(self.used, Path()).passport
        self.authority.redeem(ticket, ME, key.public_key())
        first = message_id(ME, 1)
        self.signed = Signatures(self.tls).sign(first, GroupId(0), b"body")


@functools.cache
def keys() -> Keys:
    return Keys()


def signature_target(data: bytes) -> None:
    try:
        Signatures(keys().tls).check(Publication(message_id(ME, 1), GroupId(0), data))
    except WireError:
        return
    assert body_in(data) == b"body", "a body that nobody signed"


def revocations_target(data: bytes) -> None:
    try:
        told = Revocations.parse(data, keys().authority.certificates)
    except WireError:
        return
    known = keys().authority.revocations()
    assert told.number == 0 or told.serials == known.serials, "a list that nobody signed"


def token_target(data: bytes) -> None:
    try:
        read_token("cctoken1-" + data.decode("latin-1"), Path())
    except ConfigError:
        return


def request_target(data: bytes) -> None:
    """A request for a certificate, by somebody whose token was used before."""
    ticket = read_token(keys().used, Path()).passport
    greeting = first_greeting("test", ME, 1, "", "", {})
    greeting = msgspec.structs.replace(greeting, certificate=data)
    try:
        grant(keys().authority.folder, ticket, greeting)
    except (NodeError, WireError):
        return


def passport_target(data: bytes) -> None:
    """What stands in a certificate whose chain was checked."""
    try:
        keys().tls.read_passport(data)
    except WireError:
        return


def targets() -> dict[str, Target]:
    """All of them, by name."""
    found: dict[str, Target] = {
        "stream": stream_target,
        "greeting": greeting_target,
        "signature": signature_target,
        "revocations": revocations_target,
        "token": token_target,
        "request": request_target,
        "passport": passport_target,
    }
    for protocol in [*protocol_names(), *VARIANTS]:
        found[f"wire:{protocol}"] = wire_target(protocol)
        found[f"sense:{protocol}"] = sense_target(protocol)
    return found


def examples(name: str) -> list[bytes]:
    """Good inputs to begin with."""
    kind, _, protocol = name.partition(":")
    if kind == "wire":
        made = subject(protocol)
        single = [
            made.codec.encode(Drawn(bytes([index] + [3] * 40)).message(made.classes))
            for index in range(len(made.classes))
        ]
        many = bytes([MANY]) + len(single).to_bytes(4) + b"".join(single)
        assert made.codec.decode_all([memoryview(many)])[1] is None
        return [*single, many]
    if kind == "sense":
        count = len(subject(protocol).classes)
        return [bytes([2, 0, index] + [1] * 30) * 3 for index in range(count)]
    mine = first_greeting("test", ME, 1, "127.0.0.1:1", "digest", {"protocol": "x"})
    der = keys().tls.identity.certificate.public_bytes
    return {
        "stream": [b"\x00\x00\x00\x03abc" * 3],
        "greeting": [mine.encode()],
        "signature": [keys().signed],
        "revocations": [keys().revoked],
        "token": [keys().token.removeprefix("cctoken1-").encode()],
        "request": [keys().request],
        "passport": [der(Encoding.DER)],
    }[kind]
