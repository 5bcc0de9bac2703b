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
    Misfit,
    Multicast,
    Needs,
    NodeId,
    Option,
    ProtocolSpec,
    Setup,
)
from causalcast.parts.push_modes import ROOT, TREES
from causalcast.parts.safe_links import link_setups
from causalcast.parts.safe_links.links import all_came_in_turn, nothing_is_owed, reached_by
from causalcast.protocols.cptcast import messages, root_tree
from causalcast.protocols.cptcast.announcements import BEST, CptCast, Settings, TreeLink
from causalcast.protocols.cptcast.receiver_order import ReceiverOrder
from causalcast.protocols.cptcast.sender_order import SenderOrder


def build(setup: Setup) -> CptCast:
    settings = Settings(setup)
    if settings.tree != "shared" and settings.order != "receiver":
        raise Misfit(f"tree = {settings.tree!r} needs order = 'receiver'")
    protocol: CptCast
    if settings.order == "receiver":
        protocol = ReceiverOrder(setup.me, setup.newcomer, settings)
    else:
        protocol = SenderOrder(setup.me, setup.newcomer, settings)
    link_setups.equip(protocol, setup)
    return protocol


def tolerates(down: list[NodeId], setup: Setup) -> bool:
    return True  # agreement is promised per connected component of safe links


def nothing_waits(multicast: Multicast) -> bool:
    """At rest queues, streams, announcements and grafts are done with."""
    assert isinstance(multicast, CptCast)
    links = [link for link in multicast.links.values() if isinstance(link, TreeLink)]
    idle = all(link.idle() for link in links)
    return idle and not multicast.missing and not multicast.grafted


def queues_are_sound(multicast: Multicast) -> bool:
    """A control message never heads a queue, and only the head is announced."""
    assert isinstance(multicast, CptCast)
    for link in multicast.links.values():
        assert isinstance(link, TreeLink)
        if link.queue and (link.queue[0].delivery is None or not link.queue[0].told):
            return False
        if any(waiting.delivery and waiting.told for waiting in link.queue[1:]):
            return False
    return True


def streams_are_sound(multicast: Multicast) -> bool:
    """What heads a stalled stream can really not be taken, and only announced messages are asked
    for."""
    assert isinstance(multicast, CptCast)
    for link in multicast.links.values():
        assert isinstance(link, TreeLink)
        if link.stalled and (link.stalled[0].done or link.stalled[0].delivery is not None):
            return False
    return all(
        name in multicast.named for announcers in multicast.missing.values() for name in announcers
    )


def only_what_is_lacking_is_asked_for(multicast: Multicast) -> bool:
    """What is announced and waited for, or was grafted, has not been delivered here."""
    assert isinstance(multicast, CptCast)
    wanted = [*multicast.missing, *multicast.grafted, *multicast.timed]
    return not any(multicast.setup.was_delivered(message) for message in wanted)


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
    cost="no entries; hops, and a token of 10 bytes on links outside the tree",
)
