"""What CPTCast's nodes say to one another: three tokens, and what is none.

`Gossip`, `IHave` and `Skip` are the tokens of a link (Algorithms 11 to 15): one per message, in the
order of deliveries. `Have` and `Grafted` are not in the thesis.
"""

from typing import Final, final

from mypy_extensions import mypyc_attr

from causalcast.core import Message, MessageId, Publication, Wire


@final
@mypyc_attr(acyclic=True)
class Gossip(Message):
    """Token: the publication, so many hops from its origin."""

    __slots__ = ("hops", "publication")

    wire = Wire("cptcast.gossip", publication=Publication, hops=int)

    def __init__(self, publication: Publication, hops: int) -> None:
        self.publication = publication
        self.hops = hops


@final
@mypyc_attr(acyclic=True)
class IHave(Message):
    """Token: the message is kept for you, graft it if it does not come another way."""

    __slots__ = ("hops", "message")

    wire = Wire("cptcast.i_have", message=MessageId, hops=int)

    def __init__(self, message: MessageId, hops: int) -> None:
        self.message = message
        self.hops = hops


@final
@mypyc_attr(acyclic=True)
class Skip(Message):
    """Token: the message is here too, it will not come from here."""

    __slots__ = ("message",)

    wire = Wire("cptcast.skip", message=MessageId)

    def __init__(self, message: MessageId) -> None:
        self.message = message


class Have(Message):
    """No token, only evidence: the message is here, do not keep it for me."""

    wire = Wire("cptcast.have", message=MessageId)

    def __init__(self, message: MessageId) -> None:
        self.message = message


class Prune(Message):
    """This message came twice: only announce messages like it from now on."""

    wire = Wire("cptcast.prune", message=MessageId)

    def __init__(self, message: MessageId) -> None:
        self.message = message


class Graft(Message):
    """Send the message you announced, and push messages like it from now on."""

    wire = Wire("cptcast.graft", message=MessageId)

    def __init__(self, message: MessageId) -> None:
        self.message = message


class Grafted(Message):
    """The payload of an announced message, out of the stream of tokens (order `receiver`)."""

    wire = Wire("cptcast.grafted", publication=Publication, hops=int)

    def __init__(self, publication: Publication, hops: int) -> None:
        self.publication = publication
        self.hops = hops


MESSAGES: Final[list[type[Message]]] = [Gossip, IHave, Skip, Have, Prune, Graft, Grafted]
