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
    pipeline   the sender: all are announced at once, a graft asks for everything up to it
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

from typing import Final, final

from mypy_extensions import mypyc_attr

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
    Wire,
)
from causalcast.parts.push_modes import ROOT, TREES, PushModes
from causalcast.parts.safe_links import link_setups
from causalcast.parts.safe_links.links import (
    Delivery,
    Link,
    SafeLinkMulticast,
    all_came_in_turn,
    nothing_is_owed,
    reached_by,
    send_in_order,
)
from causalcast.parts.safe_links.safe_path_setup import Control
from causalcast.protocols.cptcast import root_tree
from causalcast.protocols.cptcast.root_tree import BEACON, Beacon, RootTree

GRAFT: Final = "graft"
BEST: Final = "best"  # a tree that depends on the order


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


@final
class Waiting:
    """What waits at the sender: a message for its graft, or a control message for its turn."""

    def __init__(self, delivery: Delivery | None, control: Message | None, told: bool) -> None:
        self.delivery = delivery
        self.control = control
        self.told = told  # announced already


@final
class Stalled:
    """A token that came before something it must follow: announced, with payload, or done."""

    def __init__(self, message: MessageId, delivery: Delivery | None, control: Control | None):
        self.message = message
        self.delivery = delivery
        self.control = control
        self.done = False


class TreeLink(Link):
    """A link and its place in the tree."""

    def __init__(self, peer: NodeId, name: LinkId, modes: PushModes) -> None:
        super().__init__(peer, name)
        self.modes = modes
        self.announced: dict[MessageId, None] = {}  # by the peer, not grafted
        # Order kept by the sender
        self.queue: list[Waiting] = []
        # Order kept by the receiver
        self.kept: dict[MessageId, Delivery] = {}  # announced to the peer, may be grafted
        self.stalled: list[Stalled] = []  # the peer's tokens from the first that cannot be taken
        self.lacking: dict[MessageId, Stalled] = {}  # those of them that are not done
        self.late: dict[MessageId, None] = {}  # grafted, then delivered from elsewhere

    def burden(self) -> int:
        return len(self.owed) + len(self.queue) + len(self.kept) + len(self.stalled)

    def idle(self) -> bool:
        """Nothing is on its way or kept back."""
        waiting = self.queue or self.kept or self.stalled or self.lacking
        return not (waiting or self.announced or self.late)


@final
class Settings:
    """The options of the protocol."""

    def __init__(self, setup: Setup) -> None:
        self.order = setup.text("order")
        self.tree = setup.text("tree")
        if self.tree == BEST:
            self.tree = ROOT if self.order == "receiver" else "shared"
        self.most_origins = setup.number("most_origins")
        self.graft_after = setup.number("graft_after")
        self.graft_again = setup.number("graft_again")
        self.beacon_every = setup.number("beacon_every")


@mypyc_attr(allow_interpreted_subclasses=True)
class CptCast(SafeLinkMulticast):
    """What both orders share: who announced what, and whom we asked for it."""

    def __init__(self, me: NodeId, newcomer: bool, settings: Settings) -> None:
        super().__init__(me, newcomer)
        self.settings = settings
        self.missing: dict[MessageId, dict[LinkId, int]] = {}  # announcers not asked -> hops
        self.grafted: dict[MessageId, dict[LinkId, None]] = {}  # announcers asked
        self.timed: dict[MessageId, None] = {}

    def new_link(self, peer: NodeId, name: LinkId) -> Link:
        return TreeLink(peer, name, PushModes(self.settings.tree, self.settings.most_origins))

    # Announcements

    def note_announcement(self, link: TreeLink, message: MessageId, hops: int, out: Outbox) -> None:
        """Somebody has what we lack: wait for it, then ask."""
        self.missing.setdefault(message, {})[link.name] = hops
        link.announced[message] = None
        if message not in self.timed:
            self.start_waiting(message, self.settings.graft_after, out)

    def start_waiting(self, message: MessageId, after: int, out: Outbox) -> None:
        """Ask for `message` if it is not here by then."""
        self.timed[message] = None
        out.start_timer(GRAFT, after, message)

    def forget_announcements(self, message: MessageId, out: Outbox) -> dict[LinkId, int]:
        """The message is here; who announced it and was not asked comes back."""
        if message in self.timed:
            del self.timed[message]
            out.cancel_timer(GRAFT, message)
        announcers = self.missing.pop(message, {})
        for name in announcers:
            link = self.named[name]
            assert isinstance(link, TreeLink)
            link.announced.pop(message, None)
        return announcers

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        if name == GRAFT:
            self._ask_next(MessageId(subject), out)
        else:
            super().on_timer(name, subject, out)

    def _ask_next(self, message: MessageId, out: Outbox) -> None:
        self.timed.pop(message, None)
        if self.has_payload(message):
            self.start_waiting(message, self.settings.graft_again, out)
            return
        announcers = self.missing.get(message)
        if not announcers:
            return  # all are gone or were asked
        link = self.named[next(iter(announcers))]
        assert isinstance(link, TreeLink)
        self.graft(link, message, out)
        self.start_waiting(message, self.settings.graft_again, out)

    def has_payload(self, message: MessageId) -> bool:
        """Whether the payload is here and only waits for its turn."""
        return False

    def graft(self, link: TreeLink, message: MessageId, out: Outbox) -> None:
        """Ask an announcer for what it announced."""
        raise AssertionError("an order must know what a graft asks for")

    def mark_grafted(self, link: TreeLink, message: MessageId) -> None:
        """The announcer is asked, and no longer to be asked."""
        del link.announced[message]
        announcers = self.missing[message]
        del announcers[link.name]
        if not announcers:
            del self.missing[message]
        self.grafted.setdefault(message, {})[link.name] = None

    def unmark_grafted(self, link: TreeLink, message: MessageId) -> None:
        """The payload came from there."""
        asked = self.grafted.get(message)
        if asked is not None:
            asked.pop(link.name, None)
            if not asked:
                del self.grafted[message]

    def link_gone(self, link: Link, out: Outbox) -> None:
        assert isinstance(link, TreeLink)
        for message in link.announced:
            announcers = self.missing[message]
            del announcers[link.name]
            if not announcers:
                del self.missing[message]
        for message in [m for m, asked in self.grafted.items() if link.name in asked]:
            self.unmark_grafted(link, message)

    # What is common to the tokens of both orders

    def prune(self, link: TreeLink, message: MessageId, out: Outbox) -> None:
        """It came twice: neither end pushes messages like it on this link any more."""
        out.duplicate(message)
        if self.settings.tree == ROOT:
            return  # the next beacon will tell
        if link.safe_out:
            link.modes.make_lazy(message)
        out.send(link.peer, Prune(message), link.name)

    def on_announced_known(
        self, link: TreeLink, message: MessageId, count: int, out: Outbox
    ) -> None:
        """The peer announced what is here: see to it that it need not keep it for us."""
        if link.safe_out:
            self.peer_has(link, message, out)
        if not link.safe_out or count <= link.safe_since:
            out.note("cptcast.have", message)
            out.send(link.peer, Have(message), link.name)
        # else our own token for it was or will be sent on this link, and is evidence enough

    def on_skip(self, link: TreeLink, message: MessageId, out: Outbox) -> None:
        """The peer has it and will not send it."""
        link.owed.pop(message, None)
        if link.safe_out:
            self.peer_has(link, message, out)

    def state_size(self) -> int:
        kept = 0
        for link in self.links.values():
            assert isinstance(link, TreeLink)
            kept += len(link.queue) + len(link.kept) + len(link.stalled) + link.modes.size()
        return super().state_size() + kept + len(self.missing) + len(self.grafted)


@mypyc_attr(allow_interpreted_subclasses=True)
class SenderOrder(CptCast):
    """A payload that is kept back keeps back everything behind it on its link."""

    def __init__(self, me: NodeId, newcomer: bool, settings: Settings) -> None:
        super().__init__(me, newcomer, settings)
        self.announces_all = settings.order == "pipeline"

    # Sending

    def spread(self, publication: Publication, hops: int, source: Link | None, out: Outbox) -> None:
        message = publication.id
        announcers = self.forget_announcements(message, out)
        asked = self.grafted.pop(message, {})
        delivery = Delivery(publication, hops + 1)
        for link in self.links.values():
            assert isinstance(link, TreeLink)
            announced = link.name in announcers
            # An announcer has paid with its announcement; one that was asked still owes.
            if link.safe_in and link is not source and not announced:
                link.owed[message] = self.delivered
            if link.safe_out:
                if link is source or announced or link.name in asked:
                    send_in_order(link, Skip(message), out)
                else:
                    self._push(link, delivery, out)
            elif announced:  # a one-way link: nothing else tells the peer not to keep it
                out.note("cptcast.have_one_way", message)
                out.send(link.peer, Have(message), link.name)

    def _push(self, link: TreeLink, delivery: Delivery, out: Outbox) -> None:
        message = delivery.publication.id
        if not link.queue and link.modes.is_eager(message):
            send_in_order(link, Gossip(delivery.publication, delivery.hops), out)
            return
        told = not link.queue or self.announces_all
        link.queue.append(Waiting(delivery, None, told))
        if told:
            send_in_order(link, IHave(message, delivery.hops), out)

    def send_in_stream(self, link: Link, message: Message, out: Outbox) -> None:
        assert isinstance(link, TreeLink)
        if link.queue:
            out.note("cptcast.control_waits", link.peer)
            link.queue.append(Waiting(None, message, True))
        else:
            send_in_order(link, message, out)

    def _pump(self, link: TreeLink, out: Outbox) -> None:
        """Let go what heads the queue, up to the first that waits for a graft or evidence."""
        while link.queue:
            head = link.queue[0]
            if head.delivery is None:
                self._send_waiting(link, head, out)
            elif head.told:
                return  # even if the link has become eager: its one token was sent
            elif link.modes.is_eager(head.delivery.publication.id):
                self._send_waiting(link, head, out)
            else:
                head.told = True
                message = head.delivery.publication.id
                send_in_order(link, IHave(message, head.delivery.hops), out)
                return
            del link.queue[0]

    def _send_waiting(self, link: TreeLink, waiting: Waiting, out: Outbox) -> None:
        if waiting.delivery is None:
            assert waiting.control is not None
            send_in_order(link, waiting.control, out)
        else:
            delivery = waiting.delivery
            send_in_order(link, Gossip(delivery.publication, delivery.hops), out)

    def peer_has(self, link: Link, message: MessageId, out: Outbox) -> None:
        assert isinstance(link, TreeLink)
        place = self._place(link, message)
        if place < 0:
            return
        waiting = link.queue.pop(place)
        if not waiting.told:
            send_in_order(link, Skip(message), out)
        if place == 0:
            self._pump(link, out)

    def _place(self, link: TreeLink, message: MessageId) -> int:
        for place, waiting in enumerate(link.queue):
            if waiting.delivery is not None and waiting.delivery.publication.id == message:
                return place
        return -1

    # Receiving

    def on_token(self, link: Link, message: Message, out: Outbox) -> None:
        assert isinstance(link, TreeLink)
        if isinstance(message, Gossip):
            if link.safe_in:
                self._on_gossip(link, message, out)
        elif isinstance(message, IHave):
            if link.safe_in:
                self._on_i_have(link, message, out)
        elif isinstance(message, Skip):
            if link.safe_in:
                self.on_skip(link, message.message, out)
        elif isinstance(message, Have):
            if link.safe_out:
                self.peer_has(link, message.message, out)
        elif isinstance(message, Prune):
            if link.safe_out:
                link.modes.make_lazy(message.message)
        elif isinstance(message, Graft):
            if link.safe_out:
                self._on_graft(link, message.message, out)
        elif isinstance(message, Grafted):
            out.note("cptcast.grafted_unasked", link.peer)
        else:
            self.setup.on_message(link, message, out)

    def _on_gossip(self, link: TreeLink, gossip: Gossip, out: Outbox) -> None:
        message = gossip.publication.id
        if link.owed.pop(message, -1) >= 0:
            self.prune(link, message, out)
            if link.safe_out:
                self.peer_has(link, message, out)
            return
        self.unmark_grafted(link, message)
        self._make_eager(link, message, out)
        self.accept(gossip.publication, gossip.hops, link, out)

    def _make_eager(self, link: TreeLink, message: MessageId, out: Outbox) -> None:
        if link.safe_out and not link.modes.is_eager(message):
            link.modes.make_eager(message)
            self._pump(link, out)

    def _on_i_have(self, link: TreeLink, i_have: IHave, out: Outbox) -> None:
        message = i_have.message
        count = link.owed.pop(message, -1)
        if count >= 0:
            self.on_announced_known(link, message, count, out)
        else:
            self.note_announcement(link, message, i_have.hops, out)

    def graft(self, link: TreeLink, message: MessageId, out: Outbox) -> None:
        for earlier in list(link.announced):  # the peer will send all of them
            self.mark_grafted(link, earlier)
            if earlier == message:
                break
        self._make_eager(link, message, out)
        out.note("cptcast.grafted", message)
        out.send(link.peer, Graft(message), link.name)

    def _on_graft(self, link: TreeLink, message: MessageId, out: Outbox) -> None:
        link.modes.make_eager(message)
        place = self._place(link, message)
        if place < 0:
            return
        for waiting in link.queue[: place + 1]:
            self._send_waiting(link, waiting, out)
        del link.queue[: place + 1]
        self._pump(link, out)


@mypyc_attr(allow_interpreted_subclasses=True)
class ReceiverOrder(CptCast):
    """Tokens are never kept back; what comes before something it must follow stalls here."""

    def __init__(self, me: NodeId, newcomer: bool, settings: Settings) -> None:
        super().__init__(me, newcomer, settings)
        self._to_visit: list[TreeLink] = []
        self._visiting = False
        self.tree = RootTree(me, settings.beacon_every) if settings.tree == ROOT else None

    # Sending

    def spread(self, publication: Publication, hops: int, source: Link | None, out: Outbox) -> None:
        message = publication.id
        if self.tree is not None:
            self.tree.on_delivery(out)
        self.forget_announcements(message, out)
        asked = self.grafted.pop(message, {})
        for link in self.links.values():
            assert isinstance(link, TreeLink)
            peer_has = link is source
            if link.safe_in:
                stalled = link.lacking.pop(message, None)
                if stalled is not None:
                    peer_has = True
                    self._settle_stalled(link, stalled, link is source, link.name in asked, out)
                elif link is not source:
                    link.owed[message] = self.delivered
            if not link.safe_out:
                continue
            if peer_has:
                send_in_order(link, Skip(message), out)
            elif link.modes.is_eager(message):
                send_in_order(link, Gossip(publication, hops + 1), out)
            else:
                link.kept[message] = Delivery(publication, hops + 1)
                send_in_order(link, IHave(message, hops + 1), out)

    def _settle_stalled(
        self, link: TreeLink, stalled: Stalled, is_source: bool, asked: bool, out: Outbox
    ) -> None:
        """A message that stalled on this link is being delivered."""
        if stalled.delivery is not None:
            if not is_source:
                self.prune(link, stalled.message, out)
        else:
            if not link.safe_out:
                out.note("cptcast.have_one_way", stalled.message)
                out.send(link.peer, Have(stalled.message), link.name)
            if asked:
                link.late[stalled.message] = None
        stalled.done = True
        self._to_visit.append(link)

    def peer_has(self, link: Link, message: MessageId, out: Outbox) -> None:
        assert isinstance(link, TreeLink)
        link.kept.pop(message, None)

    # Receiving

    def on_token(self, link: Link, message: Message, out: Outbox) -> None:
        assert isinstance(link, TreeLink)
        self._take_token(link, message, out)
        self._visit_all(out)

    def _take_token(self, link: TreeLink, message: Message, out: Outbox) -> None:
        if isinstance(message, Gossip):
            if link.safe_in:
                self._on_gossip(link, message, out)
        elif isinstance(message, IHave):
            if link.safe_in:
                self._on_i_have(link, message, out)
        elif isinstance(message, Skip):
            if link.safe_in:
                self.on_skip(link, message.message, out)
        elif isinstance(message, Have):
            self.peer_has(link, message.message, out)
        elif isinstance(message, Prune):
            if link.safe_out:
                link.modes.make_lazy(message.message)
        elif isinstance(message, Graft):
            if link.safe_out:
                self._on_graft(link, message.message, out)
        elif isinstance(message, Grafted):
            self._on_grafted(link, message, out)
        elif isinstance(message, Beacon):
            self._on_beacon(link, message, out)
        elif isinstance(message, Control) and link.stalled:
            out.note("cptcast.control_waits", link.peer)
            link.stalled.append(Stalled(MessageId(-1), None, message))
        else:
            self.setup.on_message(link, message, out)

    def _on_gossip(self, link: TreeLink, gossip: Gossip, out: Outbox) -> None:
        message = gossip.publication.id
        if link.owed.pop(message, -1) >= 0:
            self.prune(link, message, out)
            self.peer_has(link, message, out)
        elif link.stalled:
            out.note("cptcast.stalled", message)
            self._stall(link, message, Delivery(gossip.publication, gossip.hops))
            self._visit_who_lacks(message)
        else:
            self._make_eager(link, message)
            self.accept(gossip.publication, gossip.hops, link, out)

    def _stall(self, link: TreeLink, message: MessageId, delivery: Delivery | None) -> None:
        stalled = Stalled(message, delivery, None)
        link.stalled.append(stalled)
        link.lacking[message] = stalled

    def _make_eager(self, link: TreeLink, message: MessageId) -> None:
        if link.safe_out:
            link.modes.make_eager(message)

    def _on_i_have(self, link: TreeLink, i_have: IHave, out: Outbox) -> None:
        message = i_have.message
        count = link.owed.pop(message, -1)
        if count >= 0:
            self.on_announced_known(link, message, count, out)
            return
        self._stall(link, message, None)
        self.note_announcement(link, message, i_have.hops, out)
        self._to_visit.append(link)  # the payload may be here already, on another link

    def graft(self, link: TreeLink, message: MessageId, out: Outbox) -> None:
        self.mark_grafted(link, message)
        self._make_eager(link, message)
        out.note("cptcast.grafted", message)
        out.send(link.peer, Graft(message), link.name)

    def _on_graft(self, link: TreeLink, message: MessageId, out: Outbox) -> None:
        link.modes.make_eager(message)
        kept = link.kept.pop(message, None)
        if kept is not None:
            out.send(link.peer, Grafted(kept.publication, kept.hops), link.name)

    def _on_grafted(self, link: TreeLink, grafted: Grafted, out: Outbox) -> None:
        message = grafted.publication.id
        stalled = link.lacking.get(message)
        if message in link.late:
            del link.late[message]
            self.prune(link, message, out)
        elif stalled is None or stalled.delivery is not None:
            out.note("cptcast.grafted_unasked", link.peer)
        else:
            stalled.delivery = Delivery(grafted.publication, grafted.hops)
            self.unmark_grafted(link, message)
            self._to_visit.append(link)
            self._visit_who_lacks(message)

    # The tree of a root

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        if name != BEACON:
            super().on_timer(name, subject, out)
        elif self.tree is not None and self.tree.is_due(out):
            self._pass_beacon_on(self.tree, None, out)

    def _on_beacon(self, link: TreeLink, beacon: Beacon, out: Outbox) -> None:
        tree = self.tree
        if tree is None or not link.safe_in:
            return
        if tree.is_new(beacon):
            link.modes.give(True)
            self._pass_beacon_on(tree, link, out)
        elif tree.is_current(beacon):
            link.modes.give(beacon.parent)

    def _pass_beacon_on(self, tree: RootTree, source: TreeLink | None, out: Outbox) -> None:
        for link in self.links.values():
            if link.safe_out:
                out.send(link.peer, Beacon(tree.root, tree.number, link is source), link.name)

    # Streams that may go on

    def _visit_who_lacks(self, message: MessageId) -> None:
        for link in self.links.values():
            assert isinstance(link, TreeLink)
            if link.stalled and link.stalled[0].message == message:
                self._to_visit.append(link)

    def _visit_all(self, out: Outbox) -> None:
        if self._visiting:
            return
        self._visiting = True
        while self._to_visit:
            link = self._to_visit.pop(0)
            if self.named.get(link.name) is link:
                self._visit(link, out)
        self._visiting = False

    def _visit(self, link: TreeLink, out: Outbox) -> None:
        """Take what heads the stream, as long as it can be taken."""
        while link.stalled:
            head = link.stalled[0]
            if head.control is not None:
                del link.stalled[0]
                self.setup.on_message(link, head.control, out)
            elif head.done:
                del link.stalled[0]
            else:
                holder = self._holder(link, head.message)
                if holder is None:
                    return
                delivery = holder.lacking[head.message].delivery
                assert delivery is not None
                self._make_eager(holder, head.message)
                if not self.accept(delivery.publication, delivery.hops, holder, out):
                    self._drop_lie(link, head.message)

    def _drop_lie(self, link: TreeLink, message: MessageId) -> None:
        """What can never be taken stalls nobody, and is not asked for."""
        del link.stalled[0]
        link.lacking.pop(message, None)
        if message in link.announced:
            self.mark_grafted(link, message)
        self.unmark_grafted(link, message)

    def _holder(self, first: TreeLink, message: MessageId) -> TreeLink | None:
        """A link on which the payload of a stalled message is here."""
        for link in [first, *self.links.values()]:
            assert isinstance(link, TreeLink)
            stalled = link.lacking.get(message)
            if stalled is not None and stalled.delivery is not None:
                return link
        return None

    def has_payload(self, message: MessageId) -> bool:
        for link in self.links.values():
            assert isinstance(link, TreeLink)
            stalled = link.lacking.get(message)
            if stalled is not None and stalled.delivery is not None:
                return True
        return False

    def link_gone(self, link: Link, out: Outbox) -> None:
        super().link_gone(link, out)
        for message in self.missing:
            if message not in self.timed:
                self.start_waiting(message, self.settings.graft_again, out)


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
    """A control message never heads a queue; in order `queue` only the head is announced."""
    assert isinstance(multicast, CptCast)
    for link in multicast.links.values():
        assert isinstance(link, TreeLink)
        if link.queue and (link.queue[0].delivery is None or not link.queue[0].told):
            return False
        told = [waiting for waiting in link.queue[1:] if waiting.delivery and waiting.told]
        if told and multicast.settings.order == "queue":
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
        *(Gossip, IHave, Skip, Have, Prune, Graft, Grafted),
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
            choices=["queue", "pipeline", "receiver"],
        ),
        # Measured with one sender, ten and many, on overlays at rest and changing.
        Option(
            "tree",
            BEST,
            "one tree for all origins, one for each, one for each from its second message on, or "
            "one that the beacons of a root shape; best: root where receivers keep the order, "
            "else shared",
            choices=[BEST, *TREES, ROOT],
        ),
        # Often enough to follow a changing overlay; a beacon is 5 small messages per node.
        Option("beacon_every", 1000 * MILLISECOND, "tree root: how often it is shaped", unit="ms"),
        Option("most_origins", 1024, "trees remembered per link", least=1),
        # Must exceed the depth of the tree, or a settled tree is torn up again: 400 ms for ten
        # thousand nodes and hops of 5 to 50 ms.
        Option("graft_after", 400 * MILLISECOND, "wait for an announced message", unit="ms"),
        # At least a round trip of one link.
        Option("graft_again", 150 * MILLISECOND, "then ask the next announcer", unit="ms"),
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
