"""Every publication that arrives is looked at before the protocol sees it.

Whoever sends one that cannot be true is a broken or hostile node: its link is closed, and the kind
is counted. An honest relay has the same rules and would have refused it itself.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from causalcast.core.groups import Groups
from causalcast.core.ids import NODE_LIMIT, NUMBER_BITS, NUMBER_MASK, NodeId
from causalcast.core.made_groups import FIRST_MADE, NEWS
from causalcast.core.message import Message, Publication
from causalcast.errors import Rejected, WireError
from causalcast.parts.addressed.addressed_messages import EVERYBODY
from causalcast.runtime.security.rights import Rights
from causalcast.runtime.security.signatures import Signatures

# Most protocols say this of every origin: a node does not get all it publishes, so that any number
# may come next.
ANY_NUMBER: Final = -1


class Admission:
    """What a node believes of publications that others bring."""

    def __init__(
        self,
        me: NodeId,
        groups: Groups,
        nodes: Sequence[NodeId] | None,
        rights: Rights,
        published: Callable[[], int],
        furthest: Callable[[NodeId], int],
        signatures: Signatures | None,
        revoked: Callable[[], frozenset[int]] | None = None,
        takes_made: bool = False,
        takes_news: bool = False,
    ) -> None:
        """`nodes`: all there are, None where they come and go; `published`: my last number;
        `furthest`: the greatest number of an origin that may come now, as the protocol says;
        `revoked`: the nodes that the authority has revoked, None where there is none;
        `takes_made`: whether there may be groups that are made later. News of one may come behind
        what is published there, so that is looked at when it is delivered. `takes_news`: whether
        news may come, of such groups or of states for newcomers."""
        self._revoked = revoked
        self._me = me
        self._groups = len(groups.names)
        self._first_made = int(NEWS) if takes_news else NODE_LIMIT
        if takes_made:
            self._first_made = FIRST_MADE
        self._nodes = None if nodes is None else frozenset(nodes)
        self._rights = rights
        self._published = published
        self._furthest = furthest
        self._signatures = signatures
        self.looks_at_members = rights.limits_members()
        self._looks_at_publishers = rights.limits_publishers()
        self._greatest: dict[int, int] = {}  # number seen, by origin
        self._every_group = frozenset([*range(self._groups), EVERYBODY])

    def check(self, sender: NodeId, publications: tuple[Publication, ...]) -> None:
        """Raise Rejected for one that cannot be true."""
        for publication in publications:
            origin = publication.id >> NUMBER_BITS
            number = publication.id & NUMBER_MASK
            greatest = self._greatest.get(origin, 0)
            # The next number of an origin that is known needs no look; that is what mostly comes.
            if number > greatest and (
                number != greatest + 1 or greatest == 0 or origin == self._me
            ):
                self._check_new(NodeId(origin), number)
            group = publication.group
            if not 0 <= group < self._groups and group < self._first_made:
                raise Rejected("unknown_group", f"a publication to group {group}")
            if self._looks_at_publishers and not self._rights.may_publish(NodeId(origin), group):
                raise Rejected("without_right", f"node {origin} may not publish to group {group}")
            if self._signatures is not None:
                self._check_signature(self._signatures, publication)
                if origin == sender and origin in self._signatures.liars:
                    raise Rejected(
                        "two_bodies", f"node {origin} signed two publications under one number"
                    )
            if number > greatest:
                self._greatest[origin] = number

    def check_run(self, sender: NodeId, publications: tuple[Publication, ...]) -> None:
        """The same for publications that follow one another: the first says who, the last how
        far."""
        first, last = publications[0], publications[-1]
        origin = first.id >> NUMBER_BITS
        is_next = first.id & NUMBER_MASK == self._greatest.get(origin, 0) + 1
        if not is_next or origin == self._me or self._signatures is not None:
            self.check(sender, publications)
        else:
            self.check(sender, (first,))
            self._greatest[origin] = last.id & NUMBER_MASK

    def check_spoken_of(self, nodes: Iterable[int], groups: Iterable[int]) -> None:
        """Raise Rejected where somebody speaks of nodes or groups that there are not.

        Each of them would take memory, and be written down, for ever.
        """
        if not self.knows_all(nodes):
            assert self._nodes is not None
            stranger = next(node for node in nodes if node not in self._nodes)
            raise Rejected("unknown_node", f"it speaks of node {stranger}, who is unknown")
        if not self._every_group.issuperset(groups):
            raise Rejected("unknown_group", "it speaks of a group that there is not")

    def are_proven_gone(self, sender: NodeId, nodes: Iterable[int]) -> bool:
        """Whether it may be believed of these nodes that they never come back.

        Where there is an authority its word is the proof: it is signed, travels everywhere, and who
        is revoked does not come back. Of itself a node may say it.
        """
        return self._revoked is None or self._revoked().issuperset(
            node for node in nodes if node != sender
        )

    def knows_all(self, nodes: Iterable[int]) -> bool:
        """Whether all of these nodes can be there."""
        return self._nodes is None or self._nodes.issuperset(nodes)

    def check_members(self, sender: NodeId, message: Message) -> None:
        """Raise Rejected for a membership that somebody has no right to."""
        for node, group in message.joins(sender):
            if not self._rights.may_subscribe(node, group):
                raise Rejected("without_right", f"node {node} may not be in group {group}")

    def _check_new(self, origin: NodeId, number: int) -> None:
        if origin == self._me:
            if number > self._published():
                raise Rejected("as_myself", f"number {number} of mine, which I never published")
        elif self._nodes is not None and origin not in self._nodes:
            raise Rejected("unknown_origin", f"a publication of node {origin}, who is unknown")
        else:
            furthest = self._furthest(origin)
            if furthest != ANY_NUMBER and number > furthest:
                raise Rejected(
                    "number_ahead",
                    f"number {number} of node {origin}, and at most {furthest} can be",
                )

    def _check_signature(self, signatures: Signatures, publication: Publication) -> None:
        try:
            signatures.check(publication)
        except WireError as error:
            raise Rejected("bad_signature", str(error)) from None
