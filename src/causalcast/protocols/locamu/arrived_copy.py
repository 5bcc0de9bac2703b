"""A copy that arrived, made from what stands in the message that brought it."""

from causalcast.core.ids import NodeId
from causalcast.core.message import Message
from causalcast.parts.tree.neighbourhood import NOBODY, Pair
from causalcast.protocols.locamu.gap_consultation import Inquiry
from causalcast.protocols.locamu.link_header import Header, LinkPlan
from causalcast.protocols.locamu.local_past import flat
from causalcast.protocols.locamu.message_log import Standby
from causalcast.protocols.locamu.messages import Admission, Copy, HandedOn, Replay, Subscription
from causalcast.protocols.locamu.peers import Peers
from causalcast.protocols.locamu.safe_path import Numbers, Stamped


class Arrived(Stamped):
    """A copy that arrived: from whom, what, and what it depends on."""

    def __init__(
        self,
        source: NodeId,
        message: Message,
        origin: NodeId,
        epoch: int,
        back: NodeId,
        numbers: Numbers,
        needs: dict[Pair, int],
        at: int,
    ) -> None:
        super().__init__(origin, epoch, back, numbers)
        self.since = at
        self.source = source
        self.message = message
        self.needs = needs
        self.inquiry = Inquiry()
        self.number = 0  # of the source, for this node
        self.waits_for: Pair | None = None  # a missing number: its issuer, and which
        self.announced = False  # that it is held
        self.standby: Standby | None = None  # if its publisher sent it, or one in its place

    def is_handed_on(self) -> bool:
        """Whether its sender is not on the message's way, and sent it in place of another."""
        return self.source not in self.numbers


def sent_copy(
    peers: Peers, sender: NodeId, message: Message, header: Header, now: int
) -> Arrived | None:
    """A copy that came along its way; None if its sender gave it no number for this node."""
    number = header.numbers.get(sender, {}).get(peers.me)
    if number is None:
        return None
    back = peers.around.hop(peers.me, sender)
    copy = Arrived(
        sender, message, header.origin, header.epoch, back, header.numbers, header.needs, now
    )
    copy.number = number
    copy.standby = header.standby
    return copy


def replayed_copy(peers: Peers, plan: LinkPlan, replay: Replay, now: int) -> Arrived | None:
    """A copy in place of its publisher, as that would have sent it: `plan` is of the link from
    there. None if the publisher gave it no number for this node."""
    me, publisher = peers.me, replay.origin
    number = replay.numbers.get(me)
    if number is None or not isinstance(replay.message, (Copy, Subscription, Admission)):
        return None
    whole = flat(replay.needs)
    needs = {pair: need for pair, need in whole.items() if pair in plan.pair_place}
    near = plan.numbered_by(publisher)
    row = {node: replay.numbers[node] for node in near if node in replay.numbers}
    back = peers.around.hop(me, publisher)
    copy = Arrived(
        publisher, replay.message, publisher, replay.epoch, back, {publisher: row}, needs, now
    )
    copy.number = number
    copy.standby = Standby(replay.numbers, whole)
    return copy


def handed_on_copy(
    peers: Peers, window: int, sender: NodeId, handed: HandedOn, now: int
) -> Arrived | None:
    """A copy from somebody who stands on the far side of a node that cannot send it; None if it
    makes no sense. Only what is near enough is taken from it."""
    around, me = peers.around, peers.me
    number = handed.numbers.get(sender, {}).get(me)
    if number is None or not isinstance(handed.message, (Copy, Subscription, Admission)):
        return None
    near = around.pairs_within(peers.horizon, peers.reach)
    needs = {
        (issuer, node): count
        for issuer, row in handed.needs.items()
        for node, count in row.items()
        if node == me or (issuer, node) in near
    }
    numbers = {
        issuer: row
        for issuer, row in handed.numbers.items()
        if issuer not in (sender, me)
        and around.knows(issuer)
        and around.distance(issuer, me) <= window
    }
    way = [issuer for issuer, row in numbers.items() if me in row]
    if not way:
        return None
    origin = NodeId(handed.origin)
    if not around.knows(origin):
        origin = NOBODY
    back = around.hop(me, way[0])
    copy = Arrived(sender, handed.message, origin, handed.epoch, back, numbers, needs, now)
    copy.number = number
    return copy
