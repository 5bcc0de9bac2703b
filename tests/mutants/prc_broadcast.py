"""Planted bugs of `prc_broadcast`: of safe links, and of both ways to make links safe."""

from causalcast.core import MessageId, NodeId, Outbox, Publication
from causalcast.core.ids import number_of, origin_of
from causalcast.parts.safe_links.links import Link, SafeLinks
from causalcast.parts.safe_links.pieces import Piece, Pieces
from causalcast.parts.safe_links.safe_path_setup import (
    IDLE,
    WAITING,
    Adopt,
    Buffer,
    Control,
    Exchange,
    Hello,
    SafePathSetup,
)
from causalcast.parts.safe_links.vector_setup import CatchUp, VectorSetup
from causalcast.protocols.prc_broadcast import FloodTokens, Gossip, PrcBroadcast
from causalcast.swarm.mutant import Mutant, Patch

SAFE_PATH = {"link_setup": "safe_path"}
SMALL_LOG = {"log": 1}

_on_buffer = SafePathSetup._on_buffer
_on_counts = VectorSetup._on_counts


def safe_at_once(self: SafePathSetup, exchange: Exchange, hello: Hello, out: Outbox) -> None:
    self.owner.born = True
    exchange.forget_beginning()
    self.owner.make_in_safe(exchange.link, {}, out)
    self.owner.make_out_safe(exchange.link, out)


def forget_before_pi(self: SafePathSetup, exchange: Exchange, buffer: Buffer, out: Outbox) -> None:
    exchange.before_pi = None
    _on_buffer(self, exchange, buffer, out)


def take_buffer(
    self: SafePathSetup, exchange: Exchange, buffer: Buffer, out: Outbox, forget_since: bool
) -> None:
    """The same as the original, with one of its two uses of `since_pi` taken away."""
    before, since = exchange.before_pi or {}, exchange.since_pi
    if exchange.their_state != WAITING or since is None or exchange.link.safe_in:
        return
    exchange.their_state = IDLE
    exchange.before_pi = exchange.since_pi = None
    sent = {publication.id: None for publication in buffer.publications}
    owed = {message: count for message, count in since.items() if message not in sent}
    self.owner.make_in_safe(exchange.link, owed if forget_since else dict(since), out)
    for publication in buffer.publications:
        known = publication.id in before or (publication.id in since and not forget_since)
        if not known:
            self.owner.accept(publication, 0, exchange.link, out)


def forget_since_pi(self: SafePathSetup, exchange: Exchange, buffer: Buffer, out: Outbox) -> None:
    take_buffer(self, exchange, buffer, out, True)


def owe_all_since_pi(self: SafePathSetup, exchange: Exchange, buffer: Buffer, out: Outbox) -> None:
    take_buffer(self, exchange, buffer, out, False)


def safe_without_buffer(
    self: SafePathSetup, exchange: Exchange, buffer: Buffer, out: Outbox
) -> None:
    _on_buffer(self, exchange, Buffer(buffer.attempt, [], []), out)


def pi_before_beta(self: SafePathSetup, exchange: Exchange, control: Control, out: Outbox) -> None:
    """The target takes alpha for pi: it notes nothing that it delivers in between."""
    if not exchange.link.safe_in and control.attempt > exchange.their_attempt:
        exchange.their_attempt = control.attempt
        exchange.their_state = WAITING
        exchange.since_pi = {}
        self._answer(exchange, 2, control, out)
    elif exchange.their_state == WAITING:
        self._answer(exchange, 4, control, out)


def ask_everybody(self: SafePathSetup, out: Outbox) -> None:
    if not self.owner.born:
        for exchange in self.exchanges.values():
            if exchange.peer_born:
                self._send(exchange.link, Adopt(), out)


def spread_unborn(self: SafeLinks, publication: Publication, out: Outbox) -> None:
    self.accept(publication, 0, None, out)


def no_copy_for_the_sender(
    self: FloodTokens, publication: Publication, hops: int, source: Link | None, out: Outbox
) -> None:
    for link in self.safe.links.values():
        if link is source:
            continue
        if link.safe_in:
            link.owed[publication.id] = self.safe.delivered
        if link.safe_out:
            out.send(link.peer, Gossip(publication), link.name)


def owed_by_all(
    self: FloodTokens, publication: Publication, hops: int, source: Link | None, out: Outbox
) -> None:
    for link in self.safe.links.values():
        if link.safe_in:
            link.owed[publication.id] = self.safe.delivered
        if link.safe_out:
            out.send(link.peer, Gossip(publication), link.name)


def send_on_every_link(
    self: FloodTokens, publication: Publication, hops: int, source: Link | None, out: Outbox
) -> None:
    for link in self.safe.links.values():
        if link.safe_in and link is not source:
            link.owed[publication.id] = self.safe.delivered
        out.send(link.peer, Gossip(publication), link.name)


def deliver_on_every_link(self: PrcBroadcast, link: Link, gossip: Gossip, out: Outbox) -> None:
    if link.owed.pop(gossip.publication.id, -1) < 0:
        self.safe.accept(gossip.publication, 0, link, out)


def owed_nothing(self: VectorSetup, theirs: dict[NodeId, int]) -> dict[MessageId, int]:
    return {}


def take_all(self: VectorSetup, link: Link, catch_up: CatchUp, out: Outbox) -> None:
    if link.safe_in:
        return
    self.owner.make_in_safe(link, self._owed(catch_up.delivered), out)
    for publication in catch_up.publications:
        self.delivered[origin_of(publication.id)] = number_of(publication.id) - 1
        self.owner.accept(publication, 0, link, out)


def catch_up_with_a_gap(
    self: VectorSetup, link: Link, theirs: dict[NodeId, int], out: Outbox
) -> None:
    forgotten, self.forgotten = self.forgotten, {}
    _on_counts(self, link, theirs, out)
    self.forgotten = forgotten


def drop_piece(self: Pieces, link: Link, piece: Piece, out: Outbox) -> None:
    """It is not kept."""


MUTANTS = [
    Mutant(
        "safe_at_once",
        "a new link is not used before the exchange",
        [
            "no_duplication",
            "causal_order",
            "fifo_order",
            "agreement",
            "at_rest",
            "no_exception",
            "invariant",
        ],
        [Patch(SafePathSetup, "_on_hello", safe_at_once)],
        SAFE_PATH,
    ),
    Mutant(
        "before_pi_forgotten",
        "the target notes what it delivers between alpha and pi",
        ["no_duplication", "no_exception", "invariant"],
        [Patch(SafePathSetup, "_on_buffer", forget_before_pi)],
        SAFE_PATH,
    ),
    Mutant(
        "since_pi_forgotten",
        "the target knows what of the buffer it delivered since pi",
        ["no_duplication", "no_exception", "invariant"],
        [Patch(SafePathSetup, "_on_buffer", forget_since_pi)],
        SAFE_PATH,
    ),
    Mutant(
        "owed_all_since_pi",
        "what came with the buffer is not owed any more",
        ["at_rest"],
        [Patch(SafePathSetup, "_on_buffer", owe_all_since_pi)],
        SAFE_PATH,
    ),
    Mutant(
        "buffer_ignored",
        "the buffer has what was delivered during the exchange",
        ["agreement", "causal_order", "fifo_order", "at_rest"],
        [Patch(SafePathSetup, "_on_buffer", safe_without_buffer)],
        SAFE_PATH,
    ),
    Mutant(
        "alpha_taken_for_pi",
        "pi goes along the path after beta came back",
        ["no_duplication", "at_rest"],
        [Patch(SafePathSetup, "_at_target", pi_before_beta)],
        SAFE_PATH,
    ),
    Mutant(
        "adopted_by_many",
        "one link only is safe by adoption",
        [
            "no_duplication",
            "causal_order",
            "fifo_order",
            "agreement",
            "at_rest",
            "no_exception",
            "invariant",
        ],
        [Patch(SafePathSetup, "_ask_for_adoption", ask_everybody)],
        SAFE_PATH,
    ),
    Mutant(
        "unborn_spreads",
        "what a newcomer publishes waits for its birth",
        ["agreement", "causal_order", "fifo_order", "no_exception", "invariant"],
        [Patch(SafeLinks, "publish", spread_unborn)],
        SAFE_PATH,
    ),
    Mutant(
        "no_copy_back",
        "also the first sender gets a copy",
        ["at_rest"],
        [Patch(FloodTokens, "spread", no_copy_for_the_sender)],
    ),
    Mutant(
        "sender_owes_what_it_sent",
        "who sent a message first owes it no more",
        ["at_rest"],
        [Patch(FloodTokens, "spread", owed_by_all)],
    ),
    Mutant(
        "unsafe_links_used",
        "messages travel on safe directions only",
        ["no_duplication", "causal_order", "fifo_order", "no_exception", "invariant", "agreement"],
        [
            Patch(FloodTokens, "spread", send_on_every_link),
            Patch(PrcBroadcast, "_on_gossip", deliver_on_every_link),
        ],
    ),
    Mutant(
        "nothing_owed_after_counts",
        "what is here and not there will still come over the link",
        ["no_exception", "invariant", "no_duplication", "at_rest"],
        [Patch(VectorSetup, "_owed", owed_nothing)],
    ),
    Mutant(
        "caught_up_twice",
        "what came from others meanwhile is not taken again",
        ["no_duplication", "no_exception", "invariant", "at_rest"],
        [Patch(VectorSetup, "_on_catch_up", take_all)],
    ),
    Mutant(
        "gap_in_the_log_ignored",
        "a link whose log does not reach back is not used",
        ["no_exception", "invariant", "causal_order", "fifo_order", "agreement", "at_rest"],
        [Patch(VectorSetup, "_on_counts", catch_up_with_a_gap)],
        SMALL_LOG,
    ),
    Mutant(
        "pieces_dropped",
        "what a log sends ahead in pieces belongs to it",
        ["no_exception", "invariant", "causal_order", "fifo_order", "agreement", "at_rest"],
        [Patch(Pieces, "on_piece", drop_piece)],
    ),
]
