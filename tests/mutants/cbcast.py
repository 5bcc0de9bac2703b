"""Planted bugs of `cbcast`: counts per group, compressed, with members that come and go."""

from collections.abc import Iterator

from causalcast.core import GroupId, Message, NodeId, Outbox
from causalcast.parts.addressed.addressed_messages import EVERYBODY, Numbered, Spreading
from causalcast.parts.addressed.addressed_sending import AddressedSending
from causalcast.parts.addressed.member_lists import Addressed, Joined, MemberLists, Welcome
from causalcast.parts.safe_keeping import Answer, Name, SafeKeeping
from causalcast.protocols.cbcast.farewells import Farewell, Farewells
from causalcast.protocols.cbcast.protocol import Cbcast
from causalcast.protocols.cbcast.timestamped import Clocks, Timestamped
from causalcast.protocols.cbcast.vouching import Unwelcomed, Vouching
from causalcast.swarm.mutant import Mutant, Patch

_missing = Cbcast._missing
_count = Cbcast._count


def missing_of_its_own_group(
    self: Cbcast, sender: NodeId, message: Timestamped
) -> Iterator[tuple[GroupId, NodeId, int]]:
    """Counts of other groups are not looked at."""
    return (lack for lack in _missing(self, sender, message) if lack[0] == message.group)


def missing_nothing(
    self: Cbcast, sender: NodeId, message: Timestamped
) -> Iterator[tuple[GroupId, NodeId, int]]:
    return iter(())


def missing_no_welcome(
    self: Cbcast, sender: NodeId, message: Timestamped
) -> Iterator[tuple[GroupId, NodeId, int]]:
    """Nobody's welcome is waited for: what is not counted yet counts as never meant."""
    for group, node, number in _missing(self, sender, message):
        if group == EVERYBODY or node == sender or self.lists.is_welcomed(group, node):
            yield group, node, number


def count_without_foreign_groups(self: Cbcast, sender: NodeId, message: Timestamped) -> None:
    """Counts of groups this node is not in are not kept for others."""
    mine = {
        group: clock
        for group, clock in message.clocks.items()
        if group == EVERYBODY or self.lists.has(group, self.me)
    }
    number, before = message.number, message.before
    _count(self, sender, Timestamped(message.group, number, before, mine, message.content))


def hand_nothing_over(
    self: AddressedSending, peer: NodeId, origin: NodeId, message: Message, out: Outbox
) -> None:
    """What an origin that is away cannot bring, nobody brings."""


def everywhere_at_once(self: AddressedSending, spreading: Spreading) -> bool:
    return True


def never_everywhere(self: AddressedSending, spreading: Spreading) -> bool:
    return False


def entrust_nothing(self: AddressedSending, node: NodeId, out: Outbox) -> None:
    """Who is no member gets effects alone."""
    self._to_entrust.pop(node, None)


def old_for_nobody(self: Cbcast, origin: NodeId, name: Name) -> bool:
    return False


def vouch_for_nobody(
    self: Vouching, member: NodeId, asked: Unwelcomed, past: Clocks, out: Outbox
) -> None:
    """Nobody says what a dead node had published before it knew of a new member."""


def addressed_to_nobody(
    self: AddressedSending, message: Numbered, group: GroupId, node: NodeId, time: int
) -> bool:
    """What was meant for the new member is vouched for like everything else."""
    return False


def meant_for_any_time(self: MemberLists, group: GroupId, sent: Addressed) -> bool:
    """Whether it was meant for an earlier membership is not looked at."""
    return self.has(group, self.me)


def count_and_take_all_for_told(self: Cbcast, sender: NodeId, message: Timestamped) -> None:
    """A new member is taken to know what its group was told, and all the rest too."""
    _count(self, sender, message)
    if isinstance(message.content, Joined):
        group = message.content.group
        self.told[group] = {other: dict(clock) for other, clock in self.past.items()}


def changed_since_any(self: Cbcast, group: GroupId) -> Clocks:
    """What the members of one group were told, those of all groups were."""
    told: Clocks = {}
    for clocks in self.told.values():
        for other, clock in clocks.items():
            merged = told.setdefault(other, {})
            for node, count in clock.items():
                merged[node] = max(count, merged.get(node, 0))
    before, self.told = self.told, {group: told}
    changed = _changed_for(self, group)
    self.told = before
    return changed


_changed_for = Cbcast._changed_for


def welcome_counts_nothing(self: Cbcast, sender: NodeId, welcome: Welcome) -> None:
    """How many publications were not meant for the new member is forgotten."""
    self.lists.on_welcome(sender, welcome)


def begin_with_nothing_of_its_own(self: Cbcast, group: GroupId) -> None:
    self.done[group] = {}


def join_not_heard(self: MemberLists, node: NodeId, joined: Joined) -> None:
    """Who joined is never addressed."""


def arrived_at_one(self: AddressedSending, spreading: Spreading) -> bool:
    """Where one destination has it, all are taken to."""
    parcels = zip(spreading.to, spreading.parcels, strict=True)
    return any(self.links.has_taken(node, parcel) for node, parcel in parcels)


def suspicions_do_not_matter(self: SafeKeeping, node: NodeId) -> bool:
    return node not in self._up


def one_answer_is_enough(self: SafeKeeping, sender: NodeId, answer: Answer, out: Outbox) -> None:
    """What one of the others has is forgotten."""
    for group, numbers in answer.has.items():
        for number in numbers:
            self._forget(answer.origin, (group, number))
    _on_answer(self, sender, answer, out)


_on_answer = SafeKeeping._on_answer


def miss_nothing(self: AddressedSending, origin: NodeId, name: Name) -> bool:
    return False


def farewell_not_heard(self: Farewells, sender: NodeId, farewell: Farewell, peers: int) -> bool:
    """Who left waits for what will never come."""
    return False


MUTANTS = [
    Mutant(
        "causes_not_checked",
        "a message waits for what it names",
        ["causal_order", "fifo_order"],
        [Patch(Cbcast, "_missing", missing_nothing)],
    ),
    Mutant(
        "other_groups_not_checked",
        "counts of all groups that a member is in are checked",
        ["causal_order"],
        [Patch(Cbcast, "_missing", missing_of_its_own_group)],
    ),
    Mutant(
        "welcome_not_waited_for",
        "a new member waits until it knows what was not meant for it",
        ["causal_order", "fifo_order", "agreement"],
        [Patch(Cbcast, "_missing", missing_no_welcome)],
    ),
    Mutant(
        "foreign_counts_dropped",
        "counts of groups a node is not in are passed on",
        ["causal_order"],
        [Patch(Cbcast, "_count", count_without_foreign_groups)],
    ),
    Mutant(
        "new_member_told_only_news",
        "the first timestamp after a join is whole",
        ["causal_order", "fifo_order", "agreement"],
        [Patch(Cbcast, "_count", count_and_take_all_for_told)],
    ),
    Mutant(
        "told_per_node_not_group",
        "what was told is remembered per group",
        ["causal_order", "fifo_order"],
        [Patch(Cbcast, "_changed_for", changed_since_any)],
    ),
    Mutant(
        "welcome_without_count",
        "a welcome says which publications were not meant for the new member",
        ["agreement", "at_rest"],
        [Patch(Cbcast, "_on_welcome", welcome_counts_nothing)],
    ),
    Mutant(
        "own_count_forgotten",
        "a new member has done its own publications to the group",
        ["agreement", "validity", "at_rest"],
        [Patch(Cbcast, "_begin_membership", begin_with_nothing_of_its_own)],
    ),
    Mutant(
        "join_not_heard",
        "who joined is addressed",
        ["agreement"],
        [Patch(MemberLists, "on_joined", join_not_heard)],
    ),
    Mutant(
        "nothing_handed_over",
        "what an origin that died cannot bring, others bring",
        ["agreement"],
        [Patch(AddressedSending, "hand_over", hand_nothing_over)],
    ),
    Mutant(
        "forgotten_too_soon",
        "a copy is kept until it is at all its destinations",
        ["agreement"],
        [Patch(AddressedSending, "_has_arrived", everywhere_at_once)],
    ),
    Mutant(
        "never_everywhere",
        "an origin says which of its copies are everywhere",
        ["at_rest"],
        [Patch(AddressedSending, "_has_arrived", never_everywhere)],
    ),
    Mutant(
        "outsiders_not_entrusted",
        "who is no member keeps the causes of what it delivers",
        ["agreement"],
        [Patch(AddressedSending, "entrust", entrust_nothing)],
    ),
    Mutant(
        "handed_over_taken_twice",
        "what comes from its origin and from others is delivered once",
        ["no_duplication", "fifo_order", "causal_order", "invariant"],
        [Patch(Cbcast, "_is_old", old_for_nobody)],
    ),
    Mutant(
        "nobody_vouches",
        "others say what a dead node published before it knew of a new member",
        ["agreement"],
        [Patch(Vouching, "vouch", vouch_for_nobody)],
    ),
    Mutant(
        "vouched_for_too_much",
        "… and not what was meant for the new member",
        ["agreement", "causal_order", "fifo_order"],
        [Patch(AddressedSending, "is_addressed", addressed_to_nobody)],
    ),
    Mutant(
        "old_copies_taken",
        "what was meant for an earlier membership is not delivered",
        ["agreement", "causal_order", "fifo_order", "no_duplication"],
        [Patch(MemberLists, "is_meant", meant_for_any_time)],
    ),
    Mutant(
        "arrived_at_one",
        "an origin says that a copy is everywhere when all have it",
        ["agreement"],
        [Patch(AddressedSending, "_has_arrived", arrived_at_one)],
        for_good=True,
    ),
    Mutant(
        "suspicions_do_not_matter",
        "who is suspected is away, for who hangs has links",
        ["agreement"],
        [Patch(SafeKeeping, "is_away", suspicions_do_not_matter)],
        for_good=True,
    ),
    Mutant(
        "one_answer_is_enough",
        "others forget a copy when all they offered it to have it",
        ["agreement"],
        [Patch(SafeKeeping, "_on_answer", one_answer_is_enough)],
        for_good=True,
    ),
    Mutant(
        "offers_turned_down",
        "who lacks what is offered says so",
        ["agreement"],
        [Patch(AddressedSending, "is_missing", miss_nothing)],
        for_good=True,
    ),
    Mutant(
        "farewell_not_heard",
        "who left a group no longer waits when the others knew of it",
        ["agreement", "at_rest"],
        [Patch(Farewells, "on_farewell", farewell_not_heard)],
    ),
]
