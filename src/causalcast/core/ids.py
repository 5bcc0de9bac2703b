"""Node, group, message and link ids: plain ints, told apart by the type checker only.

A message id packs its origin and the origin's own number into one int. That is free under mypyc,
one join key for the pipeline, and fits the `subject` of a timer.
"""

from typing import Final, NewType

NodeId = NewType("NodeId", int)
GroupId = NewType("GroupId", int)
MessageId = NewType("MessageId", int)
LinkId = NewType("LinkId", int)

NUMBER_BITS: Final = 32
NUMBER_MASK: Final = (1 << 32) - 1
NODE_LIMIT: Final = 1 << 31  # node and group ids are int32 in the trace
NO_MESSAGE: Final = MessageId(-1)
ANY_LINK: Final = LinkId(-1)  # `send` on whatever link there is, dialling if there is none


def message_id(origin: NodeId, number: int) -> MessageId:
    """The id of the `number`-th publication of `origin`; numbers count from 1."""
    return MessageId(origin << NUMBER_BITS | number)


def origin_of(message: MessageId) -> NodeId:
    """Who published the message."""
    # `NodeId(…)` would be a call that changes nothing, for every message several times.
    return message >> NUMBER_BITS  # type: ignore[return-value]


def number_of(message: MessageId) -> int:
    """Which of its origin's publications the message is, counted from 1."""
    return message & NUMBER_MASK


def link_id(dialler: NodeId, count: int) -> LinkId:
    """The name of a link at both ends: who dialled it, and the number of that dial."""
    return LinkId(dialler << NUMBER_BITS | count)


def dialler_of(link: LinkId) -> NodeId:
    """Who dialled the link."""
    return NodeId(link >> NUMBER_BITS)
