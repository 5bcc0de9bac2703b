"""HyParView: a small symmetric active view, kept by reacting to losses, and a larger passive view.

The active view are the neighbours: each is one link that both ends know. The passive view are
nodes to ask when a neighbour is lost; shuffles along random walks keep it fresh. A newcomer joins
through a contact, which lets the newcomer's name walk through the overlay until it has found it
further neighbours.

Source: J. Leitão, J. Pereira, L. Rodrigues, "HyParView", 2007, as used in the CPTCast thesis
(section 4.2.1): views of log10(n) + 1 and six times as many.

Where we differ from the paper, and rules it leaves open:

- The answer to a shuffle walks back the way the shuffle came instead of over a connection of its
  own: a link to a stranger, opened for one message, would be a neighbour's link to every other
  layer.
- A dial carries no message here. Whoever dialled speaks first, so a link that the other end
  dialled is a request on its way: it is never asked over. Of two dials that cross, the world keeps
  the smaller dialler's.
- Whoever asks changes its view when the answer comes, and declines a late yes.
- After a no, the next try waits for a timer, longer each time: underfull nodes among full ones
  would otherwise ask for ever.
- Whoever was refused for half a minute asks with high priority: a few nodes that have only one
  another are refused by full views for ever. The gap moves to somebody else, until two gaps meet.
- An isolated node asks with high priority: passive entries first, then whom it lost, then contacts.
- The link through which a newcomer joined is spared by evictions until the multicast has settled,
  for a while. Whoever has nothing but such links turns newcomers to its neighbours: with evictions,
  a hundred nodes that joined at once were left in several parts.
- A newcomer asks contacts until it is taken in, whomever it has taken in itself meanwhile; one
  after a pause, for a contact may be dead, and a few nodes may turn it to one another in a circle.
- The answer to a join names neighbours of the contact: a newcomer whose contact dies at once is
  not alone.
- Two halves of a partition have full views and no reason to look for each other. So a node
  remembers neighbours that it lost without a farewell and, more and more seldom, dials one of
  them. Who answers becomes a neighbour again, and the memory is cleared. Without losses it costs
  nothing.
- A few nodes that were all evicted elsewhere can end with one another as their only neighbours.
  Where the multicast notices (`out.orphan`), a contact is asked with high priority.
- Joins alone can leave an overlay in parts whose views are full of one another; so can leaves. So
  shuffles carry the smallest id in the part, which all of a part agree on after a while: a name for
  the part. It has an age, and a name that nobody renews is given up. From time to time a node looks
  at one that it knew early (a contact, a name from the time when it joined) and compares: where the
  names of parts differ twice, it asks to be a neighbour with high priority. The node that the part
  is named after looks again and again, all others more and more seldom.
"""

import random
from typing import Final, final

from causalcast.core import (
    ANY_LINK,
    MILLISECOND,
    SECOND,
    LinkId,
    Message,
    NodeId,
    Option,
    Outbox,
    Overlay,
    OverlaySpec,
    Setup,
    Wire,
)
from causalcast.limits import Limit

SHUFFLE: Final = "shuffle"
FILL: Final = "fill"
PROBE: Final = "probe"
LOOK: Final = "look"
TO_JOIN: Final = 0  # what we asked a peer for
HIGH: Final = 1
LOW: Final = 2
TO_LOOK: Final = 3
LONGEST_RETRY: Final = Limit(
    "overlays.hyparview.longest_retry",
    32,
    least=2,
    most=1024,
    unit="times",
    about="the shortest pause between attempts to fill the active view",
)
LONGEST_PROBE: Final = Limit(
    "overlays.hyparview.longest_probe",
    16,
    least=1,
    most=1024,
    unit="times",
    about="the shortest pause between probes of lost neighbours",
)
LONGEST_LOOK: Final = Limit(
    "overlays.hyparview.longest_look",
    16,
    least=1,
    most=1024,
    unit="times",
    about="the shortest pause between looks for another part",
)
# Shuffles after which a name of the part that nobody renewed is given up. With 1,000 nodes a
# renewal is everywhere after three or four, with 10,000 after five.
STALE_AFTER: Final = Limit(
    "overlays.hyparview.stale_after",
    24,
    least=8,
    most=1024,
    unit="shuffles",
    about="shuffles after which a name of the part that nobody renewed is given up",
)
SETTLES_AFTER: Final = Limit(
    "overlays.hyparview.settles_after",
    6,
    least=1,
    most=64,
    unit="shuffles",
    about="shuffles after which a new name of the part is everywhere",
)
EARLY_NAMES: Final = Limit(
    "overlays.hyparview.early_names",
    16,
    least=1,
    most=1024,
    unit="nodes",
    about="nodes that are remembered to look at",
)


class Join(Message):
    """Ask a contact to take us in: it answers `Welcome` and lets others know of us."""

    wire = Wire("hyparview.join")


class Welcome(Message):
    """The contact took us in; `nodes` are others to turn to."""

    wire = Wire("hyparview.welcome", nodes=list[NodeId])

    def __init__(self, nodes: list[NodeId]) -> None:
        self.nodes = nodes


class TurnTo(Message):
    """No room for a newcomer without cutting off another one: try these."""

    wire = Wire("hyparview.turn_to", nodes=list[NodeId])

    def __init__(self, nodes: list[NodeId]) -> None:
        self.nodes = nodes


class AskNeighbour(Message):
    """Ask to become a neighbour; `high` drops somebody else if need be, but no newcomer."""

    wire = Wire("hyparview.ask_neighbour", high=bool)

    def __init__(self, high: bool) -> None:
        self.high = high


class Yes(Message):
    """We are neighbours from now on."""

    wire = Wire("hyparview.yes")


class No(Message):
    """Not now: the view is full."""

    wire = Wire("hyparview.no")


class Disconnect(Message):
    """We are no neighbours any more; `alive` if the sender may be asked again later."""

    wire = Wire("hyparview.disconnect", alive=bool)

    def __init__(self, alive: bool) -> None:
        self.alive = alive


class ForwardJoin(Message):
    """A newcomer's name on its walk: whoever it ends at asks the newcomer to be a neighbour."""

    wire = Wire("hyparview.forward_join", newcomer=NodeId, hops_left=int)

    def __init__(self, newcomer: NodeId, hops_left: int) -> None:
        self.newcomer = newcomer
        self.hops_left = hops_left


class Shuffle(Message):
    """Names on a walk: whoever it ends at keeps them and sends as many back along `path`."""

    wire = Wire(
        "hyparview.shuffle",
        nodes=list[NodeId],
        hops_left=int,
        path=list[NodeId],
        part=NodeId,
        age=int,
    )

    def __init__(
        self, nodes: list[NodeId], hops_left: int, path: list[NodeId], part: NodeId, age: int
    ) -> None:
        self.nodes = nodes
        self.hops_left = hops_left
        self.path = path
        self.part = part  # the smallest id in the sender's part, as far as it knows
        self.age = age  # how long ago that node said so, in microseconds


class ShuffleReply(Message):
    """Names for whoever started a shuffle, on their way back along `path`."""

    wire = Wire(
        "hyparview.shuffle_reply", nodes=list[NodeId], path=list[NodeId], part=NodeId, age=int
    )

    def __init__(self, nodes: list[NodeId], path: list[NodeId], part: NodeId, age: int) -> None:
        self.nodes = nodes
        self.path = path
        self.part = part
        self.age = age


class Look(Message):
    """Ask one that is no neighbour which part it is in; it answers `Part`."""

    wire = Wire("hyparview.look")


class Part(Message):
    """The smallest id in our part, as far as we know."""

    wire = Wire("hyparview.part", part=NodeId)

    def __init__(self, part: NodeId) -> None:
        self.part = part


class Settled(Message):
    """The newcomer can do without this link: it may be evicted like any other."""

    wire = Wire("hyparview.settled")


@final
class Settings:
    """The options of the overlay."""

    def __init__(self, setup: Setup) -> None:
        self.active = setup.number("active_view")
        self.passive = setup.number("passive_view") or 6 * self.active
        self.active_walk = setup.number("active_walk")
        self.passive_walk = setup.number("passive_walk")
        self.shuffle_every = setup.number("shuffle_every")
        self.retry_after = setup.number("retry_after")
        self.probe_every = setup.number("probe_every")
        self.probe_for = setup.number("probe_for")
        self.spare_for = setup.number("spare_for")
        self.look_every = setup.number("look_every")


class HyParView(Overlay):
    """Both views, requests that are out, and neighbours that were lost.

    Large because the two views, and all that is done to them, are one state machine, in the paper
    too.
    """

    def __init__(self, me: NodeId, rng: random.Random, settings: Settings) -> None:
        self.me = me
        self.rng = rng
        self.settings = settings
        self.active: dict[NodeId, LinkId] = {}
        self.passive: dict[NodeId, None] = {}
        self.links: dict[NodeId, LinkId] = {}  # all that are up, also of those not in the view
        self.asked: dict[NodeId, int] = {}  # whom we dialled or asked -> what for
        self.contacts: dict[NodeId, None] = {}
        self.lost: dict[NodeId, int] = {}  # neighbours lost without a farewell -> forgotten when
        self.spared: dict[NodeId, int] = {}  # links of newcomers -> spared by evictions until
        self.joined = False
        self.left = False
        self._given_up = ANY_LINK  # the link we closed before we heard of its loss
        self._fill_armed = False
        self._shuffles = False
        self._retry_factor = 1
        self._probe_factor = 1
        self._turns = 0  # by contacts that had no room, since the last pause
        self.early: dict[NodeId, None] = {}  # names from the time when we joined
        self.part = me  # the smallest id in our part, as far as we know
        self._part_at = 0  # when that node said so
        self._part_since = 0  # when we heard of it first
        self._look_factor = 1
        self._apart: dict[NodeId, None] = {}  # whom the last look showed in another part

    # Life

    def on_start(self, out: Outbox) -> None:
        self._start_shuffling(out)

    def on_recover(self, records: list[Message], out: Outbox) -> None:
        for record in records:
            if isinstance(record, Welcome):
                self.contacts.update(dict.fromkeys(record.nodes))
        self.joined = bool(self.contacts)
        self._start_shuffling(out)
        self._fill(out)

    def on_join(self, contact: NodeId, out: Outbox) -> None:
        if contact == self.me:
            return
        self.left = False
        self.contacts[contact] = None
        out.persist(Welcome([contact]))
        self._start_shuffling(out)
        self._ask(contact, TO_JOIN, out)

    def on_leave(self, out: Outbox) -> None:
        self.left = True
        for peer in list(self.active):
            self._disconnect(peer, False, out)
        for peer in list(self.links):
            out.close_link(peer)
        for name in (SHUFFLE, FILL, PROBE, LOOK):
            out.cancel_timer(name)
        self._shuffles = self._fill_armed = False
        self.asked = {}
        self.lost = {}

    # Links

    def on_link_up(self, peer: NodeId, link: LinkId, dialled: bool, out: Outbox) -> None:
        if peer in self.active:  # its end of the old link is dead
            self._remove(peer, out)
        self.links[peer] = link
        if not dialled:
            self.asked.pop(peer, None)  # our dial crossed theirs and lost; their request comes
        elif self.left:
            out.close_link(peer)
        elif peer in self.asked:
            self._request(peer, link, self.asked[peer], out)

    def _request(self, peer: NodeId, link: LinkId, kind: int, out: Outbox) -> None:
        if kind == TO_JOIN:
            out.send(peer, Join(), link)
        elif kind == TO_LOOK:
            out.send(peer, Look(), link)
        else:
            out.send(peer, AskNeighbour(kind == HIGH or not self.active), link)

    def on_link_lost(self, peer: NodeId, link: LinkId, reason: str, out: Outbox) -> None:
        if link == self._given_up:
            return
        known = self.links.get(peer)
        if known is None:
            if peer in self.asked:
                self._could_not_dial(peer, out)
            return
        if known != link:
            return
        del self.links[peer]
        if peer in self.active:
            self._remove(peer, out)
            self._mourn(peer, out)
            self._fill(out)
        elif peer in self.asked:
            del self.asked[peer]
            self._arm_fill(out)

    def on_suspect(self, peer: NodeId, out: Outbox) -> None:
        if peer in self.active:
            self._given_up = self.active[peer]
            self._remove(peer, out)
            self._close(peer, out)
            self._mourn(peer, out)
            self._fill(out)

    def _could_not_dial(self, peer: NodeId, out: Outbox) -> None:
        del self.asked[peer]
        self.passive.pop(peer, None)
        self._apart.pop(peer, None)
        if self.active or self.passive:
            self._fill(out)
        else:
            self._arm_fill(out)

    # Messages

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> None:
        link = self.links.get(sender)
        if link is None or self.left:
            return
        if isinstance(message, Shuffle):
            self._on_shuffle(sender, message, out)
        elif isinstance(message, ShuffleReply):
            self._on_shuffle_reply(sender, message, out)
        elif isinstance(message, ForwardJoin):
            self._on_forward_join(sender, message, out)
        elif isinstance(message, AskNeighbour):
            self._on_ask(sender, link, message.high, out)
        elif isinstance(message, Join):
            self._on_join_request(sender, link, out)
        elif isinstance(message, Welcome):
            self._on_welcome(sender, link, message.nodes, out)
        elif isinstance(message, TurnTo):
            self._on_turn_to(sender, message.nodes, out)
        elif isinstance(message, Yes):
            self._on_yes(sender, link, out)
        elif isinstance(message, No):
            self._on_no(sender, out)
        elif isinstance(message, Disconnect):
            self._on_disconnect(sender, message.alive, out)
        elif isinstance(message, Look):
            self._renew_part(out.now)
            out.send(sender, Part(self.part), link)
        elif isinstance(message, Part):
            self._on_part(sender, link, message.part, out)
        else:
            assert isinstance(message, Settled)
            self.spared.pop(sender, None)

    def _on_join_request(self, newcomer: NodeId, link: LinkId, out: Outbox) -> None:
        others = [peer for peer in self.active if peer != newcomer]
        if not self._takes_newcomers(out.now):
            out.send(newcomer, TurnTo(others), link)
            self._close(newcomer, out)
            return
        out.send(newcomer, Welcome(others), link)
        self._add(newcomer, link, True, out)
        for peer in others:
            if peer in self.active:
                walk = ForwardJoin(newcomer, self.settings.active_walk)
                out.send(peer, walk, self.active[peer])

    def _takes_newcomers(self, now: int) -> bool:
        """Whether there is a place in the view that no other newcomer depends on."""
        places = self.settings.active
        if self._is_newcomer() and places > 1:
            places -= 1  # newcomers ourselves, we shall need one for whoever takes us in
        return len(self.active) - len(self._victims(now)) < places

    def _is_newcomer(self) -> bool:
        """We have contacts, are no neighbour of any, and nobody has taken us in yet."""
        return bool(self.contacts) and not self.joined

    def _on_welcome(self, contact: NodeId, link: LinkId, nodes: list[NodeId], out: Outbox) -> None:
        if contact not in self.asked or contact in self.active:
            return
        self.joined = True
        self._add(contact, link, True, out)
        for node in nodes:
            self._to_passive(node)
        self._fill(out)

    def _on_turn_to(self, contact: NodeId, nodes: list[NodeId], out: Outbox) -> None:
        if self.asked.pop(contact, LOW) != TO_JOIN:
            return
        self._close(contact, out)
        candidates = [node for node in self._free(dict.fromkeys(nodes)) if node != self.me]
        self._turns += 1
        if candidates and not self.joined and self._turns <= self.settings.active_walk:
            self._ask(self.rng.choice(candidates), TO_JOIN, out)
        self._arm_fill(out)

    def _on_ask(self, peer: NodeId, link: LinkId, high: bool, out: Outbox) -> None:
        has_room = len(self.active) < self.settings.active or peer in self.active
        if has_room or (high and self._victims(out.now)):
            out.send(peer, Yes(), link)
            self._add(peer, link, False, out)
        else:
            out.send(peer, No(), link)
            self._close(peer, out)

    def _on_yes(self, peer: NodeId, link: LinkId, out: Outbox) -> None:
        kind = self.asked.get(peer, LOW)
        has_room = len(self.active) < self.settings.active
        makes_room = kind == HIGH and bool(self._victims(out.now))
        if peer in self.asked and peer not in self.active and (has_room or makes_room):
            self._add(peer, link, False, out)
        elif peer not in self.active:  # the view filled up meanwhile
            self.asked.pop(peer, None)
            out.note("hyparview.late_yes", peer)
            out.send(peer, Disconnect(True), link)
            self._close(peer, out)
            self._to_passive(peer)

    def _on_no(self, peer: NodeId, out: Outbox) -> None:
        self.asked.pop(peer, None)
        self._close(peer, out)
        self._arm_fill(out)

    def _on_disconnect(self, peer: NodeId, alive: bool, out: Outbox) -> None:
        if peer in self.active:
            self._remove(peer, out)
        self._close(peer, out)
        if alive:
            self._to_passive(peer)
        else:
            self.passive.pop(peer, None)
        self._fill(out)

    def _on_forward_join(self, sender: NodeId, walk: ForwardJoin, out: Outbox) -> None:
        newcomer = walk.newcomer
        if newcomer == self.me or newcomer in self.active:
            return
        onward = [peer for peer in self.active if peer not in (sender, newcomer)]
        if walk.hops_left <= 0 or len(self.active) <= 1 or not onward:
            if newcomer not in self.links:
                self._ask(newcomer, HIGH, out)
            return
        if walk.hops_left == self.settings.passive_walk:
            self._to_passive(newcomer)
        chosen = self.rng.choice(onward)
        out.send(chosen, ForwardJoin(newcomer, walk.hops_left - 1), self.active[chosen])

    def _on_shuffle(self, sender: NodeId, shuffle: Shuffle, out: Outbox) -> None:
        if sender in self.active:
            self._hear_of_part(shuffle.part, shuffle.age, out.now)
        self._renew_part(out.now)
        hops_left = shuffle.hops_left - 1
        onward = [peer for peer in self.active if peer != sender and peer not in shuffle.path]
        if hops_left > 0 and len(self.active) > 1 and onward:
            chosen = self.rng.choice(onward)
            path = [*shuffle.path, self.me]
            passed_on = Shuffle(
                shuffle.nodes, hops_left, path, self.part, self._age_of_part(out.now)
            )
            out.send(chosen, passed_on, self.active[chosen])
            return
        names = self._sample(self.passive, len(shuffle.nodes))
        age = self._age_of_part(out.now)
        reply = ShuffleReply(names, shuffle.path[:-1], self.part, age)
        out.send(sender, reply, self.links[sender])
        self._learn(shuffle.nodes, out)

    def _on_shuffle_reply(self, sender: NodeId, reply: ShuffleReply, out: Outbox) -> None:
        if sender in self.active:
            self._hear_of_part(reply.part, reply.age, out.now)
        if not reply.path:
            self._learn(reply.nodes, out)
            return
        back = reply.path[-1]
        if back in self.active:
            age = self._age_of_part(out.now)
            passed_on = ShuffleReply(reply.nodes, reply.path[:-1], self.part, age)
            out.send(back, passed_on, self.active[back])

    # Requests of the multicast

    def on_switch(self, link: LinkId, out: Outbox) -> None:
        for peer, known in self.active.items():
            if known == link:
                self._disconnect(peer, True, out)
                self._fill(out)  # before it is a candidate again: else the same one is drawn
                self._to_passive(peer)
                return

    def on_settled(self, link: LinkId, out: Outbox) -> None:
        for peer, known in self.active.items():
            if known == link and self.spared.pop(peer, 0):
                out.send(peer, Settled(), link)

    def on_orphan(self, out: Outbox) -> None:
        """Our neighbours are no use, whole as the view may look: ask far away, with priority."""
        candidates = self._free(self.lost) + self._free(self.contacts)
        candidates = candidates or self._free(self.passive)
        if candidates and not self.left:
            self._ask(self.rng.choice(candidates), HIGH, out)

    # Time

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        if name == SHUFFLE:
            self._start_shuffle(out)
            out.start_timer(SHUFFLE, self.settings.shuffle_every)
        elif name == FILL:
            self._fill_armed = False
            self._turns = 0
            self._fill(out)
        elif name == LOOK:
            self._look(out)
        else:
            assert name == PROBE
            self._forget_old_losses(out.now)
            self._probe(out)

    def _start_shuffling(self, out: Outbox) -> None:
        if not self._shuffles:
            self._shuffles = True
            first = int(self.settings.shuffle_every * (0.5 + self.rng.random()))
            out.start_timer(SHUFFLE, first)
            # Spread by id: nodes that start together do not look together.
            spread = self.settings.look_every * (self.me % 16) // 16
            out.start_timer(LOOK, self.settings.look_every + spread)

    def _start_shuffle(self, out: Outbox) -> None:
        if not self.active:
            self._fill(out)
            return
        names = [self.me, *self._sample(self.active, 3), *self._sample(self.passive, 4)]
        chosen = self.rng.choice(list(self.active))
        self._renew_part(out.now)
        age = self._age_of_part(out.now)
        walk = Shuffle(names, self.settings.active_walk, [self.me], self.part, age)
        out.send(chosen, walk, self.active[chosen])

    # The views

    def _add(self, peer: NodeId, link: LinkId, newborn: bool, out: Outbox) -> None:
        """The only place where the active view grows."""
        if peer in self.active:
            self._remove(peer, out)
        self.asked.pop(peer, None)
        while len(self.active) >= self.settings.active:
            victim = self.rng.choice(self._victims(out.now) or list(self.active))
            self._disconnect(victim, True, out)
            self._to_passive(victim)
        if peer in self.lost:
            self.lost = {}
        if peer in self.contacts:
            self.joined = True
        self._retry_factor = 1
        self.passive.pop(peer, None)
        self.active[peer] = link
        if newborn:
            self.spared[peer] = out.now + self.settings.spare_for
        out.neighbour_up(peer, link, newborn)

    def _remove(self, peer: NodeId, out: Outbox) -> None:
        link = self.active.pop(peer)
        self.spared.pop(peer, None)
        out.neighbour_down(peer, link)

    def _victims(self, now: int) -> list[NodeId]:
        """Whom we can drop: all but those that a newcomer may depend on."""
        return [peer for peer in self.active if self.spared.get(peer, 0) <= now]

    def _disconnect(self, peer: NodeId, alive: bool, out: Outbox) -> None:
        out.send(peer, Disconnect(alive), self.active[peer])
        self._remove(peer, out)
        self._close(peer, out)

    def _close(self, peer: NodeId, out: Outbox) -> None:
        if self.links.pop(peer, None) is not None:
            out.close_link(peer)

    def _to_passive(self, node: NodeId) -> None:
        if node == self.me or node in self.active or node in self.passive:
            return
        if len(self.passive) >= self.settings.passive:
            del self.passive[self.rng.choice(list(self.passive))]
        self.passive[node] = None

    def _learn(self, nodes: list[NodeId], out: Outbox) -> None:
        for node in nodes:
            if len(self.early) < EARLY_NAMES.value and node != self.me:
                self.early[node] = None
            self._to_passive(node)
        self._fill(out)

    def _sample(self, among: dict[NodeId, LinkId] | dict[NodeId, None], most: int) -> list[NodeId]:
        return self.rng.sample(list(among), min(most, len(among)))

    # Finding neighbours

    def _ask(self, peer: NodeId, kind: int, out: Outbox) -> None:
        self.asked[peer] = kind
        out.open_link(peer)

    def _fill(self, out: Outbox) -> None:
        """Ask one more candidate if the active view has room."""
        if self.left:
            return
        if self._is_newcomer() and TO_JOIN not in self.asked.values() and not self._fill_armed:
            # Whomever we took in meanwhile is as much outside as we are.
            candidates = self._free(self.contacts)
            if candidates:
                self._ask(self.rng.choice(candidates), TO_JOIN, out)
            self._arm_fill(out)
        if len(self.active) + len(self.asked) >= self.settings.active:
            return
        candidates = self._free(self.passive)
        if candidates:
            patient = self._retry_factor < LONGEST_RETRY.value
            self._ask(self.rng.choice(candidates), LOW if patient else HIGH, out)
        elif not self.active and not self.asked:
            candidates = self._free(self.lost) + self._free(self.contacts)
            if candidates:
                self._ask(self.rng.choice(candidates), HIGH, out)
        self._arm_fill(out)

    def _free(self, nodes: dict[NodeId, int] | dict[NodeId, None]) -> list[NodeId]:
        """Those that are neither linked nor asked already."""
        return [node for node in nodes if node not in self.links and node not in self.asked]

    def _arm_fill(self, out: Outbox) -> None:
        hungry = len(self.active) < self.settings.active or self._is_newcomer()
        hopeful = bool(self.passive) or not self.active or self._is_newcomer()
        if hungry and hopeful and not self._fill_armed and not self.left:
            self._fill_armed = True
            pause = self.settings.retry_after * self._retry_factor
            if self.active and not self._is_newcomer():  # an isolated node keeps asking
                self._retry_factor = min(2 * self._retry_factor, LONGEST_RETRY.value)
            out.start_timer(FILL, int(pause * (0.8 + 0.4 * self.rng.random())))

    # After a partition

    def _mourn(self, peer: NodeId, out: Outbox) -> None:
        """Remember a neighbour that was lost without a farewell: it may be cut off, not dead."""
        self.passive.pop(peer, None)
        self._retry_factor = 1
        if not self.lost:
            self._probe_factor = 1
            out.start_timer(PROBE, self.settings.probe_every)
        self.lost[peer] = out.now + self.settings.probe_for
        if len(self.lost) > self.settings.active:
            del self.lost[next(iter(self.lost))]

    def _forget_old_losses(self, now: int) -> None:
        self.lost = {peer: until for peer, until in self.lost.items() if until > now}

    def _probe(self, out: Outbox) -> None:
        """Dial a lost neighbour; should it answer, it is worth more than one of ours."""
        candidates = self._free(self.lost)
        if candidates:
            self._ask(self.rng.choice(candidates), HIGH, out)
        if self.lost:
            pause = self.settings.probe_every * self._probe_factor
            self._probe_factor = min(2 * self._probe_factor, LONGEST_PROBE.value)
            out.start_timer(PROBE, int(pause * (0.8 + 0.4 * self.rng.random())))

    # Parts that do not know of each other

    def _age_of_part(self, now: int) -> int:
        return 0 if self.part == self.me else now - self._part_at

    def _renew_part(self, now: int) -> None:
        """Give a name of our part up that its node has not renewed for long."""
        stale = self._age_of_part(now) > STALE_AFTER.value * self.settings.shuffle_every
        if stale or self.me < self.part:
            self._name_part(self.me, now, now)

    def _hear_of_part(self, part: NodeId, age: int, now: int) -> None:
        """A neighbour says what our part is called."""
        if age < 0 or age > STALE_AFTER.value * self.settings.shuffle_every:
            return
        if part < self.part:
            self._name_part(part, now - age, now)
        elif part == self.part:
            self._part_at = max(self._part_at, now - age)

    def _name_part(self, part: NodeId, at: int, now: int) -> None:
        if part != self.part:
            self._part_since = now
        self.part = part
        self._part_at = at

    def _look(self, out: Outbox) -> None:
        """Look at one that we knew early: is it in our part?"""
        self._renew_part(out.now)
        settled = out.now - self._part_since >= SETTLES_AFTER.value * self.settings.shuffle_every
        if settled and self.active:
            candidates = self._free(self._apart)  # once more: it may have been news on its way
            candidates = candidates or self._free({**self.contacts, **self.early})
            if candidates:
                self._ask(self.rng.choice(candidates), TO_LOOK, out)
            if self.part != self.me:
                self._look_factor = min(2 * self._look_factor, LONGEST_LOOK.value)
        factor = 1 if self.part == self.me or self._apart else self._look_factor
        out.start_timer(LOOK, self.settings.look_every * factor)

    def _on_part(self, peer: NodeId, link: LinkId, part: NodeId, out: Outbox) -> None:
        if self.asked.get(peer) != TO_LOOK:
            return
        is_other = part != self.part and peer not in self.active
        was_apart, self._apart = peer in self._apart, {}
        if is_other and was_apart:
            out.note("hyparview.another_part", peer)
            self._look_factor = 1
            self.asked[peer] = HIGH
            self._request(peer, link, HIGH, out)
            return
        del self.asked[peer]
        if peer not in self.active:
            self._close(peer, out)
        if is_other:
            self._apart[peer] = None
            out.start_timer(LOOK, SETTLES_AFTER.value * self.settings.shuffle_every)

    def state_size(self) -> int:
        return len(self.active) + len(self.passive) + len(self.links) + len(self.lost)


def build(setup: Setup) -> HyParView:
    return HyParView(setup.me, setup.random, Settings(setup))


SPEC = OverlaySpec(
    name="hyparview",
    summary="A small active view that mends itself, and a passive view to mend it from.",
    build=build,
    messages=[
        Join,
        Welcome,
        TurnTo,
        AskNeighbour,
        Yes,
        No,
        Disconnect,
        ForwardJoin,
        Shuffle,
        ShuffleReply,
        Look,
        Part,
        Settled,
    ],
    options=[
        # The thesis: log10(n) + 1 and six times as many; these are for ten thousand nodes.
        Option(
            "active_view",
            5,
            "neighbours",
            least=1,
            change_if="you have many fewer or more than ten thousand nodes: log10(n) + 1",
        ),
        Option(
            "passive_view",
            0,
            "nodes to fall back on; 0: six times the active view",
            least=0,
            change_if="many nodes may fall at once and survivors must still know somebody",
        ),
        # The walks of the original paper.
        Option(
            "active_walk",
            6,
            "hops of a newcomer's name, and of shuffles",
            least=1,
            change_if="you compare with the paper, whose number this is",
        ),
        Option(
            "passive_walk",
            3,
            "hops left when a newcomer's name is noted on its way",
            least=0,
            change_if="you compare with the paper, whose number this is",
        ),
        Option(
            "shuffle_every",
            5 * SECOND,
            "exchange names this often",
            unit="ms",
            change_if="nodes come and go within seconds, or shuffles cost too much",
        ),
        Option(
            "retry_after",
            1 * SECOND,
            "ask again after a refusal, at first",
            unit="ms",
            change_if="a refused node should find a place sooner, or dials are dear",
        ),
        Option(
            "probe_every",
            5 * SECOND,
            "dial a lost neighbour again, at first",
            unit="ms",
            change_if="partitions are short and must heal sooner",
        ),
        # A partition that lasts longer needs people anyway.
        Option(
            "probe_for",
            3600 * SECOND,
            "remember a lost neighbour this long",
            unit="ms",
            change_if="partitions may last longer than an hour",
        ),
        # Long enough for a newcomer's second link to become usable on a slow network.
        Option(
            "spare_for",
            10_000 * MILLISECOND,
            "spare a newcomer's first link",
            unit="ms",
            change_if="a newcomer's second link takes longer to become usable",
        ),
        # As long as a new name of a part needs to be everywhere; see SETTLES_AFTER.
        Option(
            "look_every",
            30 * SECOND,
            "look whether others are in another part",
            unit="ms",
            change_if="an overlay in several parts must find together sooner",
        ),
    ],
)
