"""Vector-clock broadcast among agreed members: they come, go and are replaced while it runs.

K. Birman, A. Schiper, P. Stephenson, "Lightweight causal and atomic group multicast", 1991, for the
order and for views; L. Lamport, "The part-time parliament", 1998, for how a view is agreed on.

A view says who is a member. View n+1 is decided by a majority of the members of view n, and the
decision carries a cut: how many publications of each origin belong to views up to n. A publication
belongs to the first view whose closing cut covers it. A member installs view n+1 as soon as it has
delivered all that the cut counts; nobody stops publishing or delivering meanwhile.

Within a view a publication carries how many of every other node its origin had delivered, beyond
the cut. Across views it says which view it was published in, and is delivered only in that view or
a later one, so what the cut counts needs no names.

Where we differ from the papers, and why
- In the paper senders stop during a change (flush). Here what is published after the reports is
  beyond the cut and belongs to the next view, with the same name and the same stamp. Given up for
  that: two members need not install a view at the same point of their deliveries.
- Membership is of nodes, and groups are a filter: everybody gets everything and hands to its
  application what is for its groups.
- A member is removed by an operator's order, never by a suspicion alone.
- Who was removed does not come back under its id. Numbers of publications are never given twice to
  one id by our worlds, and a disk that went back in time gets no links, so a slot is an origin.
- Copies that an agreement needs are fetched before it is proposed or accepted, in parts of bounded
  size, where the plan had them travel with the votes.
"""

from typing import Final

from causalcast.core.automaton import Multicast
from causalcast.core.command import Command
from causalcast.core.ids import (
    NO_MESSAGE,
    GroupId,
    LinkId,
    MessageId,
    NodeId,
    message_id,
    number_of,
    origin_of,
)
from causalcast.core.message import Message, Publication
from causalcast.core.outbox import Outbox
from causalcast.core.spec import Setup
from causalcast.parts.vector_clock import VectorClock
from causalcast.protocols.viewed_broadcast.agreement import CHANGE, Agreement
from causalcast.protocols.viewed_broadcast.copies import Copies
from causalcast.protocols.viewed_broadcast.exchange import ACKNOWLEDGE, REPEAT, Exchange
from causalcast.protocols.viewed_broadcast.membership import Membership
from causalcast.protocols.viewed_broadcast.messages import (
    Accept,
    Accepted,
    Copy,
    Done,
    Fetch,
    Installed,
    More,
    Ordered,
    Prepare,
    Promise,
    Refused,
    Removal,
    Status,
    View,
)
from causalcast.protocols.viewed_broadcast.peers import Peers

GONE: Final = "gone"
ADD: Final = "add"
REPLACE: Final = "replace"
FIRST: Final = 1  # the number of the view of the founders


class ViewedBroadcast(Multicast):
    """One member: its views, its copies, and what it knows of others.

    Large because every handler stands here; what they decide by stands in the parts.
    """

    def __init__(self, setup: Setup) -> None:
        self.me = setup.me
        founders = founders_of(setup)
        is_founder = setup.me in founders and not setup.newcomer
        first = View(FIRST, founders, {}, [], []) if is_founder else None
        self.membership = Membership(setup.me, first)
        self.copies = Copies()
        self.peers = Peers(setup.me)
        self.exchange = Exchange(setup, self.membership, self.copies, self.peers)
        self.agreement = Agreement(setup, self.membership, self.copies, self.peers, self.exchange)
        self.joining: dict[GroupId, None] = {}  # groups that wait until this node is a member
        self.held: dict[MessageId, None] = {}  # publications that the world was told of as held
        self.stable = 0  # so many own publications are known to be with all members
        self.has_ended = False  # it was expelled, and has acted on it
        self.let_go: dict[NodeId, None] = {}  # removed nodes that the overlay has heard of
        self._recorded: VectorClock = {}  # what was delivered when it was last written down

    # Publications

    def on_publish(self, publication: Publication, out: Outbox) -> None:
        # Section 3 of the paper on lightweight multicast: it carries what was delivered before.
        cut = self.membership.cut()
        needs = {
            node: count
            for node, count in self.copies.done.items()
            if node != self.me and count > cut.get(node, 0)
        }
        copy = Copy(publication, self.membership.installed, dict(sorted(needs.items())))
        self.copies.put(copy)
        self.copies.count(copy)
        out.persist(copy)
        out.deliver(publication)
        for peer in self.exchange.audience():
            self.exchange.send(peer, copy, out)
        self._settle(out)

    def _on_copy(self, sender: NodeId, copy: Copy, out: Outbox) -> None:
        # Section 3: it is delivered when as many were delivered here.
        origin = copy.origin()
        if self.membership.is_expelled():
            return
        if origin == self.me and copy.number() > self.copies.done.get(origin, 0):
            out.note("viewed_broadcast.forged", sender)
            return
        if origin == sender:
            told = self.peers.told.setdefault(sender, {})
            told[origin] = max(told.get(origin, 0), copy.number())
        is_news = self.copies.is_news(copy)
        is_needed = self.agreement.needs(copy) and not self.copies.has(origin, copy.number())
        if not is_news and not is_needed:
            out.duplicate(copy.id())
            return
        if not is_needed and self.copies.is_too_far(copy):
            out.note("viewed_broadcast.too_far", sender)
            return
        if self.membership.is_lost(origin, copy.number()):
            out.note("viewed_broadcast.refused_copy", sender)
            return
        self.exchange.heard = True
        self.copies.put(copy)
        out.persist(copy)
        self.agreement.copy_came(copy, out)
        self._advance(out)
        if is_news and copy.number() > self.copies.done.get(origin, 0):
            self._hold(copy, out)

    def _hold(self, copy: Copy, out: Outbox) -> None:
        obstacle = self.copies.obstacle(copy, self.membership)
        if obstacle is not None and copy.id() not in self.held:
            self.held[copy.id()] = None
            out.hold(copy.id(), *obstacle)

    def _advance(self, out: Outbox) -> None:
        """Deliver and install whatever can be now, one after the other."""
        membership, copies = self.membership, self.copies
        is_moving = not membership.is_expelled()
        while is_moving:
            is_moving = False
            while membership.installed:
                copy = copies.ready(membership)
                if copy is None:
                    break
                copies.count(copy)
                if copy.id() in self.held:
                    del self.held[copy.id()]
                    out.release(copy.id())
                out.deliver(copy.publication)
            view = membership.next_view(copies.done)
            if view is not None:
                self._install(view, out)
                is_moving = True

    def _install(self, view: View, out: Outbox) -> None:
        if self.membership.installed == 0:
            self.copies.begin_at(view.cut)
            out.note("viewed_broadcast.let_in", view.number)
        self.membership.install(view.number)
        out.persist(Installed(view.number))
        out.note("viewed_broadcast.installed", view.number)
        for group in list(self.joining):
            out.joined(group)
        if self.joining:
            self.joining = {}
            self._write_orders(out)

    # What others say

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> None:
        # Views, votes and copies: the paper has reliable channels, and a site that leads.
        if isinstance(message, Copy):
            self._on_copy(sender, message, out)
        elif isinstance(message, Status):
            self._on_status(sender, message, out)
        elif isinstance(message, View):
            self._on_view(message, out)
        elif isinstance(message, Fetch):
            self.exchange.serve(sender, message, out)
        elif isinstance(message, More):
            self.agreement.fetch_more(sender, out)
            self.exchange.fetch_missing(sender, out)
        elif isinstance(message, Removal):
            self._on_removal(sender, message, out)
        elif self.membership.is_expelled():
            self.exchange.tell_views(sender, 0, out)
        elif isinstance(message, Prepare):
            self.agreement.on_prepare(sender, message, out)
        elif isinstance(message, Promise):
            self.agreement.on_promise(sender, message, out)
        elif isinstance(message, Accept):
            self.agreement.on_accept(sender, message, out)
        elif isinstance(message, Accepted):
            self.agreement.on_accepted(sender, message, out)
        elif isinstance(message, Refused):
            self.agreement.on_refused(sender, message, out)
        else:
            out.note("viewed_broadcast.nonsense", sender)
        self._settle(out)

    def _on_status(self, sender: NodeId, status: Status, out: Outbox) -> None:
        # Not in the paper: its stability is told in counts, and what is missing asked for.
        membership = self.membership
        news = self.peers.hear(sender, status)
        if news:
            self.exchange.heard = True
        newest = membership.newest()
        may_order = newest is not None and sender in newest.members
        for node in status.adds:
            if may_order or node == sender:
                self._order(node, True, out)
        if status.known < membership.known() or (
            newest is not None and sender in newest.gone and status.known < newest.number
        ):
            self.exchange.tell_views(sender, status.known, out)
        if status.asks or status.known > membership.known():
            self.exchange.tell(sender, False, out)

    def _on_view(self, view: View, out: Outbox) -> None:
        # Not in the paper: a view that was decided, from anybody who knows it.
        is_news = self.membership.learn(view)
        if self.membership.is_contradicted:
            out.note("viewed_broadcast.two_views", view.number)
        if is_news:
            self.exchange.heard = True
            out.persist(view)
            self._write_orders_if_fewer(out)

    def _on_removal(self, sender: NodeId, removal: Removal, out: Outbox) -> None:
        # Not in the paper: there a site that fails is removed by the protocol.
        newest = self.membership.newest()
        if newest is not None and sender in newest.members:
            self._order(removal.peer, False, out)

    # After every input

    def _settle(self, out: Outbox) -> None:
        """Deliver, install, forget, and see whether anything is left to be done."""
        membership = self.membership
        before = membership.installed
        self._advance(out)
        self._record_done(out)
        self.agreement.view_came()
        self._write_orders_if_fewer(out)
        self._let_go_of_the_removed(out)
        if membership.is_expelled():
            self._end(out)
        else:
            self._forget(out)
            self.agreement.consider(out)
        if membership.installed != before:
            self.exchange.acknowledge_soon(out)
        if not self.exchange.is_watching():
            self.exchange.watch(self._is_unsettled(), out)

    def _let_go_of_the_removed(self, out: Outbox) -> None:
        newest = self.membership.newest()
        if newest is None or len(newest.gone) == len(self.let_go):
            return
        for node in newest.gone:
            if node not in self.let_go:
                self.let_go[node] = None
                out.let_go(node)

    def _record_done(self, out: Outbox) -> None:
        done, recorded = self.copies.done, self._recorded
        news = {node: count for node, count in done.items() if recorded.get(node, 0) != count}
        if news:
            out.persist(Done(news))
            recorded.update(news)
            if self.peers.links:
                self.exchange.acknowledge_soon(out)

    def _forget(self, out: Outbox) -> None:
        """Copies that all members of the newest view have delivered; not while an agreement is
        under way that may leave them out of its cut. And those that nobody will deliver."""
        membership, copies = self.membership, self.copies
        newest = membership.newest()
        if newest is None or not membership.installed:
            return
        self._tell_stable(newest, out)
        if membership.is_frozen():
            return
        for origin in list(copies.log):
            safe = self.peers.all_told(origin, copies.done.get(origin, 0), newest.members)
            is_closed = membership.installed == newest.number and origin in newest.closed
            if not is_closed and safe <= copies.cleared.get(origin, 0):
                continue  # there is nothing to look for
            for number in [
                n
                for n in copies.log[origin]
                if n <= safe or (is_closed and membership.is_lost(origin, n))
            ]:
                self._drop(origin, number, out)
            copies.cleared[origin] = safe
        membership.drop_views(self.peers.installed_by_all(membership))

    def _drop(self, origin: NodeId, number: int, out: Outbox) -> None:
        name = message_id(origin, number)
        if name in self.held:
            del self.held[name]
            out.release(name)
        self.copies.drop(origin, number)

    def _tell_stable(self, newest: View, out: Outbox) -> None:
        mine = self.copies.done.get(self.me, 0)
        stable = self.peers.all_told(self.me, mine, newest.members)
        while self.stable < stable:
            self.stable += 1
            if self.copies.has(self.me, self.stable):
                out.stable(message_id(self.me, self.stable))

    def _end(self, out: Outbox) -> None:
        """Others agreed on a view without this node: it ends, and only tells others of views. The
        one who knows a view must not forget it."""
        if self.has_ended:
            return
        self.has_ended = True
        newest = self.membership.newest()
        assert newest is not None
        out.note("viewed_broadcast.expelled", newest.number)
        mine = self.copies.done.get(self.me, 0) - newest.cut.get(self.me, 0)
        if mine > 0:
            out.note("viewed_broadcast.not_accepted", mine)
        out.expelled()
        for copy in list(self.copies.all()):
            self._drop(copy.origin(), copy.number(), out)
        self.joining = {}
        for peer in list(self.peers.links):
            self.exchange.tell(peer, False, out)
            self.exchange.tell_views(peer, newest.number - 1, out)

    def _is_unsettled(self) -> bool:
        if self.exchange.behind():
            return True
        return not self.membership.is_expelled() and bool(self.exchange.ahead())

    # Time, links and suspicions

    def on_start(self, out: Outbox) -> None:
        # Not in the paper: a newcomer asks those who are linked to let it in.
        if not self.membership.installed:
            out.persist(Installed(0))
            self._order(self.me, True, out)

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        # Not in the paper, which has reliable channels.
        if name == ACKNOWLEDGE:
            self.exchange.acknowledge(out)
        elif name == REPEAT:
            self.exchange.repeat(out)
        else:
            assert name == CHANGE
            self.agreement.go_on(out)
        self._settle(out)

    def on_link_up(self, peer: NodeId, link: LinkId, dialled: bool, out: Outbox) -> None:
        # Not in the paper: who was away says what it has, and gets what it lacks.
        self.peers.link_up(peer, link)
        self.exchange.link_up(peer)
        self.exchange.hurry(out)
        self.exchange.tell(peer, True, out)
        self.exchange.tell_orders(peer, out)
        self._settle(out)

    def on_link_lost(self, peer: NodeId, link: LinkId, reason: str, out: Outbox) -> None:
        # Not in the paper: what it lacks is kept, for as long as it is a member.
        if self.peers.link_lost(peer, link):
            self._settle(out)

    def on_suspect(self, peer: NodeId, out: Outbox) -> None:
        # Not in the paper: a suspicion only decides who leads.
        self.peers.suspected[peer] = None

    def on_trust(self, peer: NodeId, out: Outbox) -> None:
        # Not in the paper, as `on_suspect`.
        self.peers.suspected.pop(peer, None)

    # Groups: a filter

    def refusal(self, group: GroupId, joining: bool) -> str:
        newest = self.membership.newest()
        if newest is not None and self.me in newest.gone:
            return (
                f"the members agreed on view {newest.number} without this node; it cannot come "
                "back under this id: start it under a new one with new storage"
            )
        if not joining and not self.membership.installed:
            return "the members have not let this node in yet"
        return ""

    def joins_at_once(self, group: GroupId) -> bool:
        return self.membership.installed > 0 and not self.membership.is_expelled()

    def asked_for(self) -> list[GroupId]:
        return list(self.joining)

    def on_join_group(self, group: GroupId, out: Outbox) -> None:
        # Not in the paper: here everybody gets everything; only a newcomer has to wait.
        if not self.joins_at_once(group):
            self.joining[group] = None
            self._write_orders(out)

    def on_leave_group(self, group: GroupId, out: Outbox) -> None:
        # Not in the paper, as `on_join_group`.
        if group in self.joining:
            del self.joining[group]
            self._write_orders(out)

    # Orders

    def objection(self, command: Command) -> str:
        membership = self.membership
        newest = membership.newest()
        if newest is None or not membership.is_member():
            return "this node is no member; ask one that is"
        named = [NodeId(number) for number in command.arguments]
        if command.name == REPLACE and named[0] == named[1]:
            return "a node cannot replace itself: start the new one under a new id"
        if command.name in (GONE, REPLACE):
            if named[0] not in newest.members:
                return f"node {named[0]} is no member of view {newest.number}"
            if len(newest.members) == 1:
                return "the last member cannot be removed"
        if command.name in (ADD, REPLACE):
            new = named[-1]
            if new in newest.gone:
                return f"node {new} was removed; ids are not used again"
            if new in membership.removes:
                return f"node {new} is to be removed"
            if new not in newest.members and new not in self.peers.links:
                return f"node {new} is not linked to this node; start it first"
            if command.name == ADD and new in newest.members:
                return f"node {new} is a member already"
        return ""

    def preview(self, command: Command) -> list[str]:
        return losses(self, command)

    def on_command(self, command: Command, out: Outbox) -> None:
        # Not in the paper: there a failure detector decides who is out.
        named = [NodeId(number) for number in command.arguments]
        if command.name in (ADD, REPLACE):
            self._order(named[-1], True, out)
        if command.name in (GONE, REPLACE):
            self._order(named[0], False, out)
        for peer in self.exchange.audience():
            self.exchange.tell(peer, False, out, only_news=True)
            self.exchange.tell_orders(peer, out)
        self._settle(out)

    def _order(self, node: NodeId, is_added: bool, out: Outbox) -> None:
        membership = self.membership
        orders = membership.adds if is_added else membership.removes
        if node in orders:
            return
        orders[node] = None
        membership.drop_orders()
        if node in (membership.adds if is_added else membership.removes):
            self._write_orders(out)

    def _write_orders_if_fewer(self, out: Outbox) -> None:
        if self.membership.drop_orders():
            self._write_orders(out)

    def _write_orders(self, out: Outbox) -> None:
        out.persist(self._orders())

    def _orders(self) -> Ordered:
        membership = self.membership
        groups = [int(group) for group in self.joining]
        return Ordered(list(membership.adds), list(membership.removes), groups)

    # After a restart

    def on_recover(self, records: list[Message], out: Outbox) -> None:
        # Not in the paper, in which nobody comes back.
        membership, copies = self.membership, self.copies
        if records and isinstance(records[0], Installed):  # a snapshot, or a newcomer's journal
            membership.views, membership.installed = {}, 0
        for record in records:
            if isinstance(record, Copy):
                if not copies.has(record.origin(), record.number()):
                    copies.put(record)
                if record.origin() == self.me:  # it is delivered in the step in which it is made
                    copies.done[self.me] = max(copies.done.get(self.me, 0), record.number())
            elif isinstance(record, Done):
                copies.done.update(record.counts)
            elif isinstance(record, Ordered):
                membership.adds = dict.fromkeys(record.adds)
                membership.removes = dict.fromkeys(record.removes)
                self.joining = {GroupId(group): None for group in record.groups}
            else:
                membership.restore(record)
        copies.count_waiting()
        self._recorded = dict(copies.done)
        self._settle(out)

    def snapshot(self) -> list[Message]:
        return [
            Installed(self.membership.installed),
            *self.membership.snapshot(),
            Done(dict(self.copies.done)),
            *self.copies.all(),
            self._orders(),
        ]

    # What people and the world ask

    def explain(self, message: MessageId) -> list[MessageId]:
        waits_for = self._obstacle(message)
        return [waits_for[0]] if waits_for is not None and waits_for[0] != NO_MESSAGE else []

    def reasons(self, message: MessageId) -> list[str]:
        waits_for = self._obstacle(message)
        if waits_for is None:
            return []
        cause, words = waits_for
        return [f"waits for {words or f'{origin_of(cause)}.{number_of(cause)}'}"]

    def _obstacle(self, message: MessageId) -> tuple[MessageId, str] | None:
        copy = self.copies.log.get(origin_of(message), {}).get(number_of(message))
        if copy is None or copy.number() <= self.copies.done.get(copy.origin(), 0):
            return None
        return self.copies.obstacle(copy, self.membership)

    def conditions(self) -> dict[str, int]:
        newest = self.membership.newest()
        return {
            "view": self.membership.installed,
            "members": 0 if newest is None else len(newest.members),
            "expelled": int(self.membership.is_expelled()),
            "agreeing": int(self.membership.is_frozen()),
        }

    def takes_part(self) -> bool:
        return self.membership.is_member()

    def agreed_members(self) -> list[NodeId] | None:
        newest = self.membership.newest()
        return None if newest is None else list(newest.members)

    def kept_bytes(self) -> int:
        return self.copies.kept_bytes

    def kept_for(self) -> dict[NodeId, int]:
        return {
            peer: sum(
                1
                for origin, copies in self.copies.log.items()
                for number in copies
                if number > self.peers.told_by(peer, origin)
            )
            for peer in self.membership.others()
        }

    def state_size(self) -> int:
        return self.copies.size() + len(self.membership.views)


def founders_of(setup: Setup) -> list[NodeId]:
    """Who is in the first view: as many of the graph as the option says, those of the lowest ids;
    with 0, all."""
    everybody = sorted(setup.topology.everybody())
    count = setup.number("founders")
    return everybody[:count] if count else everybody


def losses(node: ViewedBroadcast, command: Command) -> list[str]:
    """What may be lost by a command, as far as this node can tell."""
    membership, peers = node.membership, node.peers
    newest = membership.newest()
    if newest is None or command.name == ADD:
        return []
    gone = NodeId(command.arguments[0])
    lines = [
        f"view {newest.number + 1} will be agreed on without node {gone}, by "
        f"{newest.majority()} of the {len(newest.members)} members of view {newest.number}"
    ]
    reached = len(peers.linked(newest.members)) + 1
    if reached < newest.majority():
        lines.append(f"only {reached} of them are here now: nothing changes until more are")
    if gone in peers.links:
        lines.append(f"node {gone} is linked to this node now: it will be told that it is out")
    has = node.copies.done.get(gone, 0)
    lines.append(f"of what it published, {has} are here; later ones are lost if no member has them")
    return lines
