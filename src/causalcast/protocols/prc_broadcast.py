"""PRC-broadcast: flood over safe links; a new link is used once both ends know what it owes.

Every node sends every message once on every safe link, at its first receipt; so on each link causes
come before effects, as in `naive_causal`. What makes this work on an overlay that changes is the
set-up of links (`links`): before a direction carries messages, its receiver knows
exactly which copies will come over it. Messages carry no clock, and ids are forgotten as soon as
all neighbours have sent their copy.

Source: B. Nédelec, P. Molli, A. Mostéfaoui, "Breaking the Scalability Barrier of Causal Broadcast
for Large and Dynamic Systems", 2018, as told by P. Dias, "Tree-based Decentralized and Robust
Causal Dissemination", MSc thesis, NOVA, 2020 (sections 2.3.1, 3.4).

Where we differ from the paper: the two directions of a link are made safe independently, each link
is a connection with its own name, and `link_setup` offers a second way, by vectors, which needs no
safe path. `answer = "skip"` answers the first sender of a message without its payload.
"""

from typing import final

from mypy_extensions import mypyc_attr

from causalcast.core import (
    Message,
    MessageId,
    Needs,
    NodeId,
    Option,
    Outbox,
    ProtocolSpec,
    Publication,
    Setup,
    Wire,
)
from causalcast.parts.safe_links import link_setups
from causalcast.parts.safe_links.links import (
    Link,
    SafeLinkMulticast,
    all_came_in_turn,
    nothing_is_owed,
    reached_by,
    send_in_order,
)


@final
@mypyc_attr(acyclic=True)
class Gossip(Message):
    """A publication, one hop further: deliver it and pass it on, unless the sender owed it."""

    __slots__ = ("publication",)

    wire = Wire("prc_broadcast.gossip", publication=Publication)

    def __init__(self, publication: Publication) -> None:
        self.publication = publication


class Skip(Message):
    """I have this message too; you will not get it from me."""

    wire = Wire("prc_broadcast.skip", message=MessageId)

    def __init__(self, message: MessageId) -> None:
        self.message = message


class PrcBroadcast(SafeLinkMulticast):
    """Safe links, and what they owe."""

    def __init__(self, me: NodeId, newcomer: bool, skips: bool) -> None:
        super().__init__(me, newcomer)
        self.skips = skips

    def spread(self, publication: Publication, hops: int, source: Link | None, out: Outbox) -> None:
        gossip = Gossip(publication)
        for link in self.links.values():
            if link.safe_in and link is not source:
                link.owed[publication.id] = self.delivered
            if not link.safe_out:
                continue
            if link is source and self.skips:
                send_in_order(link, Skip(publication.id), out)
            else:
                send_in_order(link, gossip, out)

    def on_token(self, link: Link, message: Message, out: Outbox) -> None:
        # Alg. 1, l. 11-19 of the thesis, on safe links; `Skip` is not in the paper.
        if isinstance(message, Gossip):
            if not link.safe_in:
                out.note("prc_broadcast.on_unsafe_link", message.publication.id)
            elif link.owed.pop(message.publication.id, -1) >= 0:
                out.duplicate(message.publication.id)
            else:
                self.accept(message.publication, 0, link, out)
        elif isinstance(message, Skip):
            link.owed.pop(message.message, None)
        else:
            self.setup.on_message(link, message, out)


def build(setup: Setup) -> PrcBroadcast:
    skips = setup.text("answer") == "skip"
    protocol = PrcBroadcast(setup.me, setup.newcomer, skips)
    link_setups.equip(protocol, setup)
    return protocol


def tolerates(down: list[NodeId], setup: Setup) -> bool:
    return True  # agreement is promised per connected component of safe links


SPEC = ProtocolSpec(
    name="prc_broadcast",
    summary="Flood over links that were made safe; causal on an overlay that changes.",
    build=build,
    messages=[Gossip, Skip, *link_setups.MESSAGES],
    guarantees=[
        "no_creation",
        "no_duplication",
        "validity",
        "agreement_per_part",
        "fifo_order",
        "causal_order",
    ],
    options=[
        Option(
            "answer",
            "copy",
            "what the first sender of a message gets back: a copy (as in the paper), or a skip",
            choices=["copy", "skip"],
            change_if="bodies are large: the first sender need not get its copy back",
        ),
        *link_setups.OPTIONS,
    ],
    needs=Needs(links="fifo"),
    tolerates=tolerates,
    invariants=[all_came_in_turn],
    at_rest=[nothing_is_owed],
    reaches=reached_by,
    rare=["safe_links.waits_for_birth"],
    cost="no entries; the id and the group",
)
