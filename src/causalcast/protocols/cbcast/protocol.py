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
  kept and handed over (`addressed_multicast`). If a node dies before its welcome, others
  vouch for it. Who left a group waits for what the others sent before they knew, or for their word
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

from causalcast.core import (
    CAUSAL_WITHOUT_THE_DEAD,
    GroupId,
    LinkId,
    Message,
    MessageId,
    Needs,
    NodeId,
    Outbox,
    ProtocolSpec,
    Setup,
    Wire,
    message_id,
    number_of,
)
from causalcast.core.ids import NO_MESSAGE
from causalcast.parts.addressed import addressed_multicast
from causalcast.parts.addressed.addressed_multicast import AddressedMulticast, Published
from causalcast.parts.addressed.member_lists import NOT_ADDRESSED, Joined, Welcome
from causalcast.parts.addressed.waiting_room import Lack
from causalcast.parts.safe_keeping import Name
from causalcast.parts.vector_clock import VectorClock
from causalcast.protocols.cbcast import farewells
from causalcast.protocols.cbcast.farewells import Farewell, Farewells, Unheard

Clocks = dict[GroupId, VectorClock]
EVERYBODY = GroupId((1 << 31) - 1)  # no group of an application: all nodes, for joins and leaves
LEFT = "cbcast.left"
ASK = "cbcast.ask"
MOST_PATIENCE = 64  # times the first pause; then nothing is asked until something changes


class Timestamped(Message):
    """Deliver it when you have what is named of your groups; it is itself the last of its slot."""

    wire = Wire(
        "cbcast.timestamped",
        group=GroupId,
        number=int,
        before=int,
        clocks=dict[GroupId, dict[NodeId, int]],
        content=Message,
    )

    def __init__(
        self, group: GroupId, number: int, before: int, clocks: Clocks, content: Message
    ) -> None:
        self.group = group
        self.number = number  # of the publication; joins and leaves have numbers of their own
        self.before = before  # the number of its sender's last one to this group
        self.clocks = clocks
        self.content = content


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


class Unwelcomed(Message):
    """The sender's `time`-th membership of a group was not welcomed by these, who seem to be away.

    The sender assumes that their publications to the group up to these counts were not addressed to
    it. Reply if you know a higher count.
    """

    wire = Wire("cbcast.unwelcomed", group=GroupId, time=int, counts=dict[NodeId, int])

    def __init__(self, group: GroupId, time: int, counts: VectorClock) -> None:
        self.group = group
        self.time = time
        self.counts = counts


class Vouched(Message):
    """Up to these counts no publication to the group was meant for your `time`-th membership."""

    wire = Wire("cbcast.vouched", group=GroupId, time=int, counts=dict[NodeId, int])

    def __init__(self, group: GroupId, time: int, counts: VectorClock) -> None:
        self.group = group
        self.time = time
        self.counts = counts


class Cbcast(AddressedMulticast):
    """Counts per group, and messages that wait for what they name."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.past: Clocks = {}  # all that a publication of this node follows, of all groups
        self.done: Clocks = {}  # delivered here, or never meant for this node; of its own groups
        self.told: dict[GroupId, Clocks] = {}  # per group: the past that its members were told
        self.farewells = Farewells()
        self._first_pause = setup.number("repeat_after")
        self._pause = self._first_pause
        self._asking = False

    # Sending

    def wrap(self, group: GroupId | None, to: list[NodeId], content: Message) -> Message:
        where = EVERYBODY if group is None else group
        before = self.past.get(where, {}).get(self.me, 0)
        number = before + 1
        if isinstance(content, Published):
            number = number_of(content.publication.id)
        return Timestamped(where, number, before, self._changed_for(where), content)

    def _changed_for(self, group: GroupId) -> Clocks:
        """The counts that the members of a group have not been told by this node.

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

    def count_sent(self, message: Message) -> None:
        assert isinstance(message, Timestamped)
        group = message.group
        self.past.setdefault(group, {})[self.me] = message.number
        self.done.setdefault(group, {})[self.me] = message.number
        self.told[group] = _copy(self.past)

    def published_to(self, group: GroupId) -> int:
        return self.past.get(group, {}).get(self.me, 0)

    # Delivering

    def content_of(self, message: Message) -> Message | None:
        return message.content if isinstance(message, Timestamped) else None

    def name_of(self, message: Message) -> Name:
        assert isinstance(message, Timestamped)
        return message.group, message.number

    def is_old(self, sender: NodeId, name: Name) -> bool:
        group = name[0]
        if group != EVERYBODY and not self.lists.has(group, self.me):
            return True
        return self.done.get(group, {}).get(sender, 0) >= name[1]

    def needs(self, node: NodeId, message: Message) -> bool:
        """Who left, or left and joined again, does not wait for what was sent to it before."""
        assert isinstance(message, Timestamped)
        group = message.group
        if group == EVERYBODY:
            return True
        return self._is_addressed(message, group, node, self.lists.time_of(group, node))

    def is_for_me(self, sender: NodeId, message: Message) -> bool:
        assert isinstance(message, Timestamped)
        content = message.content
        return not isinstance(content, Published) or self.is_meant(content)

    def takes(self, sender: NodeId, message: Message) -> None:
        """If its sender died before its welcome, the first one that is meant for us says it all.

        Others would vouch for as much, a question and an answer later.
        """
        assert isinstance(message, Timestamped)
        group = message.group
        if group != EVERYBODY and not self.lists.is_welcomed(group, sender):
            self.lists.welcome_by(group, sender)
            self._not_meant(group, sender, message.before)

    def lack(self, sender: NodeId, message: Message) -> Lack | None:
        return next(((group, node) for group, node, _ in self._lacks(sender, message)), None)

    def missing(self, sender: NodeId, message: Message) -> list[MessageId]:
        return [
            message_id(node, number) if number > 0 else NO_MESSAGE
            for _, node, number in self._lacks(sender, message)
        ]

    def _lacks(self, sender: NodeId, message: Message) -> Iterator[tuple[GroupId, NodeId, int]]:
        """Group, node and number of what it waits for; no number where it is no publication."""
        assert isinstance(message, Timestamped)
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

    def count(self, sender: NodeId, message: Message) -> Lack:
        assert isinstance(message, Timestamped)
        self.done.setdefault(message.group, {})[sender] = message.number
        self.past.setdefault(message.group, {})[sender] = message.number
        for group, clock in message.clocks.items():
            past = self.past.setdefault(group, {})
            for node, count in clock.items():
                past[node] = max(count, past.get(node, 0))
        if isinstance(message.content, Joined):
            self.told.pop(message.content.group, None)  # the new member was told nothing
        return message.group, sender

    def keeps(self, origin: NodeId, message: Message) -> None:
        assert isinstance(message, Timestamped)
        group, number, before = message.group, message.number, message.before
        if self.farewells.keeps(origin, group, number, before, self.past.get(group, {})):
            self.waiting.wake((group, origin))

    # Memberships of this node

    def begin_membership(self, group: GroupId) -> None:
        """Of others nothing is done until they welcome this node; of its own, everything."""
        self.done[group] = {self.me: self.past.get(group, {}).get(self.me, 0)}
        self.waiting.wake_all()  # what lacked nothing of the group may lack something now

    def welcomed(self, sender: NodeId, welcome: Welcome) -> None:
        self._not_meant(welcome.group, sender, welcome.published)

    def _not_meant(self, group: GroupId, sender: NodeId, published: int) -> None:
        """What a node had published so far to a group need not be waited for."""
        done = self.done.setdefault(group, {})
        done[sender] = max(published, done.get(sender, 0))
        self.waiting.wake((group, sender))

    # Welcomes and farewells that will never come

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> None:
        held = self.waiting.size()
        super().on_message(sender, message, out)
        if self.waiting.size() != held:
            self._pause = self._first_pause
        self._ask_soon(out)

    def on_neighbour_down(self, peer: NodeId, link: LinkId, out: Outbox) -> None:
        super().on_neighbour_down(peer, link, out)
        self._pause = self._first_pause
        self._ask_soon(out)

    def on_neighbour_up(self, peer: NodeId, link: LinkId, newborn: bool, out: Outbox) -> None:
        super().on_neighbour_up(peer, link, newborn, out)
        self._pause = self._first_pause
        self._ask_soon(out)

    def on_suspect(self, peer: NodeId, out: Outbox) -> None:
        super().on_suspect(peer, out)
        self._pause = self._first_pause
        self._ask_soon(out)

    def _unwelcoming(self) -> Clocks:
        """Per group: nodes that are away, did not welcome this one, and that something waits for;
        with how many of their publications are known not to be meant for it."""
        found: Clocks = {}
        for lack in self.waiting.lacks():
            group, node = GroupId(lack[0]), NodeId(lack[1])
            is_member = group != EVERYBODY and self.lists.has(group, self.me)
            is_late = is_member and not self.lists.is_welcomed(group, node)
            if is_late and self.safe.is_away(node):
                found.setdefault(group, {})[node] = self.done.get(group, {}).get(node, 0)
        return found

    def _unheard(self) -> dict[GroupId, Unheard]:
        """The leaves that something waits for whose sender is away."""
        found: dict[GroupId, Unheard] = {}
        if self.farewells.size() > 0:
            for sender, message in self.waiting.entries():
                if self.safe.is_away(sender) and isinstance(message, Timestamped):
                    for unheard in self.farewells.unheard(sender):
                        if unheard.group in message.clocks:
                            found[unheard.group] = unheard
        return found

    def _ask_soon(self, out: Outbox) -> None:
        is_patient = self._pause > MOST_PATIENCE * self._first_pause
        if not self._asking and not is_patient and (self._unwelcoming() or self._unheard()):
            self._asking = True
            out.start_timer(ASK, self._pause)

    def _ask(self, out: Outbox) -> None:
        self._asking = False
        for group, counts in self._unwelcoming().items():
            time = self.lists.time_of(group, self.me)
            self.links.send(self.safe.present(), Unwelcomed(group, time, counts), out)
        for unheard in self._unheard().values():
            out.note("cbcast.unheard")
            self.links.send(self.safe.present(), unheard, out)
        self._pause *= 2
        self._ask_soon(out)

    def _vouch(self, member: NodeId, asked: Unwelcomed, out: Outbox) -> None:
        """Say what is in this node's past and was not meant for a new member.

        Whatever was meant for it and is in the past is kept here, for the member lacks it.
        """
        group = asked.group
        if self.lists.time_of(group, member) != asked.time:
            return  # its join is not known here yet, or it is an old one
        counts = {}
        for node, known in asked.counts.items():
            not_meant = self.past.get(group, {}).get(node, 0)
            for origin, _, kept in self.safe.copies():
                if origin == node and self._is_addressed(kept, group, member, asked.time):
                    assert isinstance(kept, Timestamped)
                    not_meant = min(not_meant, kept.before)
            if not_meant > known:
                counts[node] = not_meant
        if counts:
            out.note("cbcast.vouched", member)
            self.links.send([member], Vouched(group, asked.time, counts), out)

    def _is_addressed(self, kept: Message, group: GroupId, member: NodeId, time: int) -> bool:
        """Whether a message to a group is meant for the `time`-th membership of `member`."""
        assert isinstance(kept, Timestamped)
        content = kept.content
        if kept.group != group or not isinstance(content, Published) or time == NOT_ADDRESSED:
            return False
        return self.lists.time_addressed(group, content, member) == time

    def on_left(self, member: NodeId, left: Message, group: GroupId, out: Outbox) -> None:
        self._say_farewell(member, group, self.name_of(left)[1], out)

    def _say_farewell(self, member: NodeId, group: GroupId, number: int, out: Outbox) -> None:
        self.entrust(member, out)
        counts = dict(self.past.get(group, {}))
        self.links.send([member], Farewell(group, number, counts), out)

    def take_other(self, sender: NodeId, taken: Message, out: Outbox | None) -> bool:
        if isinstance(taken, Farewell):
            if self.farewells.on_farewell(sender, taken, len(self.everybody) - 1):
                self.waiting.wake_all()
        elif isinstance(taken, Vouched):
            if self.lists.time_of(taken.group, self.me) == taken.time:
                for node, published in taken.counts.items():
                    self._not_meant(taken.group, node, published)
        elif isinstance(taken, Unwelcomed):
            if out is not None:
                self._vouch(sender, taken, out)
        elif isinstance(taken, Unheard):
            if out is not None and self.done.get(EVERYBODY, {}).get(sender, 0) >= taken.number:
                self._say_farewell(sender, taken.group, taken.number, out)
        else:
            return False
        return True

    def end_membership(self, group: GroupId) -> None:
        self.farewells.leave(group, self.published_to(EVERYBODY) + 1)
        self.leave_waiting_only(
            [
                entry
                for entry in self.waiting.entries()
                if not isinstance(entry[1], Timestamped) or entry[1].group != group
            ]
        )

    def on_leave_group(self, group: GroupId, out: Outbox) -> None:
        super().on_leave_group(group, out)
        # What waited for a publication to the group need not wait any more, but must not be
        # delivered as long as this node counts as a member: that is to the end of this step.
        out.start_timer(LEFT, 0)

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        if name == LEFT:
            out.persist(Freed(self.waiting.size()))
            self.pass_on(out)
            self.safe.tend(out)
        elif name == ASK:
            self._ask(out)
        else:
            super().on_timer(name, subject, out)

    # After a restart

    def on_recover(self, records: list[Message], out: Outbox) -> None:
        super().on_recover(records, out)
        if self.waiting.size() > 0:
            out.start_timer(LEFT, 0)  # the crash may have come before what a leave had freed

    def restore(self, record: Message) -> None:
        if isinstance(record, Tables):
            self.past, self.done = _copy(record.past), _copy(record.done)
        elif isinstance(record, Freed):
            self.pass_ready()
        else:
            self.farewells.restore(record)
            super().restore(record)

    def snapshot(self) -> list[Message]:
        tables = Tables(_copy(self.past), _copy(self.done))
        return [tables, *self.farewells.snapshot(), *self.shared_snapshot()]

    def state_size(self) -> int:
        counts = sum(len(clock) for clock in self.past.values())
        counts += sum(len(clock) for clock in self.done.values())
        return counts + self.farewells.size() + super().state_size()


def _copy(clocks: Clocks) -> Clocks:
    return {group: dict(clock) for group, clock in clocks.items()}


def build(setup: Setup) -> Cbcast:
    return Cbcast(setup)


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
        *addressed_multicast.MESSAGES,
    ],
    guarantees=CAUSAL_WITHOUT_THE_DEAD,
    options=addressed_multicast.OPTIONS,
    needs=Needs(overlay="mesh"),
    restart="resume",
    tolerates=addressed_multicast.tolerates,
    at_rest=[addressed_multicast.nothing_waits, addressed_multicast.nothing_is_kept],
    rare=[*addressed_multicast.RARE, "addressed_multicast.not_meant", "cbcast.vouched"],
    events=addressed_multicast.EVENTS,
    cost="one entry per group and publisher heard of since: 0 to groups * n of 2 to 10 bytes; "
    "3 bytes and one entry per member that joined or left",
    offers=["explain"],
    except_when="a node joins a group while links to it are slow or a member is wrongly suspected: "
    "then it may miss messages, and order breaks at it",
)
