"""CBCAST: a vector clock per group.

K. Birman, A. Schiper, P. Stephenson, "Lightweight causal and atomic group multicast", 1991; the
baseline of "Santos and Rodrigues, Localized reliable causal multicast", 2019.

For every group a node counts how many publications of each node to that group are in its past. A
publication to a group carries all these counts, of all groups, and goes to the members of its group
only. A member waits until, of every group *it* is in, it has delivered what is named. The counts of
groups it is not in it cannot check; it keeps them and passes them on, for somebody else can. So
what is carried grows with nodes and with groups.

Timestamps are compressed as in the paper: a publication names only the counts that changed since
its sender's last publication to the same group, whose members have all delivered that one before.

Where we differ from the paper, and why
- The paper assumes reliable FIFO channels and changes groups by a flush of all members.
  `reliable_links` makes the channels, over loss and crashes. Here groups change by
  messages in the group of everybody (`member_lists`): nobody stops. A new member learns
  from each node's welcome which of its publications to the group were not meant for him, and counts
  them as done; the next timestamp to a group that somebody joined is whole.
- The paper makes a multicast all or nothing by a flush when the group changes, and lets a sender
  that changes groups wait until its messages are stable. Here nobody waits: unstable messages are
  kept and handed over (`addressed_sending`). If a node dies before its welcome, others vouch for it
  (`vouching`). Who left a group waits for what the others sent before they knew, or for their word
  that nobody can lack it (`farewells`).
- Members are not agreed on, as the paper's views are. So a join while links are slow or a live node
  is suspected can cost the new member messages, and with them agreement and causal order there;
  `docs/protocols/survey.md` says when, and `tests/simulation/expected_failures` has two schedules.
- Anybody may publish to any group, member or not.
- A slot is not the number of publications to the group but the last one's own number, and a
  publication says which one to the group came before it. So what is missing has a name.
- A sender that is a member delivers its own publication at once.
"""

from collections.abc import Iterator
from typing import Final

from causalcast.core import (
    CAUSAL_WITHOUT_THE_DEAD,
    GroupId,
    LinkId,
    Message,
    MessageId,
    Multicast,
    Needs,
    NodeId,
    Outbox,
    ProtocolSpec,
    Publication,
    Setup,
    Wire,
    message_id,
    number_of,
)
from causalcast.core.ids import NO_MESSAGE
from causalcast.parts.addressed import addressed_sending
from causalcast.parts.addressed.addressed_messages import EVERYBODY, Published, unwrapped
from causalcast.parts.addressed.addressed_sending import AddressedSending
from causalcast.parts.addressed.member_lists import Joined, Left, MemberLists, Welcome
from causalcast.parts.addressed.reliable_links import Sent, Taken
from causalcast.parts.addressed.waiting_room import Entry, WaitingRoom
from causalcast.parts.safe_keeping import Name
from causalcast.protocols.cbcast import farewells
from causalcast.protocols.cbcast.farewells import Farewell, Farewells, Unheard
from causalcast.protocols.cbcast.timestamped import Clocks, Timestamped
from causalcast.protocols.cbcast.vouching import ASK, Unwelcomed, Vouched, Vouching

LEFT: Final = "cbcast.left"


class Tables(Message):
    """Record of a snapshot: what is in the past, and what was delivered of the own groups."""

    wire = Wire(
        "cbcast.tables",
        past=dict[GroupId, dict[NodeId, int]],
        done=dict[GroupId, dict[NodeId, int]],
    )

    def __init__(self, past: Clocks, done: Clocks) -> None:
        self.past = past
        self.done = done


class Freed(Message):
    """Record: after a leave, what waits was looked at again."""

    wire = Wire("cbcast.freed", waiting=int)

    def __init__(self, waiting: int) -> None:
        self.waiting = waiting


class Cbcast(Multicast):
    """Counts per group, and messages that wait for what they name.

    Large because every input of a node has its handler here. Half of them are about members
    that come, go or die, and would not be needed if members were agreed on.
    """

    def __init__(self, setup: Setup) -> None:
        self.me = setup.me
        self.everybody = setup.topology.everybody()
        self.past: Clocks = {}  # all that a publication of this node follows, of all groups
        self.done: Clocks = {}  # delivered here, or never meant for this node; of its own groups
        self.told: dict[GroupId, Clocks] = {}  # per group: the past that its members were told
        self.waiting = WaitingRoom()
        self.lists = MemberLists(setup.me, setup.groups, self.everybody)
        self.sending = AddressedSending(setup, self.lists, self._has, who_left_needs=False)
        self.farewells = Farewells()
        first_pause = setup.number("repeat_after")
        self.vouching = Vouching(
            first_pause, self.me, self.lists, self.waiting, self.farewells, self.sending
        )

    # Sending

    def on_publish(self, publication: Publication, out: Outbox) -> None:
        # Section 5.1, step 1: timestamp it, with the counts of all groups (section 6.1).
        group, number = publication.group, number_of(publication.id)
        joined, left = self.lists.joined(group), self.lists.left(group)
        published = Published(publication, list(joined), list(joined.values()), left)
        self._send(group, number, self.lists.of(group), published, out)
        if self.lists.has(group, self.me):
            out.deliver(publication)

    def on_join_group(self, group: GroupId, out: Outbox) -> None:
        # Not in the paper, which flushes: everybody is told, in causal order (`member_lists`).
        self._begin_membership(group)
        self._send_to_everybody(self.lists.join(group), out)

    def on_leave_group(self, group: GroupId, out: Outbox) -> None:
        # Not in the paper, which flushes: the same.
        self._end_membership(group)
        self._send_to_everybody(self.lists.leave(group), out)
        # What waited for a publication to the group need not wait any more, but must not be
        # delivered as long as this node counts as a member: that is to the end of this step.
        out.start_timer(LEFT, 0)

    def _send_to_everybody(self, content: Message, out: Outbox) -> None:
        number = self._published_to(EVERYBODY) + 1
        self._send(EVERYBODY, number, self.everybody, content, out)

    def _send(
        self, group: GroupId, number: int, to: list[NodeId], content: Message, out: Outbox
    ) -> None:
        before = self._published_to(group)
        message = Timestamped(group, number, before, self._changed_for(group), content)
        self._count_sent(message)
        self.sending.send(to, message, out)

    def _changed_for(self, group: GroupId) -> Clocks:
        """The counts that the members of a group have not been told by this node (section 5.4).

        A join or leave follows earlier joins and leaves only: two new members that waited for each
        other's publications would never welcome each other.
        """
        told = self.told.get(group, {})
        changed: Clocks = {}
        for other, clock in self.past.items():
            if group == EVERYBODY and other != EVERYBODY:
                continue
            before = told.get(other, {})
            news = {node: count for node, count in clock.items() if count != before.get(node, 0)}
            if other == group:
                news.pop(self.me, None)  # the message's number says it
            if news:
                changed[other] = news
        return changed

    def _count_sent(self, message: Timestamped) -> None:
        group = message.group
        self.past.setdefault(group, {})[self.me] = message.number
        self.done.setdefault(group, {})[self.me] = message.number
        self.told[group] = _copy(self.past)

    def _published_to(self, group: GroupId) -> int:
        """The number of this node's last message to a group."""
        return self.past.get(group, {}).get(self.me, 0)

    # Receiving

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> None:
        # Section 5.1, step 2: what names something that is missing waits.
        held = self.waiting.size()
        if not self.sending.on_message(sender, message, out):
            for taken in self.sending.arrived(sender, message, out):
                arrived = self._take(sender, taken, out)
                self._deliver_ready(arrived, out)
                if arrived is not None:
                    self._tell_if_held(arrived, out)
            self.sending.tend(out)
        if self.waiting.size() != held:
            self.vouching.begin_again(self.done, out)
        else:
            self.vouching.ask_soon(self.done, out)

    def _take(self, sender: NodeId, taken: Message, out: Outbox | None) -> Entry | None:
        """Look at what arrived; if it may have to wait, it comes back.

        Without `out` it was taken, and answered, before a restart.
        """
        origin, message = unwrapped(sender, taken)
        if isinstance(message, Timestamped):
            return self._on_timestamped(sender, taken, origin, message, out)
        if isinstance(taken, Welcome):
            self._on_welcome(sender, taken)
        elif isinstance(taken, Farewell):
            self._on_farewell(sender, taken)
        elif isinstance(taken, Vouched):
            self._on_vouched(taken)
        elif isinstance(taken, Unwelcomed):
            self._on_unwelcomed(sender, taken, out)
        elif isinstance(taken, Unheard):
            self._on_unheard(sender, taken, out)
        elif out is not None:
            out.note("addressed_multicast.stray", sender)
        return None

    def _on_timestamped(
        self,
        sender: NodeId,
        taken: Message,
        origin: NodeId,
        message: Timestamped,
        out: Outbox | None,
    ) -> Entry | None:
        # Section 5.1, step 2; that others bring it, or that it is kept for them, is section 5.5.
        if origin not in self.sending.links.peers:
            return None  # what was published here needs no keeping by others
        content = message.content
        if isinstance(content, Published) and not self._is_meant(content):
            self.sending.keep(sender, taken, out)
            self._count_for_farewells(origin, message)
            return None
        if self._has(origin, message.name):
            if out is not None:
                out.note("addressed_multicast.had_already", sender)
            return None
        self._take_for_welcome(origin, message)
        self.waiting.enter(origin, message)
        return origin, message

    def _is_meant(self, published: Published) -> bool:
        return self.lists.is_meant(published.publication.group, published)

    def _has(self, origin: NodeId, name: Name) -> bool:
        return self._is_old(origin, name) or self.waiting.has(origin, name)

    def _is_old(self, origin: NodeId, name: Name) -> bool:
        """Whether a message for this node was counted, or is of a group it is not in."""
        group = name[0]
        if group != EVERYBODY and not self.lists.has(group, self.me):
            return True
        return self.done.get(group, {}).get(origin, 0) >= name[1]

    # Delivering

    def _deliver_ready(self, arrived: Entry | None, out: Outbox) -> None:
        """Deliver whatever waits for nothing any more, and answer who joined or left."""
        for sender, message in self._ready():
            content = message.content
            if isinstance(content, Published):
                if self._is_meant(content):
                    if arrived is None or message is not arrived[1]:
                        out.release(content.publication.id)
                    out.deliver(content.publication)
            elif isinstance(content, Joined):
                published = self._published_to(content.group)
                self.sending.tell([sender], Welcome(content.group, content.time, published), out)
            elif isinstance(content, Left):
                self._say_farewell(sender, content.group, message.number, out)

    def _ready(self) -> list[Entry]:
        """Count whatever waits for nothing any more, causes before effects (5.1, step 3)."""
        ready: list[Entry] = []
        while True:
            entry = self.waiting.next()
            if entry is None:
                return ready
            sender, message = entry
            assert isinstance(message, Timestamped)
            missing = next(self._missing(sender, message), None)
            if missing is None:
                self._count(sender, message)
                self.sending.counted(sender, message)
                self.waiting.wake((message.group, sender))
                ready.append(entry)
            else:
                self.waiting.wait((missing[0], missing[1]), entry)

    def _missing(
        self, sender: NodeId, message: Timestamped
    ) -> Iterator[tuple[GroupId, NodeId, int]]:
        """Group, node and number of what it waits for; no number where it is no publication."""
        if self.done.get(message.group, {}).get(sender, 0) < message.before:
            yield message.group, sender, 0 if message.group == EVERYBODY else message.before
        for group, clock in message.clocks.items():
            for node in self.farewells.lacks(sender, group, clock, self.past.get(group, {})):
                yield group, node, 0
            if group != EVERYBODY and not self.lists.has(group, self.me):
                continue
            done = self.done.get(group, {})
            for node, number in clock.items():
                if done.get(node, 0) >= number:
                    continue
                # What a node had sent before it knew of us is not known before its welcome.
                is_known = group != EVERYBODY and self.lists.is_welcomed(group, node)
                yield group, node, number if is_known else 0

    def _count(self, sender: NodeId, message: Timestamped) -> None:
        """It is delivered: the past is the greatest of both (section 5.1, step 3)."""
        self.done.setdefault(message.group, {})[sender] = message.number
        self.past.setdefault(message.group, {})[sender] = message.number
        for group, clock in message.clocks.items():
            past = self.past.setdefault(group, {})
            for node, count in clock.items():
                past[node] = max(count, past.get(node, 0))
        if isinstance(message.content, Joined):
            self.told.pop(message.content.group, None)  # the new member was told nothing

    def _ids_of_missing(self, sender: NodeId, message: Timestamped) -> list[MessageId]:
        return [
            message_id(node, number) if number > 0 else NO_MESSAGE
            for _, node, number in self._missing(sender, message)
        ]

    def _tell_if_held(self, arrived: Entry, out: Outbox) -> None:
        sender, message = arrived
        content = message.content
        if isinstance(content, Published) and self.waiting.has(sender, message.name):
            assert isinstance(message, Timestamped)
            cause = self._ids_of_missing(sender, message)[0]
            reason = "a welcome or an earlier message" if cause == NO_MESSAGE else ""
            out.hold(content.publication.id, cause, reason)

    def explain(self, message: MessageId) -> list[MessageId]:
        entry = self.waiting.with_publication(message)
        if entry is None:
            return []
        assert isinstance(entry[1], Timestamped)
        causes = self._ids_of_missing(entry[0], entry[1])
        return [cause for cause in causes if cause != NO_MESSAGE]

    # Memberships of this node

    def _begin_membership(self, group: GroupId) -> None:
        """Of others nothing is done until they welcome this node; of its own, everything."""
        self.done[group] = {self.me: self._published_to(group)}
        self.waiting.wake_all()  # what lacked nothing of the group may lack something now

    def _end_membership(self, group: GroupId) -> None:
        self.farewells.leave(group, self._published_to(EVERYBODY) + 1)
        self.waiting.leave_only(
            [
                entry
                for entry in self.waiting.entries()
                if not isinstance(entry[1], Timestamped) or entry[1].group != group
            ]
        )

    def _on_welcome(self, sender: NodeId, welcome: Welcome) -> None:
        # Not in the paper: a view says it there.
        if self.lists.on_welcome(sender, welcome):
            self._not_meant(welcome.group, sender, welcome.published)

    def _take_for_welcome(self, origin: NodeId, message: Timestamped) -> None:
        """If its origin died before its welcome, the first one that is meant for us says it all.

        Others would vouch for as much, a question and an answer later.
        """
        group = message.group
        if group != EVERYBODY and not self.lists.is_welcomed(group, origin):
            self.lists.welcome_by(group, origin)
            self._not_meant(group, origin, message.before)

    def _not_meant(self, group: GroupId, sender: NodeId, published: int) -> None:
        """What a node had published so far to a group need not be waited for."""
        done = self.done.setdefault(group, {})
        done[sender] = max(published, done.get(sender, 0))
        self.waiting.wake((group, sender))

    def _on_vouched(self, vouched: Vouched) -> None:
        # Not in the paper: see `vouching`.
        if self.lists.time_of(vouched.group, self.me) == vouched.time:
            for node, published in vouched.counts.items():
                self._not_meant(vouched.group, node, published)

    def _on_unwelcomed(self, member: NodeId, asked: Unwelcomed, out: Outbox | None) -> None:
        # Not in the paper: see `vouching`.
        if out is not None:
            self.vouching.vouch(member, asked, self.past, out)

    # Farewells

    def _say_farewell(self, member: NodeId, group: GroupId, number: int, out: Outbox) -> None:
        self.sending.entrust(member, out)
        counts = dict(self.past.get(group, {}))
        self.sending.tell([member], Farewell(group, number, counts), out)

    def _on_farewell(self, sender: NodeId, farewell: Farewell) -> None:
        # Not in the paper: see `farewells`.
        if self.farewells.on_farewell(sender, farewell, len(self.everybody) - 1):
            self.waiting.wake_all()

    def _on_unheard(self, sender: NodeId, unheard: Unheard, out: Outbox | None) -> None:
        # Not in the paper: see `farewells`.
        if out is not None and self.done.get(EVERYBODY, {}).get(sender, 0) >= unheard.number:
            self._say_farewell(sender, unheard.group, unheard.number, out)

    def _count_for_farewells(self, origin: NodeId, message: Timestamped) -> None:
        group, number, before = message.group, message.number, message.before
        if self.farewells.keeps(origin, group, number, before, self.past.get(group, {})):
            self.waiting.wake((group, origin))

    # Time and neighbours

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        # Not in the paper, whose channels are reliable and whose members are agreed on.
        if name == LEFT:
            out.persist(Freed(self.waiting.size()))
            self._deliver_ready(None, out)
            self.sending.safe.tend(out)
        elif name == ASK:
            self.vouching.ask(self.done, out)
        else:
            self.sending.on_timer(name, subject, out)

    def on_neighbour_up(self, peer: NodeId, link: LinkId, newborn: bool, out: Outbox) -> None:
        # Not in the paper, whose channels are reliable.
        self.sending.on_neighbour_up(peer, out)
        self.vouching.begin_again(self.done, out)

    def on_neighbour_down(self, peer: NodeId, link: LinkId, out: Outbox) -> None:
        # Not in the paper, whose channels are reliable.
        self.sending.on_neighbour_down(peer, out)
        self.vouching.begin_again(self.done, out)

    def on_suspect(self, peer: NodeId, out: Outbox) -> None:
        # Section 5.5 lets a suspicion begin a flush; here copies are offered, and others vouch.
        self.sending.on_suspect(peer, out)
        self.vouching.begin_again(self.done, out)

    def on_trust(self, peer: NodeId, out: Outbox) -> None:
        # Not in the paper, in which a suspicion is for good.
        self.sending.on_trust(peer, out)

    # After a restart. Deliveries and welcomes stand in the same entries as what led to them, so
    # nothing is said again.

    def on_recover(self, records: list[Message], out: Outbox) -> None:
        # Not in the paper, in which who fails comes back as somebody else.
        for record in records:
            self._restore(record)
        if self.waiting.size() > 0:
            out.start_timer(LEFT, 0)  # the crash may have come before what a leave had freed

    def _restore(self, record: Message) -> None:
        self.farewells.restore(record)
        self.lists.restore(record)
        self.sending.restore(record)
        self.waiting.restore(record)
        if isinstance(record, Tables):
            self.past, self.done = _copy(record.past), _copy(record.done)
        elif isinstance(record, Freed):
            self._ready()
        elif isinstance(record, Sent) and isinstance(record.content, Timestamped):
            self._restore_sent(record.content)
        elif isinstance(record, Taken):
            self._take(record.sender, record.content, None)
            self._ready()

    def _restore_sent(self, message: Timestamped) -> None:
        content = message.content
        if isinstance(content, Joined):
            self._begin_membership(content.group)
            self.lists.join(content.group)
        elif isinstance(content, Left):
            self._end_membership(content.group)
            self.lists.leave(content.group)
        self._count_sent(message)

    def snapshot(self) -> list[Message]:
        return [
            Tables(_copy(self.past), _copy(self.done)),
            *self.farewells.snapshot(),
            *self.waiting.snapshot(),
            *self.lists.snapshot(),
            *self.sending.snapshot(),
        ]

    def kept_bytes(self) -> int:
        return self.sending.kept_bytes()

    def kept_for(self) -> dict[NodeId, int]:
        return self.sending.links.kept_for()

    def state_size(self) -> int:
        counts = sum(len(clock) for clock in self.past.values())
        counts += sum(len(clock) for clock in self.done.values())
        shared = self.waiting.size() + self.lists.size() + self.sending.size()
        return counts + self.farewells.size() + shared


def _copy(clocks: Clocks) -> Clocks:
    return {group: dict(clock) for group, clock in clocks.items()}


def build(setup: Setup) -> Cbcast:
    return Cbcast(setup)


def nothing_waits(multicast: Multicast) -> bool:
    assert isinstance(multicast, Cbcast)
    return multicast.waiting.size() == 0


def nothing_is_kept(multicast: Multicast) -> bool:
    assert isinstance(multicast, Cbcast)
    return multicast.sending.kept() == 0


SPEC = ProtocolSpec(
    name="cbcast",
    summary="A vector clock per group, timestamps compressed (CBCAST of 1991).",
    build=build,
    messages=[
        Timestamped,
        Tables,
        Freed,
        Unwelcomed,
        Vouched,
        *farewells.MESSAGES,
        *addressed_sending.MESSAGES,
    ],
    guarantees=CAUSAL_WITHOUT_THE_DEAD,
    options=addressed_sending.OPTIONS,
    needs=Needs(overlay="mesh"),
    restart="resume",
    tolerates=addressed_sending.tolerates,
    at_rest=[nothing_waits, nothing_is_kept],
    rare=[*addressed_sending.RARE, "addressed_multicast.not_meant", "cbcast.vouched"],
    events=addressed_sending.EVENTS,
    cost="one entry per group and publisher heard of since: 0 to groups * n of 2 to 10 bytes; "
    "3 bytes and one entry per member that joined or left",
    offers=["explain", "new_groups"],
    except_when="a node joins a group while links to it are slow or a member is wrongly suspected: "
    "then it may miss messages, and order breaks at it",
)
