"""The outbox: everything one step asks for, in the order it asked.

It is passed into every handler, filled during the step and emptied by the world after it. So a
protocol cannot be re-entered in the middle of a step, and a step that fails leaves nothing behind.
"""

from typing import final

from causalcast.core.effects import (
    Belief,
    CancelTimer,
    CloseLink,
    Deliver,
    Duplicate,
    Effect,
    Expelled,
    Hold,
    Joined,
    NeighbourDown,
    NeighbourUp,
    Note,
    Notice,
    OpenLink,
    Release,
    Request,
    Send,
    Stable,
    StartTimer,
    Suspect,
    Trust,
)
from causalcast.core.ids import ANY_LINK, GroupId, LinkId, MessageId, NodeId
from causalcast.core.message import Message, Publication
from causalcast.core.world_facts import WorldFacts


@final
class Record:
    """A persisted message and the layer that persisted it."""

    def __init__(self, layer: int, message: Message) -> None:
        self.layer = layer
        self.message = message


@final
class Outbox:
    """What one step asks for."""

    def __init__(self) -> None:
        self.now = 0  # microseconds, the same during the whole step
        self.layer = 0  # which layer is speaking; set by the stack
        self.world = WorldFacts()  # what may be known of it; set by the world
        self.tells_duplicates = True  # a world that need not know is spared them
        self.closes_link = False  # set by `close_link`; for worlds that let many inputs be one step
        self.effects: list[Effect] = []  # for the world
        self.records: list[Record] = []  # the step's durable entry
        self.joins: list[GroupId] = []  # … and these groups, of which the node is a member now
        self.notices: list[Notice] = []  # for the layers above
        self.requests: list[Request] = []  # for the overlay

    # Messages and links

    def send(self, to: NodeId, message: Message, link: LinkId = ANY_LINK) -> None:
        """Bring `message` to `to`.

        With a `link` it leaves on that link or, with a note, not at all; without one it dials
        where no link is, and `on_link_lost` follows if that fails.
        """
        self.effects.append(Send(self.layer, to, message, link))

    def open_link(self, to: NodeId) -> None:
        """Dial `to`, unless there is a link already."""
        self.effects.append(OpenLink(to))

    def close_link(self, to: NodeId) -> None:
        """Hang up on `to`; the other end hears of it."""
        self.closes_link = True
        self.effects.append(CloseLink(to))

    # Publications

    def deliver(self, publication: Publication) -> None:
        """Hand `publication` to the application, where it is a member of the group."""
        self.effects.append(Deliver(publication))

    def joined(self, group: GroupId) -> None:
        """Say that the node is a member of `group` from here on, over a crash too.

        For protocols whose nodes have to be admitted (see `Multicast.joins_at_once`).
        """
        self.effects.append(Joined(group))
        self.joins.append(group)

    def expelled(self) -> None:
        """Say that the node is a member of no group any more: others agreed to go on without it.

        A protocol says it again after a restart.
        """
        self.effects.append(Expelled())

    def hold(self, message: MessageId, waits_for: MessageId, reason: str = "") -> None:
        """Say that `message` has to wait for `waits_for`, or where the id of that is not known
        (`NO_MESSAGE`) for what the `reason` says."""
        self.effects.append(Hold(message, waits_for, reason))

    def release(self, message: MessageId) -> None:
        """Say that a held `message` waits no longer."""
        self.effects.append(Release(message))

    def duplicate(self, message: MessageId) -> None:
        """Say that a further copy of `message` came."""
        if self.tells_duplicates:
            self.effects.append(Duplicate(message))

    def stable(self, message: MessageId) -> None:
        """Say that every member has `message`."""
        self.effects.append(Stable(message))

    # Time and memory

    def start_timer(self, name: str, after: int, subject: int = 0) -> None:
        """Call `on_timer(name, subject)` after `after` microseconds; replaces one of that name."""
        self.effects.append(StartTimer(self.layer, name, subject, after))

    def cancel_timer(self, name: str, subject: int = 0) -> None:
        """Forget that timer; nothing happens if there is none."""
        self.effects.append(CancelTimer(self.layer, name, subject))

    def persist(self, record: Message) -> None:
        """Keep `record` over a crash; `on_recover` gets it back.

        All records of a step, its deliveries and a new publication with its number are one durable
        entry. No send, delivery or trace row of this step or a later one becomes visible outside
        the node before that entry is durable; timers act at once.
        """
        self.records.append(Record(self.layer, record))

    # Between the layers

    def neighbour_up(self, peer: NodeId, link: LinkId, newborn: bool) -> None:
        """Tell the layers that `peer` is a neighbour now."""
        self.notices.append(NeighbourUp(peer, link, newborn))

    def neighbour_down(self, peer: NodeId, link: LinkId) -> None:
        """Tell the layers that `peer` is no neighbour any more."""
        self.notices.append(NeighbourDown(peer, link))

    def suspect(self, peer: NodeId) -> None:
        """Tell the layers above, and the trace, that `peer` seems to be down."""
        self.effects.append(Belief(peer, False))
        self.notices.append(Suspect(peer))

    def trust(self, peer: NodeId) -> None:
        """Tell the layers above, and the trace, that `peer` seems to be up after all."""
        self.effects.append(Belief(peer, True))
        self.notices.append(Trust(peer))

    def switch(self, link: LinkId) -> None:
        """Ask the overlay to replace the neighbour on `link`."""
        self.requests.append(Request("switch", link))

    def settled(self, link: LinkId) -> None:
        """Tell the overlay that `link` may be relied on."""
        self.requests.append(Request("settled", link))

    def let_go(self, peer: NodeId) -> None:
        """Tell the overlay that `peer` is no node of this system any more: nobody need dial it."""
        self.requests.append(Request("let_go", ANY_LINK, peer))

    def orphan(self) -> None:
        """Tell the overlay that no usable link is left."""
        self.requests.append(Request("orphan", ANY_LINK))

    # Evidence

    def note(self, name: str, subject: int = 0) -> None:
        """Mark a rare branch: it lands in the trace and is counted over a campaign."""
        self.effects.append(Note(name, subject))
