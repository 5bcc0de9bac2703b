"""What protocols say that multicast to the members of a group alone.

Such a protocol has a message class of its own, which extends `Numbered`: around its content, which
is a publication, a join or a leave, it says what must be delivered before.

On the wire, in journals and in traces the names begin with `addressed_multicast`.
"""

from typing import Final

from mypy_extensions import mypyc_attr

from causalcast.core.ids import GroupId, NodeId
from causalcast.core.message import Membership, Message, Publication, Wire
from causalcast.parts.addressed.member_lists import Addressed
from causalcast.parts.safe_keeping import Name

EVERYBODY: Final = GroupId((1 << 31) - 1)  # no group of an application: joins and leaves go to it


class Published(Addressed):
    """A publication, for the members of its group as its origin knew them."""

    wire = Wire(
        "addressed_multicast.published",
        publication=Publication,
        joined=list[NodeId],
        times=list[int],
        left=list[NodeId],
    )

    def __init__(
        self,
        publication: Publication,
        joined: list[NodeId],
        times: list[int],
        left: list[NodeId],
    ) -> None:
        super().__init__(joined, times, left)
        self.publication = publication


@mypyc_attr(allow_interpreted_subclasses=True)
class Numbered(Message):
    """A message to several nodes: what it brings, and its number among those of its sender.

    Group and number are its name: no other message of its sender has it. In one group, the numbers
    of a sender rise.
    """

    def __init__(self, group: GroupId, number: int, content: Message) -> None:
        self.number = number
        self.content = content
        self.name: Name = (group, number)


class Entrusted(Message):
    """A message of somebody else: take it if it is for you, and keep it if not."""

    wire = Wire("addressed_multicast.entrusted", origin=NodeId, message=Message)

    def __init__(self, origin: NodeId, message: Message) -> None:
        self.origin = origin
        self.message = message

    def joins(self, sender: NodeId) -> list[Membership]:
        return self.message.joins(self.origin)  # whoever brings it


class Waiting(Message):
    """Record of a snapshot: a message that has to wait."""

    wire = Wire("addressed_multicast.waiting", sender=NodeId, message=Message)

    def __init__(self, sender: NodeId, message: Message) -> None:
        self.sender = sender
        self.message = message


class KeptSafe(Message):
    """Record of a snapshot: a message of another node that may not be everywhere yet."""

    wire = Wire("addressed_multicast.kept_safe", origin=NodeId, message=Message)

    def __init__(self, origin: NodeId, message: Message) -> None:
        self.origin = origin
        self.message = message


class Spreading(Message):
    """Record of a snapshot: an own message, and as which parcel it went to each node."""

    wire = Wire(
        "addressed_multicast.spreading", message=Message, to=list[NodeId], parcels=list[int]
    )

    def __init__(self, message: Message, to: list[NodeId], parcels: list[int]) -> None:
        self.message = message
        self.to = to
        self.parcels = parcels


MESSAGES: Final[list[type[Message]]] = [Published, Entrusted, Waiting, KeptSafe, Spreading]


def unwrapped(sender: NodeId, message: Message) -> tuple[NodeId, Message]:
    """Whose message it is, and what it is: `sender` may bring somebody else's."""
    if isinstance(message, Entrusted):
        return message.origin, message.message
    return sender, message


def group_of(content: Message) -> GroupId:
    """The group that something goes to: that of a publication; joins and leaves go to all."""
    return content.publication.group if isinstance(content, Published) else EVERYBODY


def publication_in(message: Message) -> Publication | None:
    """The publication that a message brings, if it brings one."""
    inside = message.message if isinstance(message, Entrusted) else message
    if isinstance(inside, Numbered) and isinstance(inside.content, Published):
        return inside.content.publication
    return None
