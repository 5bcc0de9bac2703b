"""The three layers of one node and the way between them.

Inputs go to their layer. Notices rise: suspicions of the detector to overlay and multicast,
neighbours of the overlay to the multicast and to the detector, which watches exactly these.
Requests of the multicast sink to the overlay. This is the only place that knows that.
"""

from typing import Final, final

from causalcast.core.automaton import Automaton, Detector, Multicast, Overlay
from causalcast.core.command import Command
from causalcast.core.effects import NeighbourDown, NeighbourUp, Suspect, Trust
from causalcast.core.ids import GroupId, LinkId, NodeId
from causalcast.core.message import Message, Publication, Single
from causalcast.core.outbox import Outbox, Record

DETECTOR: Final = 0
OVERLAY: Final = 1
MULTICAST: Final = 2


@final
class Stack:
    """Detector, overlay and multicast of one node, and the groups it is a member of."""

    def __init__(
        self, me: NodeId, detector: Detector, overlay: Overlay, multicast: Multicast
    ) -> None:
        self.me = me
        self.detector = detector
        self.overlay = overlay
        self.multicast = multicast
        self.layers: list[Automaton] = [detector, overlay, multicast]
        self.groups: dict[GroupId, None] = {}  # replaced, never changed: worlds share them

    # Life

    def start(self, out: Outbox) -> None:
        """Start for the first time, lowest layer first."""
        for layer, automaton in enumerate(self.layers):
            out.layer = layer
            automaton.on_start(out)
            self.settle(out)

    def recover(self, records: list[Record], out: Outbox) -> None:
        """Start again with what was persisted, highest layer first.

        The multicast must know its past before a neighbour can come up.
        """
        for layer in (MULTICAST, OVERLAY, DETECTOR):
            out.layer = layer
            mine = [record.message for record in records if record.layer == layer]
            self.layers[layer].on_recover(mine, out)
            self.settle(out)

    def join(self, contact: NodeId, out: Outbox) -> None:
        """Enter the overlay through `contact`."""
        out.layer = OVERLAY
        self.overlay.on_join(contact, out)
        self.settle(out)

    def leave(self, out: Outbox) -> None:
        """Leave the overlay."""
        out.layer = OVERLAY
        self.overlay.on_leave(out)
        self.settle(out)

    # The network

    def receive(self, layer: int, sender: NodeId, message: Message, out: Outbox) -> None:
        """A message came on the current link to `sender`."""
        out.layer = layer
        if layer == MULTICAST:
            self.multicast.on_message(sender, message, out)
        else:
            self.layers[layer].on_message(sender, message, out)
        if out.notices or out.requests:
            self.settle(out)

    def receive_run(
        self, sender: NodeId, first: Single, publications: tuple[Publication, ...], out: Outbox
    ) -> None:
        """Messages for the multicast came that each continue the one before."""
        out.layer = MULTICAST
        self.multicast.on_run(sender, first, publications, out)
        if out.notices or out.requests:
            self.settle(out)

    def link_up(self, peer: NodeId, link: LinkId, dialled: bool, out: Outbox) -> None:
        """A link to `peer` is there."""
        for layer, automaton in enumerate(self.layers):
            out.layer = layer
            automaton.on_link_up(peer, link, dialled, out)
            self.settle(out)

    def lose_link(self, peer: NodeId, link: LinkId, reason: str, out: Outbox) -> None:
        """The link to `peer` is gone, or a dial failed."""
        for layer, automaton in enumerate(self.layers):
            out.layer = layer
            automaton.on_link_lost(peer, link, reason, out)
            self.settle(out)

    def heard(self, peer: NodeId, out: Outbox) -> None:
        """Something comes from `peer`, whatever it will be when it is whole."""
        out.layer = DETECTOR
        self.detector.on_heard(peer, out)
        self.settle(out)

    def suspect(self, peer: NodeId, out: Outbox) -> None:
        """Let the layers believe that `peer` is down, as if the detector had said so."""
        out.suspect(peer)
        self.settle(out)

    def trust(self, peer: NodeId, out: Outbox) -> None:
        """Let the layers believe that `peer` is up."""
        out.trust(peer)
        self.settle(out)

    # Time

    def expire(self, layer: int, name: str, subject: int, out: Outbox) -> None:
        """A timer ran out."""
        out.layer = layer
        self.layers[layer].on_timer(name, subject, out)
        if out.notices or out.requests:
            self.settle(out)

    # The application

    def publish(self, publication: Publication, out: Outbox) -> None:
        """The application publishes."""
        out.layer = MULTICAST
        self.multicast.on_publish(publication, out)
        if out.notices or out.requests:
            self.settle(out)

    def join_group(self, group: GroupId, out: Outbox) -> None:
        """The application becomes a member of `group`, or asks to become one."""
        out.layer = MULTICAST
        if self.multicast.joins_at_once(group):
            out.joined(group)
        self.multicast.on_join_group(group, out)
        self.settle(out)

    def leave_group(self, group: GroupId, out: Outbox) -> None:
        """The application leaves `group`, or no longer wants to join it; nothing of it is delivered
        here from now on."""
        out.layer = MULTICAST
        self.multicast.on_leave_group(group, out)
        self.groups = {other: None for other in self.groups if other != group}
        self.settle(out)

    def is_joining(self, group: GroupId) -> bool:
        """Whether it has asked to become a member of `group`, and waits to be admitted."""
        return group in self.multicast.asked_for()

    def command(self, command: Command, out: Outbox) -> None:
        """An operator commands something that the multicast has no objection to."""
        out.layer = MULTICAST
        self.multicast.on_command(command, out)
        self.settle(out)

    def note_joined(self, group: GroupId) -> None:
        """The application is a member of `group`: the world lets an effect happen."""
        self.groups = {**self.groups, group: None}

    def note_expelled(self) -> None:
        """The application is a member of no group any more: the world lets an effect happen."""
        self.groups = {}

    # Between the layers

    def settle(self, out: Outbox) -> None:
        """Let notices rise and requests sink until nobody has anything to say."""
        while out.notices or out.requests:
            while out.notices:
                self._rise(out)
            while out.requests:
                self._sink(out)

    def _rise(self, out: Outbox) -> None:
        notice = out.notices.pop(0)
        if isinstance(notice, NeighbourUp):
            for layer in (DETECTOR, MULTICAST):
                out.layer = layer
                self.layers[layer].on_neighbour_up(notice.peer, notice.link, notice.newborn, out)
        elif isinstance(notice, NeighbourDown):
            for layer in (DETECTOR, MULTICAST):
                out.layer = layer
                self.layers[layer].on_neighbour_down(notice.peer, notice.link, out)
        elif isinstance(notice, Suspect):
            for layer in (OVERLAY, MULTICAST):
                out.layer = layer
                self.layers[layer].on_suspect(notice.peer, out)
        else:
            assert isinstance(notice, Trust)
            for layer in (OVERLAY, MULTICAST):
                out.layer = layer
                self.layers[layer].on_trust(notice.peer, out)

    def _sink(self, out: Outbox) -> None:
        request = out.requests.pop(0)
        out.layer = OVERLAY
        if request.name == "switch":
            self.overlay.on_switch(request.link, out)
        elif request.name == "settled":
            self.overlay.on_settled(request.link, out)
        elif request.name == "let_go":
            self.overlay.on_let_go(request.peer, out)
        else:
            assert request.name == "orphan"
            self.overlay.on_orphan(out)
