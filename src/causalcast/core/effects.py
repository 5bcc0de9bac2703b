"""What a step can ask for: effects of the world, notices to layers above, requests below.

Protocols never make these objects themselves; they call the methods of `Outbox`. Effects are made
and forgotten by the million, so the compiled ones are spared the cyclic garbage collector.
"""

from typing import Final, final

from mypy_extensions import mypyc_attr

from causalcast.core.ids import GroupId, LinkId, MessageId, NodeId
from causalcast.core.message import Message, Publication

NOBODY: Final = NodeId(-1)


@mypyc_attr(acyclic=True)
class Effect:
    """Something the world is asked to let happen."""

    __slots__ = ()


@final
@mypyc_attr(acyclic=True)
class Send(Effect):
    """Bring `message` to `to`, on `link` or not at all (`ANY_LINK`: on whatever link there is)."""

    __slots__ = ("layer", "link", "message", "to")

    def __init__(self, layer: int, to: NodeId, message: Message, link: LinkId) -> None:
        self.layer = layer
        self.to = to
        self.message = message
        self.link = link


@final
@mypyc_attr(acyclic=True)
class OpenLink(Effect):
    """Dial `to`; `on_link_up` or `on_link_lost` follows."""

    def __init__(self, to: NodeId) -> None:
        self.to = to


@final
@mypyc_attr(acyclic=True)
class CloseLink(Effect):
    """Hang up on `to`."""

    def __init__(self, to: NodeId) -> None:
        self.to = to


@final
@mypyc_attr(acyclic=True)
class Deliver(Effect):
    """Hand `publication` to the application, if the node is a member of its group."""

    __slots__ = ("publication",)

    def __init__(self, publication: Publication) -> None:
        self.publication = publication


@final
@mypyc_attr(acyclic=True)
class Joined(Effect):
    """The node is a member of `group` from here on."""

    def __init__(self, group: GroupId) -> None:
        self.group = group


@final
@mypyc_attr(acyclic=True)
class Expelled(Effect):
    """The node is a member of no group from here on."""


@final
@mypyc_attr(acyclic=True)
class StartTimer(Effect):
    """Call `on_timer(name, subject)` of the layer after `after` microseconds."""

    __slots__ = ("after", "layer", "name", "subject")

    def __init__(self, layer: int, name: str, subject: int, after: int) -> None:
        self.layer = layer
        self.name = name
        self.subject = subject
        self.after = after


@final
@mypyc_attr(acyclic=True)
class CancelTimer(Effect):
    """Forget that timer."""

    __slots__ = ("layer", "name", "subject")

    def __init__(self, layer: int, name: str, subject: int) -> None:
        self.layer = layer
        self.name = name
        self.subject = subject


@final
@mypyc_attr(acyclic=True)
class Hold(Effect):
    """`message` is here and must wait for `waits_for`, or for what `reason` says."""

    __slots__ = ("message", "reason", "waits_for")

    def __init__(self, message: MessageId, waits_for: MessageId, reason: str) -> None:
        self.message = message
        self.waits_for = waits_for
        self.reason = reason

    def words(self) -> str:
        """What it waits for, for people."""
        return self.reason or f"{self.waits_for >> 32}.{self.waits_for & 0xFFFFFFFF}"


@final
@mypyc_attr(acyclic=True)
class Release(Effect):
    """`message` waits no longer."""

    __slots__ = ("message",)

    def __init__(self, message: MessageId) -> None:
        self.message = message


@final
@mypyc_attr(acyclic=True)
class Duplicate(Effect):
    """Another copy of `message` came and was thrown away."""

    __slots__ = ("message",)

    def __init__(self, message: MessageId) -> None:
        self.message = message


@final
@mypyc_attr(acyclic=True)
class Stable(Effect):
    """Every member has `message`."""

    def __init__(self, message: MessageId) -> None:
        self.message = message


@final
@mypyc_attr(acyclic=True)
class Belief(Effect):
    """The detector believes `peer` to be down, or (`up`) believes so no longer."""

    def __init__(self, peer: NodeId, up: bool) -> None:
        self.peer = peer
        self.up = up


@final
@mypyc_attr(acyclic=True)
class Note(Effect):
    """Something rare happened; counted in the trace."""

    def __init__(self, name: str, subject: int) -> None:
        self.name = name
        self.subject = subject


class Notice:
    """Something a layer tells the layers above it (neighbours also to the detector)."""


@final
class NeighbourUp(Notice):
    """The overlay made `peer` a neighbour over `link`; `newborn` if it is new to the system."""

    def __init__(self, peer: NodeId, link: LinkId, newborn: bool) -> None:
        self.peer = peer
        self.link = link
        self.newborn = newborn


@final
class NeighbourDown(Notice):
    """`peer` is no neighbour any more."""

    def __init__(self, peer: NodeId, link: LinkId) -> None:
        self.peer = peer
        self.link = link


@final
class Suspect(Notice):
    """The detector believes `peer` to be down."""

    def __init__(self, peer: NodeId) -> None:
        self.peer = peer


@final
class Trust(Notice):
    """The detector takes its suspicion of `peer` back."""

    def __init__(self, peer: NodeId) -> None:
        self.peer = peer


@final
class Request:
    """What the multicast asks of the overlay: `switch`, `settled` (a link), `let_go` (a peer), or
    `orphan`."""

    def __init__(self, name: str, link: LinkId, peer: NodeId = NOBODY) -> None:
        self.name = name
        self.link = link
        self.peer = peer
