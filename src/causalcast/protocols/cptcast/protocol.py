"""CPTCast: causal broadcast along a tree that the messages shape, on an overlay that changes.

Links are made safe as in `prc_broadcast`. On a safe direction X -> Y, X owes Y exactly one *token*
per message it delivers, in the order of its deliveries:

    Gossip   the payload
    IHave    I keep it back for you; the payload follows if you graft
    Skip     I have it too, you will not get it from me

`Graft`, `Prune` and `Have` (evidence only) are no tokens. A link on which a payload came twice is
pruned and only announces; a node that hears of a message and does not get it asks for it. So
payloads travel along a tree and the order of tokens stays what causality needs.

`order` says who keeps it where a payload is held back:

    queue      the sender: one announcement at a time, everything else waits behind it (the thesis)
    receiver   the receiver: tokens are never kept back; what came early waits at the receiver. A
               message may be delivered as soon as it heads the stream of some link, wherever its
               payload came from

P. Dias, "Tree-based Decentralized and Robust Causal Dissemination", MSc thesis, NOVA, 2020,
Algorithms 11 to 15.

Where we differ from it (as printed the algorithms do not run; the tests replay each error):

- An acknowledgement is `Skip` or `Have`, never an announcement.
- A mode changes only on a safe direction; evidence removes the message it is about, not the head of
  the queue; every announcer is remembered; a timer stops when nobody is left to ask.
- Control messages of the link set-up keep their place in the stream.
- `order = "receiver"`, the trees of origins and of a root, and `link_setup = "vector"` go beyond
  the thesis.
"""

from causalcast.core import (
    MILLISECOND,
    LinkId,
    Message,
    MessageId,
    Misfit,
    Multicast,
    Needs,
    NodeId,
    Option,
    Outbox,
    ProtocolSpec,
    Publication,
    Setup,
)
from causalcast.parts.push_modes import ROOT, TREES
from causalcast.parts.safe_links import link_setups
from causalcast.parts.safe_links.crowding import Crowding
from causalcast.parts.safe_links.links import all_came_in_turn, nothing_is_owed, reached_by
from causalcast.protocols.cptcast import messages, root_tree
from causalcast.protocols.cptcast.announcements import BEST, GRAFT, Order, Settings, TreeLink
from causalcast.protocols.cptcast.receiver_order import ReceiverOrder
from causalcast.protocols.cptcast.root_tree import BEACON
from causalcast.protocols.cptcast.sender_order import SenderOrder


class CptCast(Multicast):
    """Safe links, and the order in which tokens are said on them."""

    def __init__(self, setup: Setup) -> None:
        settings = Settings(setup)
        if settings.tree != "shared" and settings.order != "receiver":
            raise Misfit(f"tree = {settings.tree!r} needs order = 'receiver'")
        receiver = settings.order == "receiver"
        self.order: Order
        self.order = ReceiverOrder(setup, settings) if receiver else SenderOrder(setup, settings)
        self.safe = self.order.safe
        self.crowding = Crowding(self.safe, setup.number("give_up_after"))

    def on_publish(self, publication: Publication, out: Outbox) -> None:
        # Alg. 11, l. 1-4: spread it along the tree, and deliver it.
        self.safe.publish(publication, out)

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> None:
        # Alg. 11 to 13, and 2 to 10 for what makes links safe.
        link = self.safe.link_of(sender, out)
        if link is not None:
            assert isinstance(link, TreeLink)
            self.order.on_token(link, message, out)

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        # Alg. 12, l. 12-17, and Alg. 3; beacons are not in the paper.
        if name == GRAFT:
            self.order.ask_next(MessageId(subject), out)
        elif name == BEACON:
            assert isinstance(self.order, ReceiverOrder)
            self.order.send_beacon(out)
        else:
            self.safe.on_timer(name, subject, out)

    def on_neighbour_up(self, peer: NodeId, link: LinkId, newborn: bool, out: Outbox) -> None:
        # Alg. 2: the link has to become safe.
        self.safe.on_neighbour_up(peer, link, out)

    def on_neighbour_down(self, peer: NodeId, link: LinkId, out: Outbox) -> None:
        # Alg. 15: forget what was owed and announced on it.
        self.safe.on_neighbour_down(link, out)

    def takes_part(self) -> bool:
        return self.safe.born and not self.safe.setup.is_left_behind()

    def crowded_by(self, now: int) -> str:
        return self.crowding.words(now)

    def kept_bytes(self) -> int:
        return self.safe.kept_bytes()

    def state_size(self) -> int:
        kept = 0
        for link in tree_links(self):
            kept += len(link.queue) + len(link.kept) + len(link.stalled) + link.modes.size()
        asked = self.order.announcements
        return self.safe.size() + kept + len(asked.missing) + len(asked.grafted)


def tree_links(multicast: CptCast) -> list[TreeLink]:
    """All links of a node."""
    return [link for link in multicast.safe.links.values() if isinstance(link, TreeLink)]


def build(setup: Setup) -> CptCast:
    return CptCast(setup)


def tolerates(down: list[NodeId], setup: Setup) -> bool:
    return True  # agreement is promised per connected component of safe links


def nothing_waits(multicast: Multicast) -> bool:
    """At rest queues, streams, announcements and grafts are done with."""
    assert isinstance(multicast, CptCast)
    idle = all(link.idle() for link in tree_links(multicast))
    asked = multicast.order.announcements
    return idle and not asked.missing and not asked.grafted


def queues_are_sound(multicast: Multicast) -> bool:
    """A control message never heads a queue, and only the head is announced."""
    assert isinstance(multicast, CptCast)
    for link in tree_links(multicast):
        if link.queue and (link.queue[0].delivery is None or not link.queue[0].told):
            return False
        if any(waiting.delivery and waiting.told for waiting in link.queue[1:]):
            return False
    return True


def streams_are_sound(multicast: Multicast) -> bool:
    """What heads a stalled stream can really not be taken, and only announced messages are asked
    for."""
    assert isinstance(multicast, CptCast)
    for link in tree_links(multicast):
        if link.stalled and (link.stalled[0].done or link.stalled[0].delivery is not None):
            return False
    missing = multicast.order.announcements.missing.values()
    return all(name in multicast.safe.named for announcers in missing for name in announcers)


def only_what_is_lacking_is_asked_for(multicast: Multicast) -> bool:
    """What is announced and waited for, or was grafted, has not been delivered here."""
    assert isinstance(multicast, CptCast)
    asked = multicast.order.announcements
    wanted = [*asked.missing, *asked.grafted, *asked.timed]
    return not any(multicast.safe.setup.was_delivered(message) for message in wanted)


SPEC = ProtocolSpec(
    name="cptcast",
    summary="Causal along a tree that mends itself, on an overlay that changes.",
    build=build,
    messages=[
        *messages.MESSAGES,
        *root_tree.MESSAGES,
        *link_setups.MESSAGES,
    ],
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
            "order",
            "receiver",
            "who keeps the order where a payload is held back",
            choices=["queue", "receiver"],
            change_if="you compare with the thesis, whose order is `queue`",
        ),
        # Measured with one sender, ten and many, on overlays at rest and changing.
        Option(
            "tree",
            BEST,
            "one tree for all origins, one for each, or one that the beacons of a root shape; "
            "best: root where receivers keep the order, else shared",
            choices=[BEST, *TREES, ROOT],
            change_if="the same few nodes publish (source is faster), or one alone (shared is)",
        ),
        # Often enough to follow a changing overlay; a beacon is 5 small messages per node.
        Option(
            "beacon_every",
            1000 * MILLISECOND,
            "tree root: how often it is shaped",
            unit="ms",
            change_if="the overlay changes faster than the tree follows",
        ),
        Option(
            "most_origins",
            1024,
            "trees remembered per link",
            least=1,
            change_if="more nodes publish than that with tree = 'source'",
        ),
        # Must exceed the depth of the tree, or a settled tree is torn up again: 400 ms for ten
        # thousand nodes and hops of 5 to 50 ms.
        Option(
            "graft_after",
            400 * MILLISECOND,
            "wait for an announced message",
            unit="ms",
            change_if="links are faster or slower than 5 to 50 ms a hop",
        ),
        # At least a round trip of one link.
        Option(
            "graft_again",
            150 * MILLISECOND,
            "then ask the next announcer",
            unit="ms",
            change_if="a round trip of one link takes longer",
        ),
        *link_setups.OPTIONS,
    ],
    needs=Needs(links="fifo"),
    tolerates=tolerates,
    invariants=[
        queues_are_sound,
        streams_are_sound,
        only_what_is_lacking_is_asked_for,
        all_came_in_turn,
    ],
    at_rest=[nothing_is_owed, nothing_waits],
    reaches=reached_by,
    rare=["cptcast.grafted", "safe_links.waits_for_birth"],
    events=link_setups.EVENTS,
    ends=link_setups.ENDS,
    cost="no entries; hops, and a token of 10 bytes on links outside the tree",
)
