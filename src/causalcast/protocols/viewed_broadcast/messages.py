"""What members of a view say to one another, and what they write down.

Ballots are ints: the round in the upper bits, who leads it in the lower ones. Held copies are runs,
flat: origin, first, last.
"""

from typing import Final, final

from causalcast.core.ids import MessageId, NodeId, number_of, origin_of
from causalcast.core.message import SHORT_BODY, Message, Publication, Single, Wire
from causalcast.parts.vector_clock import VectorClock


@final
class Copy(Single):
    """A publication, the view it was published in, and what must be delivered before: deliver it
    after those, in that view or a later one. On disk: this copy is here."""

    __slots__ = ("needs", "view")

    wire = Wire("viewed_broadcast.copy", publication=Publication, view=int, needs=dict[NodeId, int])

    def __init__(self, publication: Publication, view: int, needs: VectorClock) -> None:
        self.publication = publication
        self.view = view
        self.needs = needs

    def continues(self, before: Single) -> bool:
        """Nothing was delivered or installed in between."""
        mine, other = self.publication, before.publication
        return (
            isinstance(before, Copy)
            and mine.id == other.id + 1
            and mine.group == other.group
            and self.view == before.view
            and len(mine.body) <= SHORT_BODY.value
            and len(other.body) <= SHORT_BODY.value
            and self.needs == before.needs
        )

    def around(self, publication: Publication) -> "Copy":
        return Copy(publication, self.view, self.needs)

    def origin(self) -> NodeId:
        return origin_of(self.publication.id)

    def number(self) -> int:
        return number_of(self.publication.id)

    def id(self) -> MessageId:
        return self.publication.id


@final
class View(Message):
    """A view that was decided: install it when all that its cut counts is delivered.

    `members`: who is in it. `cut`: how many publications of each origin belong to views before.
    `gone`: who was removed, by this view or an earlier one. `closed`: those of them of whom nothing
    beyond the cut is ever delivered.
    """

    wire = Wire(
        "viewed_broadcast.view",
        number=int,
        members=list[NodeId],
        cut=dict[NodeId, int],
        gone=list[NodeId],
        closed=list[NodeId],
    )

    def __init__(
        self,
        number: int,
        members: list[NodeId],
        cut: VectorClock,
        gone: list[NodeId],
        closed: list[NodeId],
    ) -> None:
        self.number = number
        self.members = members
        self.cut = cut
        self.gone = gone
        self.closed = closed

    def majority(self) -> int:
        return len(self.members) // 2 + 1


@final
class Status(Message):
    """What its sender has: remember it, and bring what it lacks.

    `installed`, `known`: its view, and the newest that it knows without a gap. `promised`: the
    newest view for which it takes part in an agreement. `counts`: how many publications of each
    origin it has delivered, as far as that is news. `adds`: who is to become a member. `asks`: say
    the same of yourself, all of it.
    """

    wire = Wire(
        "viewed_broadcast.status",
        installed=int,
        known=int,
        promised=int,
        counts=dict[NodeId, int],
        adds=list[NodeId],
        asks=bool,
    )

    def __init__(
        self,
        installed: int,
        known: int,
        promised: int,
        counts: VectorClock,
        adds: list[NodeId],
        asks: bool,
    ) -> None:
        self.installed = installed
        self.known = known
        self.promised = promised
        self.counts = counts
        self.adds = adds
        self.asks = asks


@final
class Removal(Message):
    """An operator said that `peer` never comes back: agree with the others on a view without it."""

    wire = Wire("viewed_broadcast.removal", peer=NodeId)
    names_gone = "peer"

    def __init__(self, peer: NodeId) -> None:
        self.peer = peer


@final
class Fetch(Message):
    """Send the copies of these runs (a last number of 0: all from the first on), a bounded part."""

    wire = Wire("viewed_broadcast.fetch", runs=list[int])

    def __init__(self, runs: list[int]) -> None:
        self.runs = runs


@final
class More(Message):
    """That was as much as is sent at once: ask again for what is still missing."""

    wire = Wire("viewed_broadcast.more")


@final
class Prepare(Message):
    """Promise to follow no lower ballot for this view, and say what you have."""

    wire = Wire("viewed_broadcast.prepare", number=int, ballot=int)

    def __init__(self, number: int, ballot: int) -> None:
        self.number = number
        self.ballot = ballot


@final
class Promise(Message):
    """The answer: `accepted` is the view accepted before under `accepted_ballot`, if that is not 0;
    `held` are the copies that may be fetched here."""

    wire = Wire(
        "viewed_broadcast.promise",
        number=int,
        ballot=int,
        accepted_ballot=int,
        accepted=Message,
        installed=int,
        counts=dict[NodeId, int],
        held=list[int],
        adds=list[NodeId],
        removes=list[NodeId],
    )

    def __init__(
        self,
        number: int,
        ballot: int,
        accepted_ballot: int,
        accepted: Message,
        installed: int,
        counts: VectorClock,
        held: list[int],
        adds: list[NodeId],
        removes: list[NodeId],
    ) -> None:
        self.number = number
        self.ballot = ballot
        self.accepted_ballot = accepted_ballot
        self.accepted = accepted
        self.installed = installed
        self.counts = counts
        self.held = held
        self.adds = adds
        self.removes = removes


@final
class Accept(Message):
    """Accept this view as soon as you hold these copies; fetch from the sender what you lack."""

    wire = Wire("viewed_broadcast.accept", ballot=int, view=Message, held=list[int])

    def __init__(self, ballot: int, view: Message, held: list[int]) -> None:
        self.ballot = ballot
        self.view = view
        self.held = held


@final
class Accepted(Message):
    """The answer: it is accepted, and the copies are here, on disk."""

    wire = Wire("viewed_broadcast.accepted", number=int, ballot=int)

    def __init__(self, number: int, ballot: int) -> None:
        self.number = number
        self.ballot = ballot


@final
class Refused(Message):
    """Somebody leads with this higher ballot."""

    wire = Wire("viewed_broadcast.refused", number=int, ballot=int)

    def __init__(self, number: int, ballot: int) -> None:
        self.number = number
        self.ballot = ballot


# Records


@final
class Installed(Message):
    """The view of this number is installed; 0 for a newcomer, which knows no view."""

    wire = Wire("viewed_broadcast.installed", number=int)

    def __init__(self, number: int) -> None:
        self.number = number


@final
class Done(Message):
    """So many publications of these origins were delivered; `base`: or belong to views before the
    first one of this node."""

    wire = Wire("viewed_broadcast.done", counts=dict[NodeId, int])

    def __init__(self, counts: VectorClock) -> None:
        self.counts = counts


@final
class Promised(Message):
    """No lower ballot is followed for this view."""

    wire = Wire("viewed_broadcast.promised", number=int, ballot=int)

    def __init__(self, number: int, ballot: int) -> None:
        self.number = number
        self.ballot = ballot


@final
class Voted(Message):
    """This view was accepted under this ballot, and all copies that it needs are here."""

    wire = Wire("viewed_broadcast.voted", ballot=int, view=Message)

    def __init__(self, ballot: int, view: Message) -> None:
        self.ballot = ballot
        self.view = view


@final
class Ordered(Message):
    """Who is to become a member, who is to be one no longer, and groups that wait to be joined."""

    wire = Wire(
        "viewed_broadcast.ordered", adds=list[NodeId], removes=list[NodeId], groups=list[int]
    )

    def __init__(self, adds: list[NodeId], removes: list[NodeId], groups: list[int]) -> None:
        self.adds = adds
        self.removes = removes
        self.groups = groups


MESSAGES: Final[list[type[Message]]] = [
    Copy,
    Status,
    Fetch,
    More,
    View,
    Removal,
    Prepare,
    Promise,
    Accept,
    Accepted,
    Refused,
    Installed,
    Done,
    Promised,
    Voted,
    Ordered,
]
