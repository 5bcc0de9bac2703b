"""What travels between nodes: messages with a declared wire form, and publications.

The wire is a contract, so a message says its fields and their types outright instead of having
them guessed from its constructor; `causalcast.wire.codec` builds the encoder from that.
"""

from typing import ClassVar, Final, final, get_args, get_origin

from mypy_extensions import mypyc_attr

from causalcast.core.ids import GroupId, MessageId, NodeId
from causalcast.limits import Limit

# Messages that travel as one: what a frame unfolds to is bounded, and so is the frame.
LONGEST_RUN: Final = Limit(
    "core.message.longest_run",
    64,
    least=2,
    most=1024,
    unit="messages",
    about="messages that each continue the one before and travel as one",
)
SHORT_BODY: Final = Limit(
    "core.message.short_body",
    1024,
    least=0,
    most=1 << 20,
    unit="bytes",
    about="a body in such a run",
)


@final
class Wire:
    """The name and the fields, in order, under which a message class is encoded.

    A field's type is one of: bool, int, float, str, bytes, an id type, `Publication`, `Message`
    (any message of the node), or a list or dict of those. Its name is also the name of the
    constructor's argument and of the attribute.
    """

    def __init__(self, _name: str, **fields: object) -> None:
        self.name = _name
        self.fields = fields


Membership = tuple[NodeId, GroupId]


@mypyc_attr(allow_interpreted_subclasses=True, acyclic=True)
class Message:
    """Anything that is sent to a peer or persisted. Subclasses set `wire`."""

    __slots__ = ()

    wire: ClassVar[Wire]
    # The field that names a node of which the message says that it never comes back. Where nodes
    # prove who they are, that is believed only of those whom the authority has revoked.
    names_gone: ClassVar[str] = ""

    def joins(self, sender: NodeId) -> "list[Membership]":
        """Who becomes a member of which group by this message, which `sender` sent.

        Rights are checked by what a message declares here, before a protocol sees it.
        """
        found: list[Membership] = []
        for name, kind in type(self).wire.fields.items():
            if kind is Message:
                found += getattr(self, name).joins(sender)
            elif get_origin(kind) is list and get_args(kind)[0] is Message:
                for inner in getattr(self, name):
                    found += inner.joins(sender)
        return found

    def __repr__(self) -> str:
        """Type and fields, for transcripts and failed assertions."""
        fields = (f"{name}={getattr(self, name)!r}" for name in type(self).wire.fields)
        return f"{type(self).__name__}({', '.join(fields)})"


@final
@mypyc_attr(acyclic=True)
class Publication:
    """What an application published: its id, the group it is for, and the body.

    `key` is the id as an object. Compiled code keeps an `int` attribute unboxed and makes a new
    object of it at every look-up; a set of keys is looked up by identity instead.
    """

    __slots__ = ("body", "group", "id", "key")

    def __init__(self, id: MessageId, group: GroupId, body: bytes) -> None:  # noqa: A002
        self.id = id
        self.key: object = id
        self.group = group
        self.body = body

    def __repr__(self) -> str:
        """Origin and number are what people look for."""
        return f"{self.id >> 32}.{self.id & 0xFFFFFFFF}"


@mypyc_attr(allow_interpreted_subclasses=True, acyclic=True)
class Single(Message):
    """A message that carries one publication.

    Those that follow one another and differ in nothing but the number and the body of it travel as
    one, with many bodies, if these are short (`SHORT_BODY`).
    """

    __slots__ = ("publication",)

    def __init__(self, publication: Publication) -> None:
        self.publication = publication

    def continues(self, before: "Single") -> bool:
        """Whether it is the same as `before` around the next publication of its origin."""
        raise AssertionError("a message must say what it continues")

    def around(self, publication: Publication) -> "Single":
        """The same around another publication."""
        raise AssertionError("a message must say what else it could carry")


@mypyc_attr(allow_interpreted_subclasses=True, acyclic=True)
class Envelope(Message):
    """A message around one of an inner protocol, or around what such a protocol carries.

    An inner protocol has publications of its own, with ids that mean nothing outside.
    """

    __slots__ = ()

    def carried(self) -> list[Publication]:
        """The publications inside, as applications know them."""
        raise AssertionError("an envelope must say what is inside")

    def joins(self, sender: NodeId) -> list[Membership]:
        return []  # groups of an inner protocol mean nothing outside


def publications_in(message: Message) -> list[Publication]:
    """All publications that a message carries, its own and those of messages inside it."""
    if isinstance(message, Envelope):
        return message.carried()
    found: list[Publication] = []
    for name, kind in type(message).wire.fields.items():
        if kind is Publication:
            found.append(getattr(message, name))
        elif kind is Message:
            found += publications_in(getattr(message, name))
        elif get_origin(kind) is list and get_args(kind)[0] is Publication:
            found += getattr(message, name)
    return found
