"""Members tell one another what they have delivered, and bring what somebody lacks.

A copy is sent once, by its origin, to everybody who is linked. Whoever lacks it later, because it
was away or the copy was lost, hears from others that they have it, and fetches it from one of them.
"""

from typing import Final, final

from causalcast.core.ids import NodeId
from causalcast.core.message import Message
from causalcast.core.outbox import Outbox
from causalcast.core.spec import Setup
from causalcast.limits import Limit
from causalcast.parts.vector_clock import VectorClock
from causalcast.protocols.viewed_broadcast.copies import Copies
from causalcast.protocols.viewed_broadcast.membership import Membership
from causalcast.protocols.viewed_broadcast.messages import (
    Fetch,
    More,
    Removal,
    Status,
)
from causalcast.protocols.viewed_broadcast.peers import Peers

ACKNOWLEDGE: Final = "acknowledge"
REPEAT: Final = "repeat"
TO_DELIVER: Final = "deliver"  # why copies are asked for
TO_PROPOSE: Final = "propose"
TO_ACCEPT: Final = "accept"
FETCH_BYTES: Final = Limit(
    "protocols.viewed_broadcast.exchange.fetch_bytes",
    1 << 18,
    least=1 << 12,
    most=1 << 26,
    unit="bytes",
    about="bodies that are sent for one question",
)
FETCH_COUNT: Final = Limit(
    "protocols.viewed_broadcast.exchange.fetch_count",
    256,
    least=16,  # one for each way there and back would take minutes on a slow link
    most=1 << 16,
    unit="messages",
    about="copies that are sent for one question",
)
RUNS_AT_ONCE: Final = Limit(
    "protocols.viewed_broadcast.exchange.runs_at_once",
    64,
    least=1,
    most=1 << 12,
    unit="runs",
    about="runs of copies that are asked for in one question",
)
VIEWS_AT_ONCE: Final = Limit(
    "protocols.viewed_broadcast.exchange.views_at_once",
    16,
    least=2,
    most=1 << 10,
    unit="views",
    about="views that are told to a node that lacks them, at once",
)
SLOWEST: Final = Limit(
    "protocols.viewed_broadcast.exchange.slowest",
    16,
    least=1,
    most=1 << 10,
    unit="times",
    about="so many times the first pause is the longest one, while nobody says anything new",
)


@final
class Question:
    """What a peer was asked for last."""

    __slots__ = ("at", "patience", "runs")

    def __init__(self, runs: list[int], at: int, patience: int) -> None:
        self.runs = runs
        self.at = at
        self.patience = patience  # before it is asked the same again


@final
class Exchange:
    """Says what is news and asks for what is missing, as long as something is."""

    def __init__(self, setup: Setup, membership: Membership, copies: Copies, peers: Peers) -> None:
        self._me = setup.me
        self._membership = membership
        self._copies = copies
        self._peers = peers
        self._acknowledge_after = setup.number("acknowledge_after")
        self._repeat_after = setup.number("repeat_after")
        self._acknowledges = False  # the timer runs
        self._repeats = False
        self._slowness = 1  # how much longer than at first the pauses are
        self._turn = 0  # whom to ask next
        self._asked: dict[str, dict[NodeId, Question]] = {
            purpose: {} for purpose in (TO_DELIVER, TO_PROPOSE, TO_ACCEPT)
        }
        self.heard = False  # something new since the last pause began
        self.asks_to_join = False  # this node is no member yet, and wants to be one

    # What is said

    def send(self, peer: NodeId, message: Message, out: Outbox) -> None:
        """To a peer that is linked; who is not hears of it when it is."""
        link = self._peers.links.get(peer)
        if link is not None:
            out.send(peer, message, link)

    def tell(self, peer: NodeId, asks: bool, out: Outbox, only_news: bool = False) -> None:
        """Say what this node has."""
        if peer not in self._peers.links:
            return
        membership, done = self._membership, self._copies.done
        sent = self._peers.sent[peer]
        counts: VectorClock = {}
        if membership.installed and not membership.is_expelled():
            counts = done
            if only_news:
                news = {node: n for node, n in done.items() if n > sent.get(node, 0)}
                news.pop(self._me, None)  # it has the copies
                counts = news
            self._peers.sent[peer] = dict(done)
        promised = max(membership.promised, default=0)
        self.send(
            peer,
            Status(
                membership.installed,
                membership.known(),
                promised,
                dict(counts),
                list(membership.adds),
                asks,
            ),
            out,
        )

    def tell_orders(self, peer: NodeId, out: Outbox) -> None:
        """Say who is to be removed; it goes with a status that says who is to be added."""
        for node in self._membership.removes:
            self.send(peer, Removal(node), out)

    def tell_views(self, peer: NodeId, beyond: int, out: Outbox) -> None:
        """Send views that a peer does not know."""
        views = self._membership.views
        numbers = [number for number in sorted(views) if number > beyond]
        if len(numbers) > VIEWS_AT_ONCE.value:
            # The next ones, and the newest: who is not in it need not reach the others.
            numbers = [*numbers[: VIEWS_AT_ONCE.value - 1], numbers[-1]]
        for number in numbers:
            self.send(peer, views[number], out)

    def audience(self) -> list[NodeId]:
        """Who is told what this node has: members, and everybody while it is none itself."""
        membership, links = self._membership, self._peers.links
        if not membership.is_member():
            return list(links)
        current = membership.views.get(membership.installed)
        wanted = dict.fromkeys(membership.others())
        if current is not None:
            wanted.update(dict.fromkeys(current.members))
        return [node for node in wanted if node in links]

    def acknowledge_soon(self, out: Outbox) -> None:
        """There is something to tell; what comes soon is told with it."""
        if not self._acknowledges:
            self._acknowledges = True
            out.start_timer(ACKNOWLEDGE, self._acknowledge_after)

    def acknowledge(self, out: Outbox) -> None:
        """The time for that has come."""
        self._acknowledges = False
        for peer in self.audience():
            self.tell(peer, False, out, only_news=True)

    # What is asked for

    def serve(self, peer: NodeId, fetch: Fetch, out: Outbox) -> None:
        """Send what a member asks for, a bounded part of it."""
        newest = self._membership.newest()
        if newest is None or peer not in newest.members or self._membership.is_expelled():
            return
        size = 0
        for count, copy in enumerate(self._copies.those_in(fetch.runs)):
            if count >= FETCH_COUNT.value or size >= FETCH_BYTES.value:
                self.send(peer, More(), out)
                return
            self.send(peer, copy, out)
            size += len(copy.publication.body)

    def fetch(self, peer: NodeId, runs: list[int], purpose: str, out: Outbox) -> None:
        """Ask for copies, a bounded number of runs."""
        wanted = runs[: 3 * RUNS_AT_ONCE.value]
        if self._is_news(peer, purpose, wanted, out.now):
            self.send(peer, Fetch(wanted), out)

    def _is_news(self, peer: NodeId, purpose: str, runs: list[int], now: int) -> bool:
        """Whether a question is not the one that this peer was asked before, or that was long ago.
        On a slow link answers are under way for long, and each one brings another question."""
        asked = self._asked[purpose].get(peer)
        if asked is None or asked.runs != runs:
            self._asked[purpose][peer] = Question(runs, now, self._repeat_after)
            return True
        if now - asked.at < asked.patience:
            return False
        asked.at = now
        asked.patience = min(2 * asked.patience, SLOWEST.value * self._repeat_after)
        return True

    def link_up(self, peer: NodeId) -> None:
        """What was asked for on an earlier link may have been lost with it."""
        for asked in self._asked.values():
            asked.pop(peer, None)

    def fetch_missing(self, peer: NodeId, out: Outbox) -> bool:
        """Ask a peer for what it has delivered and this node does not have; whether there is
        something."""
        if not self._membership.is_member():
            return False
        runs: list[int] = []
        for origin, count in self._peers.told.get(peer, {}).items():
            top = self._copies.top(origin)
            # What comes too far ahead is not kept: asked for, it would take the room of an answer
            # from what all of it waits for.
            last = min(count, self._copies.furthest(origin))
            if last > top and not self._membership.is_lost(origin, top + 1):
                runs += [origin, top + 1, last]
        if runs:
            self.fetch(peer, runs, TO_DELIVER, out)
        return bool(runs)

    # As long as something is missing somewhere

    def is_watching(self) -> bool:
        """Whether a pause is going on."""
        return self._repeats

    def watch(self, is_unsettled: bool, out: Outbox) -> None:
        """Look again after a pause."""
        if is_unsettled and not self._repeats:
            self._repeats = True
            self.heard = False
            out.start_timer(REPEAT, self._repeat_after * self._slowness)

    def hurry(self, out: Outbox) -> None:
        """Somebody is there that was not: pauses are short again."""
        self._slowness = 1
        if self._repeats:
            out.start_timer(REPEAT, self._repeat_after)

    def repeat(self, out: Outbox) -> None:
        """The pause is over: ask those who lack something or seem to, and fetch what is missing."""
        self._repeats = False
        self._slowness = 1 if self.heard else min(2 * self._slowness, SLOWEST.value)
        if out.world.congested and self.heard:
            return  # what was said is still on its way
        for peer in self.behind():
            self.tell(peer, True, out)
            self.tell_orders(peer, out)
        self._fetch_from_one(out)

    def behind(self) -> list[NodeId]:
        """Linked peers that lack something, or may, as far as is known here."""
        membership, peers = self._membership, self._peers
        newest = membership.newest()
        if newest is None:
            return list(peers.links)
        concerned = peers.linked([*newest.members, *newest.gone])
        unaware = [n for n in concerned if peers.known.get(n, 0) < newest.number]
        if not membership.is_member():
            # Expelled, it only tells who does not know it yet; a newcomer asks to be let in.
            return unaware if membership.is_expelled() else list(peers.links)
        members = peers.linked(membership.others())
        found = dict.fromkeys(unaware)
        if membership.wish() is not None:
            found.update(dict.fromkeys(members))
        for peer in members:
            if peers.installed.get(peer, 0) < newest.number or self._lacks_something(peer):
                found[peer] = None
        return list(found)

    def _lacks_something(self, peer: NodeId) -> bool:
        done = self._copies.done
        return any(
            self._peers.told_by(peer, origin)
            < min(self._copies.highest[origin], done.get(origin, 0))
            for origin in self._copies.log
        )

    def ahead(self) -> list[NodeId]:
        """Linked members that have delivered what is not here."""
        if not self._membership.is_member():
            return []
        return [
            peer
            for peer in self._peers.linked(self._membership.others())
            if any(
                count > self._copies.done.get(origin, 0)
                and count > self._copies.top(origin)
                and not self._membership.is_lost(origin, self._copies.top(origin) + 1)
                for origin, count in self._peers.told.get(peer, {}).items()
            )
        ]

    def _fetch_from_one(self, out: Outbox) -> None:
        """One after the other: a newcomer may not have what it counts as delivered."""
        ahead = self.ahead()
        if ahead:
            self._turn += 1
            self.fetch_missing(ahead[self._turn % len(ahead)], out)
