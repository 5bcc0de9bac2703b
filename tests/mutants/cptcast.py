"""Planted bugs of `cptcast`: of the token rule, of queues at the sender, of streams at the
receiver. Those of safe links are planted in `prc_broadcast`."""

from causalcast.core import Message, MessageId, Outbox, Publication
from causalcast.parts.safe_links.links import Delivery, Link
from causalcast.parts.safe_links.safe_path_setup import Control
from causalcast.protocols.cptcast.announcements import (
    Announcements,
    Stalled,
    TreeLink,
    Waiting,
    prune,
)
from causalcast.protocols.cptcast.messages import Gossip, Grafted, IHave, Skip
from causalcast.protocols.cptcast.receiver_order import ReceiverOrder
from causalcast.protocols.cptcast.sender_order import SenderOrder
from causalcast.swarm.mutant import Mutant, Patch

QUEUE = {"order": "queue"}
PATH_QUEUE = {"order": "queue", "link_setup": "safe_path"}
PATH_RECEIVER = {"order": "receiver", "tree": "shared", "link_setup": "safe_path"}
SHARED = {"tree": "shared"}  # more payloads are announced than in the tree of a root

_spread = SenderOrder.spread
_take_token = ReceiverOrder._take_token
_note = Announcements.note


def remove_the_head(self: SenderOrder, link: TreeLink, message: MessageId, out: Outbox) -> None:
    place = self._place(link, message)
    if place < 0:
        return
    waiting = link.queue.pop(0)
    if not waiting.told:
        out.send(link.peer, Skip(message), link.name)
    self._pump(link, out)


def spread_forgetting_grafts(
    self: SenderOrder, publication: Publication, hops: int, source: Link | None, out: Outbox
) -> None:
    """Whoever was asked is taken not to owe the payload any more."""
    asked = dict(self.announcements.grafted.get(publication.id, {}))
    _spread(self, publication, hops, source, out)
    for name in asked:
        self.safe.named[name].owed.pop(publication.id, None)


def spread_owed_by_announcers(
    self: SenderOrder, publication: Publication, hops: int, source: Link | None, out: Outbox
) -> None:
    announcers = dict(self.announcements.missing.get(publication.id, {}))
    _spread(self, publication, hops, source, out)
    for name in announcers:
        self.safe.named[name].owed[publication.id] = self.safe.delivered


def control_overtakes(self: SenderOrder, link: Link, message: Message, out: Outbox) -> None:
    out.send(link.peer, message, link.name)


def flush_announced(self: SenderOrder, link: TreeLink, message: MessageId, out: Outbox) -> None:
    """The link is eager again: the announced head goes out too, as a second token."""
    if link.safe_out and not link.modes.is_eager(message):
        link.modes.make_eager(message)
        while link.queue:
            self._send_waiting(link, link.queue.pop(0), out)


def eager_overtakes(self: SenderOrder, link: TreeLink, delivery: Delivery, out: Outbox) -> None:
    message = delivery.publication.id
    if link.modes.is_eager(message):
        out.send(link.peer, Gossip(delivery.publication, delivery.hops), link.name)
        return
    told = not link.queue
    link.queue.append(Waiting(delivery, None, told))
    if told:
        out.send(link.peer, IHave(message, delivery.hops), link.name)


def first_announcer_only(
    self: Announcements, link: TreeLink, message: MessageId, hops: int, out: Outbox
) -> None:
    if message not in self.timed:
        _note(self, link, message, hops, out)


def never_ask(self: ReceiverOrder, message: MessageId, out: Outbox) -> None:
    self.announcements.timed.pop(message, None)


def no_skip(self: ReceiverOrder, link: TreeLink, message: MessageId, out: Outbox) -> None:
    if link.safe_out:
        self.peer_has(link, message, out)


def take_at_once(self: ReceiverOrder, link: TreeLink, gossip: Gossip, out: Outbox) -> None:
    """A payload is delivered although something announced before it has not come."""
    if link.owed.pop(gossip.publication.id, -1) >= 0:
        prune(link, gossip.publication.id, self.settings, out)
        self.peer_has(link, gossip.publication.id, out)
    else:
        self.safe.accept(gossip.publication, gossip.hops, link, out)


def deliver_grafted(self: ReceiverOrder, link: TreeLink, grafted: Grafted, out: Outbox) -> None:
    """A grafted payload is delivered at once, whatever stalls before it."""
    message = grafted.publication.id
    stalled = link.lacking.get(message)
    if message in link.late:
        del link.late[message]
    elif stalled is not None:
        stalled.delivery = Delivery(grafted.publication, grafted.hops)
        self.announcements.unmark_grafted(link, message)
        self.safe.accept(grafted.publication, grafted.hops, link, out)


def forget_late(self: ReceiverOrder, link: TreeLink, grafted: Grafted, out: Outbox) -> None:
    stalled = link.lacking.get(grafted.publication.id)
    if stalled is None:
        self.safe.accept(grafted.publication, grafted.hops, link, out)
    else:
        stalled.delivery = Delivery(grafted.publication, grafted.hops)
        self.announcements.unmark_grafted(link, grafted.publication.id)
        self._to_visit.append(link)


def control_does_not_stall(
    self: ReceiverOrder, link: TreeLink, message: Message, out: Outbox
) -> None:
    if isinstance(message, Control):
        self.safe.setup.on_message(link, message, out)
    else:
        _take_token(self, link, message, out)


def announcer_has_not(
    self: ReceiverOrder,
    link: TreeLink,
    stalled: Stalled,
    is_source: bool,
    asked: bool,
    out: Outbox,
) -> None:
    """The stream of a link is not visited again when what it waited for came another way."""
    if stalled.delivery is None and asked:
        link.late[stalled.message] = None
    stalled.done = True


def keep_when_asked(self: ReceiverOrder, link: TreeLink, message: MessageId, out: Outbox) -> None:
    """A graft makes the link eager and gets no answer."""
    link.modes.make_eager(message)


MUTANTS = [
    Mutant(
        "wrong_removal",
        "evidence removes the message it is about",
        ["agreement", "at_rest", "no_duplication", "no_exception", "invariant", "causal_order"],
        [Patch(SenderOrder, "peer_has", remove_the_head)],
        QUEUE,
    ),
    Mutant(
        "grafted_not_owed",
        "an announcer that was asked still owes the payload",
        ["no_duplication", "no_exception", "invariant"],
        [Patch(SenderOrder, "spread", spread_forgetting_grafts)],
        QUEUE,
    ),
    Mutant(
        "announcers_owe",
        "an announcement was the announcer's token",
        ["at_rest"],
        [Patch(SenderOrder, "spread", spread_owed_by_announcers)],
        QUEUE,
    ),
    Mutant(
        "control_overtakes",
        "control messages wait behind held payloads",
        ["no_duplication", "at_rest", "causal_order", "fifo_order", "agreement"],
        [Patch(SenderOrder, "send_in_stream", control_overtakes)],
        PATH_QUEUE,
    ),
    Mutant(
        "announced_flushed",
        "what was announced waits for its graft even if the link is eager again",
        ["no_duplication", "no_exception", "invariant", "at_rest"],
        [Patch(SenderOrder, "_make_eager", flush_announced)],
        QUEUE,
    ),
    Mutant(
        "eager_overtakes",
        "a payload waits behind what is held back on its link",
        ["causal_order", "fifo_order", "no_exception", "invariant", "at_rest", "no_duplication"],
        [Patch(SenderOrder, "_push", eager_overtakes)],
        QUEUE,
    ),
    Mutant(
        "first_announcer_only",
        "every announcer is remembered",
        ["agreement", "at_rest", "no_exception", "invariant", "no_duplication"],
        [Patch(Announcements, "note", first_announcer_only)],
        QUEUE,
    ),
    Mutant(
        "never_grafted",
        "what is announced and does not come is asked for",
        ["agreement", "at_rest"],
        [Patch(ReceiverOrder, "ask_next", never_ask)],
        SHARED,
    ),
    Mutant(
        "skip_ignored",
        "a skip is the token of a message that comes from elsewhere",
        ["at_rest"],
        [Patch(ReceiverOrder, "_on_skip", no_skip)],
        SHARED,
    ),
    Mutant(
        "stall_ignored",
        "a payload waits for what its link announced before",
        ["causal_order", "fifo_order", "no_exception", "invariant"],
        [Patch(ReceiverOrder, "_on_gossip", take_at_once)],
        SHARED,
    ),
    Mutant(
        "grafted_out_of_order",
        "a grafted payload takes the place of its announcement",
        ["causal_order", "fifo_order", "no_exception", "invariant"],
        [Patch(ReceiverOrder, "_on_grafted", deliver_grafted)],
        SHARED,
    ),
    Mutant(
        "late_payload_taken",
        "a payload that was asked for and came from elsewhere is not new",
        ["no_duplication", "no_exception", "invariant"],
        [Patch(ReceiverOrder, "_on_grafted", forget_late)],
        SHARED,
    ),
    Mutant(
        "control_not_stalled",
        "control messages keep their place in a stalled stream",
        [
            "no_duplication",
            "at_rest",
            "causal_order",
            "fifo_order",
            "agreement",
            "no_exception",
            "invariant",
        ],
        [Patch(ReceiverOrder, "_take_token", control_does_not_stall)],
        PATH_RECEIVER,
    ),
    Mutant(
        "stream_not_visited_again",
        "a stream goes on when what it waited for came another way",
        ["agreement", "at_rest", "invariant"],
        [Patch(ReceiverOrder, "_settle_stalled", announcer_has_not)],
        SHARED,
    ),
    Mutant(
        "graft_not_answered",
        "a graft brings the payload",
        ["agreement", "at_rest"],
        [Patch(ReceiverOrder, "_on_graft", keep_when_asked)],
        SHARED,
    ),
]
