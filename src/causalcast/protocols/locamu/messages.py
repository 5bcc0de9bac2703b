"""What LoCaMu's nodes say to one another, and what they write down to survive a crash."""

from typing import Final

from causalcast.core.ids import GroupId, MessageId, NodeId
from causalcast.core.message import Membership, Message, Publication, Wire
from causalcast.protocols.locamu.safe_path import Numbers

Key = tuple[int, ...]  # see `key_of`

# Between nodes


class Copy(Message):
    """A publication, one hop further: process it once its causes are here, and pass it on."""

    __slots__ = ("header", "publication")

    wire = Wire("locamu.copy", publication=Publication, header=bytes)

    def __init__(self, publication: Publication, header: bytes) -> None:
        self.publication = publication
        self.header = header


class Subscription(Message):
    """The same for news that `joiner` wants to join `group`: remember the way to it."""

    wire = Wire("locamu.subscription", group=GroupId, joiner=NodeId, header=bytes)

    def __init__(self, group: GroupId, joiner: NodeId, header: bytes) -> None:
        self.group = group
        self.joiner = joiner
        self.header = header

    def joins(self, sender: NodeId) -> list[Membership]:
        return [(self.joiner, self.group)]


class Admission(Message):
    """The same for news that `joiner` is a member: lead messages of this epoch and later to it."""

    wire = Wire("locamu.admission", group=GroupId, joiner=NodeId, epoch=int, header=bytes)

    def __init__(self, group: GroupId, joiner: NodeId, epoch: int, header: bytes) -> None:
        self.group = group
        self.joiner = joiner
        self.epoch = epoch
        self.header = header

    def joins(self, sender: NodeId) -> list[Membership]:
        return [(self.joiner, self.group)]


class Ack(Message):
    """Tell an issuer which of its numbers arrived: up to `complete_to` and beyond that `complete`
    are here with everything that can be known of them, `partial` with these issuers' numbers. Its
    copies `held` are here and wait: they need not be sent again while this link stands."""

    wire = Wire(
        "locamu.ack",
        complete_to=int,
        complete=list[int],
        partial=dict[int, list[NodeId]],
        held=list[int],
    )

    def __init__(
        self,
        complete_to: int,
        complete: list[int],
        partial: dict[int, list[NodeId]],
        held: list[int],
    ) -> None:
        self.complete_to = complete_to
        self.complete = complete
        self.partial = partial
        self.held = held


class Probe(Message):
    """Ask whether messages arrived that somebody nearer should have brought."""

    wire = Wire("locamu.probe", numbers=list[int])

    def __init__(self, numbers: list[int]) -> None:
        self.numbers = numbers


class Want(Message):
    """Ask an issuer for messages by its own numbers."""

    wire = Wire("locamu.want", numbers=list[int])

    def __init__(self, numbers: list[int]) -> None:
        self.numbers = numbers


class StartOver(Message):
    """A header was missed: the next one on this link must be whole."""

    wire = Wire("locamu.start_over")


class Finished(Message):
    """Tell a neighbour up to which number everybody has what was published here."""

    wire = Wire("locamu.finished", to=int)

    def __init__(self, to: int) -> None:
        self.to = to


class AskFinished(Message):
    """Ask a neighbour for `Finished`."""

    wire = Wire("locamu.ask_finished")


class HandedOn(Message):
    """A copy in place of a node that cannot send it: it stands on the other side of that node and
    is no way onward, so nothing of its header follows from the link."""

    wire = Wire(
        "locamu.handed_on",
        message=Message,
        origin=int,
        epoch=int,
        numbers=dict[NodeId, dict[NodeId, int]],
        needs=dict[NodeId, dict[NodeId, int]],
    )

    def __init__(
        self, message: Message, origin: int, epoch: int, numbers: Numbers, needs: Numbers
    ) -> None:
        self.message = message
        self.origin = origin
        self.epoch = epoch
        self.numbers = numbers
        self.needs = needs


class Replay(Message):
    """A publication in place of its publisher, who seems to be down: what that would send itself,
    with its numbers and dependencies, and nothing of the sender's own."""

    wire = Wire(
        "locamu.replay",
        message=Message,
        origin=NodeId,
        epoch=int,
        numbers=dict[NodeId, int],
        needs=dict[NodeId, dict[NodeId, int]],
    )

    def __init__(
        self,
        message: Message,
        origin: NodeId,
        epoch: int,
        numbers: dict[NodeId, int],
        needs: Numbers,
    ) -> None:
        self.message = message
        self.origin = origin
        self.epoch = epoch
        self.numbers = numbers
        self.needs = needs


class Replayed(Message):
    """Answer `Replay`: what `origin` gave this number for the sender is here."""

    wire = Wire("locamu.replayed", origin=NodeId, number=int)

    def __init__(self, origin: NodeId, number: int) -> None:
        self.origin = origin
        self.number = number


class AskNames(Message):
    """Ask which messages `issuer`, which seems to be down, gave these numbers for `node`; who does
    not know asks others, so many times in a row."""

    wire = Wire("locamu.ask_names", issuer=NodeId, node=NodeId, numbers=list[int], hops=int)

    def __init__(self, issuer: NodeId, node: NodeId, numbers: list[int], hops: int) -> None:
        self.issuer = issuer
        self.node = node
        self.numbers = numbers
        self.hops = hops


class Names(Message):
    """Answer `AskNames`, as far as it is known: number -> key of the message."""

    wire = Wire("locamu.names", issuer=NodeId, node=NodeId, keys=dict[int, list[int]])

    def __init__(self, issuer: NodeId, node: NodeId, keys: dict[int, list[int]]) -> None:
        self.issuer = issuer
        self.node = node
        self.keys = keys


class Settled(Message):
    """Tell up to which of the sender's numbers each node has all: nobody need know any more which
    messages those are."""

    wire = Wire("locamu.settled", to=dict[NodeId, int])

    def __init__(self, to: dict[NodeId, int]) -> None:
        self.to = to


class Gone(Message):
    """Tell that `peer` never comes back. `ready`: of what it published the sender has nothing for
    the receiver but what it numbered `pending`; `asks`: say the same."""

    wire = Wire("locamu.gone", peer=NodeId, ready=bool, pending=list[int], asks=bool)
    names_gone = "peer"

    def __init__(self, peer: NodeId, ready: bool, pending: list[int], asks: bool) -> None:
        self.peer = peer
        self.ready = ready
        self.pending = pending
        self.asks = asks


# On disk


class Kept(Message):
    """Record: this message was processed, with these numbers and, since the last such record, these
    changes of the past."""

    wire = Wire(
        "locamu.kept",
        message=Message,
        origin=int,
        epoch=int,
        back=int,
        numbers=dict[NodeId, dict[NodeId, int]],
        raised=dict[NodeId, dict[NodeId, int]],
    )

    def __init__(
        self,
        message: Message,
        origin: int,
        epoch: int,
        back: int,
        numbers: Numbers,
        raised: Numbers,
    ) -> None:
        self.message = message
        self.origin = origin
        self.epoch = epoch
        self.back = back
        self.numbers = numbers
        self.raised = raised


class Noted(Message):
    """Record: these numbers arrived here, and the past changed; nothing needs to be kept."""

    wire = Wire("locamu.noted", arrived=dict[NodeId, int], raised=dict[NodeId, dict[NodeId, int]])

    def __init__(self, arrived: dict[NodeId, int], raised: Numbers) -> None:
        self.arrived = arrived
        self.raised = raised


class Learned(Message):
    """Record: of the message with this number further numbers, or its origin, became known."""

    wire = Wire(
        "locamu.learned",
        issuer=NodeId,
        node=NodeId,
        number=int,
        origin=int,
        numbers=dict[NodeId, dict[NodeId, int]],
    )

    def __init__(
        self, issuer: NodeId, node: NodeId, number: int, origin: int, numbers: Numbers
    ) -> None:
        self.issuer = issuer
        self.node = node
        self.number = number
        self.origin = origin
        self.numbers = numbers


class Forgotten(Message):
    """Record: the messages with these numbers need no longer be kept."""

    wire = Wire("locamu.forgotten", stamps=list[list[int]])

    def __init__(self, stamps: list[list[int]]) -> None:
        self.stamps = stamps


class StoodBy(Message):
    """Record: of the message with the number that its publisher, `origin`, gave it for this node
    the publisher's whole numbers and dependencies, so that this node can stand in for it."""

    wire = Wire(
        "locamu.stood_by",
        origin=NodeId,
        number=int,
        numbers=dict[NodeId, int],
        needs=dict[NodeId, dict[NodeId, int]],
    )

    def __init__(
        self, origin: NodeId, number: int, numbers: dict[NodeId, int], needs: Numbers
    ) -> None:
        self.origin = origin
        self.number = number
        self.numbers = numbers
        self.needs = needs


class Named(Message):
    """Record: which messages `issuer` gave which numbers for others: node -> number -> key."""

    wire = Wire("locamu.named", issuer=NodeId, keys=dict[NodeId, dict[int, list[int]]])

    def __init__(self, issuer: NodeId, keys: dict[NodeId, dict[int, list[int]]]) -> None:
        self.issuer = issuer
        self.keys = keys


class Departed(Message):
    """Record: this node was declared gone."""

    wire = Wire("locamu.departed", peer=NodeId)

    def __init__(self, peer: NodeId) -> None:
        self.peer = peer


class GivenUp(Message):
    """Record: nothing more of this node, which is gone, is waited for, but for copies that were
    held then: each is its sender and number, and then all numbers it carries for this node."""

    wire = Wire("locamu.given_up", peer=NodeId, held=list[list[int]])

    def __init__(self, peer: NodeId, held: list[list[int]]) -> None:
        self.peer = peer
        self.held = held


class Wish(Message):
    """Record: while it waits to be admitted to a group, the node no longer wants that, or does so
    again."""

    wire = Wire("locamu.wish", group=GroupId, wanted=bool)

    def __init__(self, group: GroupId, wanted: bool) -> None:
        self.group = group
        self.wanted = wanted


class Past(Message):
    """Record of a snapshot: the past, the numbers that arrived, and what is known of members who
    joined (see `late_members`)."""

    wire = Wire(
        "locamu.past",
        past=dict[NodeId, dict[NodeId, int]],
        counts=dict[NodeId, int],
        extras=dict[NodeId, list[int]],
        epochs=dict[GroupId, int],
        led=dict[GroupId, dict[NodeId, int]],
        joining=dict[GroupId, dict[NodeId, list[NodeId]]],
        admitted=list[GroupId],
    )

    def __init__(
        self,
        past: Numbers,
        counts: dict[NodeId, int],
        extras: dict[NodeId, list[int]],
        epochs: dict[GroupId, int],
        led: dict[GroupId, dict[NodeId, int]],
        joining: dict[GroupId, dict[NodeId, list[NodeId]]],
        admitted: list[GroupId],
    ) -> None:
        self.past = past
        self.counts = counts
        self.extras = extras
        self.epochs = epochs
        self.led = led
        self.joining = joining
        self.admitted = admitted


MESSAGES: Final[list[type[Message]]] = [
    Copy,
    Subscription,
    Admission,
    Ack,
    Probe,
    Want,
    StartOver,
    Finished,
    AskFinished,
    HandedOn,
    Replay,
    Replayed,
    AskNames,
    Names,
    Settled,
    Gone,
    Kept,
    Noted,
    Learned,
    Forgotten,
    StoodBy,
    Named,
    Departed,
    GivenUp,
    Wish,
    Past,
]


def key_of(message: Message) -> Key:
    """What names a message wherever it is: a publication's id, or which news of a member it is."""
    if isinstance(message, Copy):
        return (message.publication.id,)
    if isinstance(message, Subscription):
        return (message.group, message.joiner)
    assert isinstance(message, Admission)
    return (message.group, message.joiner, message.epoch)


def with_header(message: Message, header: bytes) -> Message:
    """The same message with the header for one link."""
    if isinstance(message, Copy):
        return Copy(message.publication, header)
    if isinstance(message, Subscription):
        return Subscription(message.group, message.joiner, header)
    assert isinstance(message, Admission)
    return Admission(message.group, message.joiner, message.epoch, header)


def is_copy_of(message: Message, publication: MessageId) -> bool:
    """Whether a message carries this publication; asked by people only."""
    return isinstance(message, Copy) and message.publication.id == publication
