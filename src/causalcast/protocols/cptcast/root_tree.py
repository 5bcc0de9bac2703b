"""One tree for all origins that a single node shapes, by beacons instead of messages.

Messages of many origins pull a shared tree in many directions, and from a cold start it never
settles. Here only the *root* shapes it: while there is traffic its beacon floods every so often,
without payload and without order. Whoever hears a beacon for the first time makes that link its way
to the root; a link on which both ends send the same beacon to one another is no part of the tree.

The root is the smallest id that is heard of. If no beacon comes though messages do, everybody
offers itself, and the smallest wins again. A tree is a hint: nothing that must be true depends on
it, so a moment with two roots costs some payloads twice and nothing else.
"""

from typing import Final, final

from mypy_extensions import mypyc_attr

from causalcast.core.ids import NodeId
from causalcast.core.message import Message, Wire
from causalcast.core.outbox import Outbox
from causalcast.limits import Limit

BEACON: Final = "root_tree.beacon"
MOST_SILENCES: Final = Limit(
    "protocols.cptcast.root_tree.most_silences",
    3,
    least=1,
    most=64,
    unit="beacons",
    about="beacons that may be missing before somebody else takes over",
)


@final
@mypyc_attr(acyclic=True)
class Beacon(Message):
    """The tree grows from `root`; `parent`: I heard of this beacon from you first."""

    __slots__ = ("number", "parent", "root")

    wire = Wire("root_tree.beacon", root=NodeId, number=int, parent=bool)

    def __init__(self, root: NodeId, number: int, parent: bool) -> None:
        self.root = root
        self.number = number
        self.parent = parent


MESSAGES: Final[list[type[Message]]] = [Beacon]


@final
class RootTree:
    """Which root this node follows, and whether it was heard of lately."""

    def __init__(self, me: NodeId, every: int) -> None:
        self.me = me
        self.root = me
        self.number = 0
        self._every = every
        self._armed = False
        self._silences = 0

    def on_delivery(self, out: Outbox) -> None:
        """There is traffic: a beacon is due soon."""
        # Not in the paper: its tree is shaped by messages.
        if not self._armed:
            self._armed = True
            out.start_timer(BEACON, self._every)

    def is_due(self, out: Outbox) -> bool:
        """The timer ran out: whether this node is to send a beacon of its own."""
        self._armed = False
        if self.root != self.me:
            self._silences += 1
            if self._silences <= MOST_SILENCES.value:
                return False
            out.note("root_tree.took_over", self.root)
            self.root = self.me
        self.number += 1
        return True

    def is_new(self, beacon: Beacon) -> bool:
        """Whether a beacon is the first of its kind here; it is followed from now on."""
        if beacon.root > self.root or beacon.root == self.me:
            return False
        if beacon.root == self.root and beacon.number <= self.number:
            return False
        self.root = beacon.root
        self.number = beacon.number
        self._silences = 0
        return True

    def is_current(self, beacon: Beacon) -> bool:
        """Whether it is the beacon that shapes the tree now."""
        return beacon.root == self.root and beacon.number == self.number
