"""The message of CBCAST: a publication, a join or a leave, and the counts that come before it."""

from causalcast.core import GroupId, Message, NodeId, Wire
from causalcast.parts.addressed.addressed_messages import Numbered
from causalcast.parts.vector_clock import VectorClock

Clocks = dict[GroupId, VectorClock]


class Timestamped(Numbered):
    """Deliver it when you have what is named of your groups; it is itself the last of its slot."""

    wire = Wire(
        "cbcast.timestamped",
        group=GroupId,
        number=int,
        before=int,
        clocks=dict[GroupId, dict[NodeId, int]],
        content=Message,
    )

    def __init__(
        self, group: GroupId, number: int, before: int, clocks: Clocks, content: Message
    ) -> None:
        # The number of the publication; joins and leaves have their own.
        super().__init__(group, number, content)
        self.group = group
        self.before = before  # the number of its sender's last one to this group
        self.clocks = clocks
