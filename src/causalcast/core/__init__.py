"""The language all protocols speak; nothing here knows a clock, a socket or a file.

A protocol file needs one import line: everything it may use is here.
"""

from causalcast.core.automaton import Automaton, Detector, Multicast, Overlay
from causalcast.core.command import NODE, Command, CommandForm
from causalcast.core.duration import MICROSECOND, MILLISECOND, SECOND
from causalcast.core.effects import Deliver, Effect, Send, StartTimer
from causalcast.core.groups import Groups
from causalcast.core.ids import (
    ANY_LINK,
    GroupId,
    LinkId,
    MessageId,
    NodeId,
    message_id,
    number_of,
    origin_of,
)
from causalcast.core.message import Membership, Message, Publication, Wire
from causalcast.core.outbox import Outbox
from causalcast.core.spec import (
    CAUSAL_WHEN_ALL_ARE_BACK,
    CAUSAL_WITHOUT_THE_DEAD,
    CommandPlan,
    DetectorSpec,
    Misfit,
    Needs,
    Option,
    OverlaySpec,
    ProtocolSpec,
    Setup,
)

__all__ = [
    "ANY_LINK",
    "CAUSAL_WHEN_ALL_ARE_BACK",
    "CAUSAL_WITHOUT_THE_DEAD",
    "MICROSECOND",
    "MILLISECOND",
    "NODE",
    "SECOND",
    "Automaton",
    "Command",
    "CommandForm",
    "CommandPlan",
    "Deliver",
    "Detector",
    "DetectorSpec",
    "Effect",
    "GroupId",
    "Groups",
    "LinkId",
    "Membership",
    "Message",
    "MessageId",
    "Misfit",
    "Multicast",
    "Needs",
    "NodeId",
    "Option",
    "Outbox",
    "Overlay",
    "OverlaySpec",
    "ProtocolSpec",
    "Publication",
    "Send",
    "Setup",
    "StartTimer",
    "Wire",
    "message_id",
    "number_of",
    "origin_of",
]
