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
    LinkId,
    Message,
    MessageId,
    Multicast,
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
from causalcast.parts.safe_links.crowding import Crowding
from causalcast.parts.safe_links.links import (
    Link,
    Tokens,
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


class FloodTokens(Tokens):
    """A copy for every safe link, at the first receipt."""

    def __init__(self, setup: Setup) -> None:
        self.skips = setup.text("answer") == "skip"
        self.safe = link_setups.safe_links(setup, self)

    def spread(self, publication: Publication, hops: int, source: Link | None, out: Outbox) -> None:
        gossip = Gossip(publication)
        for link in self.safe.links.values():
            if link.safe_in and link is not source:
                link.owed[publication.id] = self.safe.delivered
            if not link.safe_out:
                continue
            if link is source and self.skips:
                send_in_order(link, Skip(publication.id), out)
            else:
                send_in_order(link, gossip, out)

    def peer_has(self, link: Link, message: MessageId, out: Outbox) -> None:
        pass  # nothing is kept for a peer

    def link_gone(self, link: Link, out: Outbox) -> None:
        pass  # nothing is known of it but its record


class PrcBroadcast(Multicast):
    """Safe links, and what they owe."""

    def __init__(self, setup: Setup) -> None:
        self.tokens = FloodTokens(setup)
        self.safe = self.tokens.safe
        self.crowding = Crowding(self.safe, setup.number("give_up_after"))

    def on_publish(self, publication: Publication, out: Outbox) -> None:
        # Alg. 1, l. 8-10 of the thesis, on safe links.
        self.safe.publish(publication, out)

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> None:
        # Alg. 1, l. 11-19 of the thesis, on safe links; `Skip` is not in the paper.
        link = self.safe.link_of(sender, out)
        if link is None:
            return
        if isinstance(message, Gossip):
            self._on_gossip(link, message, out)
        elif isinstance(message, Skip):
            link.owed.pop(message.message, None)
        else:
            self.safe.setup.on_message(link, message, out)

    def _on_gossip(self, link: Link, gossip: Gossip, out: Outbox) -> None:
        # Alg. 1, l. 11-19 of the thesis: it was owed, or it is new.
        if not link.safe_in:
            out.note("prc_broadcast.on_unsafe_link", gossip.publication.id)
        elif link.owed.pop(gossip.publication.id, -1) >= 0:
            out.duplicate(gossip.publication.id)
        else:
            self.safe.accept(gossip.publication, 0, link, out)

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        # Alg. 3 of the thesis, and how long a node may wait to be born.
        self.safe.on_timer(name, subject, out)

    def on_neighbour_up(self, peer: NodeId, link: LinkId, newborn: bool, out: Outbox) -> None:
        # Alg. 2 of the thesis: the link has to become safe.
        self.safe.on_neighbour_up(peer, link, out)

    def on_neighbour_down(self, peer: NodeId, link: LinkId, out: Outbox) -> None:
        # Alg. 15 of the thesis: forget what was owed on it.
        self.safe.on_neighbour_down(link, out)

    def takes_part(self) -> bool:
        return self.safe.born and not self.safe.setup.is_left_behind()

    def crowded_by(self, now: int) -> str:
        return self.crowding.words(now)

    def kept_bytes(self) -> int:
        return self.safe.kept_bytes()

    def state_size(self) -> int:
        return self.safe.size()


def build(setup: Setup) -> PrcBroadcast:
    return PrcBroadcast(setup)


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
    events=link_setups.EVENTS,
    ends=link_setups.ENDS,
    cost="no entries; the id and the group",
)
