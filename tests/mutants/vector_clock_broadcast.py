"""Planted bugs of `vector_clock_broadcast`, of the parts it is made of, and of the world below."""

from causalcast.core import GroupId, MessageId, NodeId, Outbox, Publication
from causalcast.core.effects import Deliver, Effect
from causalcast.core.ids import message_id, number_of, origin_of
from causalcast.core.message import Message
from causalcast.parts.broadcast.reliable_sending import Have, Neighbour, ReliableSending
from causalcast.parts.broadcast.stamped_broadcast import Delivered, Stamped, StampedBroadcast
from causalcast.parts.causal_delivery import NOTHING, CausalDelivery, Held
from causalcast.parts.duplicate_filter import DuplicateFilter
from causalcast.parts.safe_keeping import Answer, Name, SafeKeeping
from causalcast.parts.vector_clock import VectorClock
from causalcast.protocols.vector_clock_broadcast import VectorClockBroadcast
from causalcast.simulator.worlds.lives import Lives
from causalcast.simulator.worlds.sim_node import SimNode
from causalcast.simulator.worlds.simulated_world import DELIVER, SimulatedWorld
from causalcast.simulator.worlds.steps import Steps
from causalcast.swarm.mutant import Mutant, Patch
from causalcast.trace.kinds import NONE

_missing = CausalDelivery._missing
_arrive = CausalDelivery.arrive
_accept = ReliableSending.accept


def no_causes(self: VectorClockBroadcast) -> VectorClock:
    return {}


def publish_for_others(self: VectorClockBroadcast, publication: Publication, out: Outbox) -> None:
    self.broadcast.publish(publication, self._causes_of_next(), out)


def missing_of_own_origin_only(self: CausalDelivery, held: Held) -> MessageId:
    return _missing(self, Held(held.publication, {}))


def missing_of_others_only(self: CausalDelivery, held: Held) -> MessageId:
    for node, count in held.needs.items():
        if self.delivered.get(node, 0) < count:
            return message_id(node, count)
    return NOTHING


def missing_one_less(self: CausalDelivery, held: Held) -> MessageId:
    """The comparison is off by one: the very last cause is not waited for."""
    less = {node: count - 1 for node, count in held.needs.items()}
    return _missing(self, Held(held.publication, less))


def arrive_alone(self: CausalDelivery, publication: Publication, needs: VectorClock) -> list[Held]:
    return _arrive(self, publication, needs)[:1]


def arrive_and_free_all(
    self: CausalDelivery, publication: Publication, needs: VectorClock
) -> list[Held]:
    """Whoever waited for one cause is delivered, whatever else it lacks."""
    held = Held(publication, needs)
    missing = _missing(self, held)
    if missing != NOTHING:
        self._hold(held, missing)
        return []
    self._count(publication)
    ready = [held]
    for delivered in ready:
        for waiting in self._waiting.pop(delivered.publication.id, []):
            del self._waits_for[waiting.publication.id]
            self._count(waiting.publication)
            ready.append(waiting)
    return ready


def add_off_by_one(self: DuplicateFilter, message: MessageId) -> bool:
    origin, number = origin_of(message), number_of(message)
    if number == self.counts.get(origin, 0) and number > 0:
        return True
    return _add(self, message)


_add = DuplicateFilter.add


def add_beyond_closes_gap(self: DuplicateFilter, origin: NodeId, number: int) -> bool:
    self.counts[origin] = number
    return True


def accept_without_record(
    self: ReliableSending, message: Message, sender: NodeId, out: Outbox
) -> bool:
    before = len(out.records)
    new = _accept(self, message, sender, out)
    del out.records[before:]
    return new


def accept_without_spreading(
    self: ReliableSending, message: Message, sender: NodeId, out: Outbox
) -> bool:
    self.direct = True  # only the origin sends
    return _accept(self, message, sender, out)


def repeat_nothing(self: ReliableSending, peer: NodeId, neighbour: Neighbour, out: Outbox) -> None:
    return


def acknowledge_the_highest(
    self: ReliableSending, peer: NodeId, neighbour: Neighbour, out: Outbox
) -> None:
    counts: dict[NodeId, int] = {}
    for identity in neighbour.to_acknowledge:
        origin = origin_of(identity)
        counts[origin] = max(counts.get(origin, 0), number_of(identity))
    neighbour.to_acknowledge = {}
    out.send(peer, Have(counts, [], False, False))


def greet_and_send_nothing(
    self: ReliableSending, sender: NodeId, message: Message, out: Outbox
) -> None:
    neighbour = self.neighbours[sender]
    assert isinstance(message, Have)
    self._learn(neighbour, message)
    if message.all_of_it:
        neighbour.heard = True
    if message.answer:
        self._tell_all(sender, neighbour, out)


def forget_what_one_has(self: ReliableSending, origin: NodeId) -> None:
    if self._kept:
        anywhere = max(n.has.counts.get(origin, 0) for n in self.neighbours.values())
        for identity in [i for i in self._kept if origin_of(i) == origin]:
            if number_of(identity) <= anywhere:
                del self._kept[identity]


def keep_for_ever(self: ReliableSending, origin: NodeId) -> None:
    return


def recover_nothing(self: VectorClockBroadcast, records: list[Message], out: Outbox) -> None:
    return


def restore_without_the_held(self: StampedBroadcast, record: Message) -> list[Stamped]:
    if isinstance(record, Delivered):
        self.delivery.delivered = dict(record.counts)
        return []
    accepted = self.sending.restore(record)
    if not isinstance(accepted, Stamped) or self._was_delivered(accepted):
        return []
    if self.delivery._missing(Held(accepted.publication, accepted.needs)) == NOTHING:
        self.delivery._count(accepted.publication)
    return []


def snapshot_without_the_held(self: StampedBroadcast) -> list[Message]:
    return [Delivered(dict(self.delivery.delivered)), *self.sending.snapshot([])]


def forget_the_last_number(self: SimNode) -> None:
    _forget_volatile(self)
    if self.disk.published > 0:
        self.published = self.disk.published - 1


_forget_volatile = SimNode.forget_volatile


def deliver_to_everybody(self: SimulatedWorld, node: NodeId, effect: Deliver) -> None:
    publication = effect.publication
    size = len(publication.body)
    self.shared.recorder.add(node, self.now, DELIVER, publication.id, publication.group, NONE, size)


def crash_without_the_entry(
    self: Steps, node: SimNode, publication: Publication | None, effects: list[Effect]
) -> None:
    """What a step sends and delivers becomes visible, and then its entry is lost."""
    from causalcast.core.world import perform

    self._out.records.clear()
    perform(effects, node.me, self._world)
    self._shared.count("crash_in_step")
    self._world.crash(node, 1.0)


def compact_to_nothing(self: Lives, me: NodeId) -> None:
    if self._nodes[me].up:
        self._shared.count("compact")
        self._nodes[me].disk.records = []


def hand_nothing_over(
    self: ReliableSending, peer: NodeId, origin: NodeId, message: Message, out: Outbox
) -> None:
    """What an origin that is away cannot bring, nobody brings."""


def everywhere_at_once(self: ReliableSending) -> int:
    return self.seen.counts.get(self.me, 0)


def nobody_is_away(self: SafeKeeping, node: NodeId) -> bool:
    """Origins are asked for ever."""
    return False


def ask_nobody(self: SafeKeeping, origin: NodeId, out: Outbox) -> None:
    """What an origin told and nobody heard is not asked for."""


def forget_nothing(self: SafeKeeping, origin: NodeId, group: GroupId, count: int) -> None:
    """Copies that are everywhere are kept all the same."""


def restore_own_alone(self: ReliableSending, identity: MessageId, message: Message) -> None:
    """Copies of others are not kept."""


def restore_what_is_own(self: ReliableSending, record: Message) -> Message | None:
    """After a restart nothing is kept for others."""
    accepted = _restore(self, record)
    for origin, name, _ in list(self.safe.copies()):
        self.safe._forget(origin, name)
    return accepted


_restore = ReliableSending.restore


def suspicions_do_not_matter(self: SafeKeeping, node: NodeId) -> bool:
    return node not in self._up


def one_answer_is_enough(self: SafeKeeping, sender: NodeId, answer: Answer, out: Outbox) -> None:
    """What one of the others has is forgotten."""
    for group, numbers in answer.has.items():
        for number in numbers:
            self._forget(answer.origin, (group, number))
    _on_answer(self, sender, answer, out)


_on_answer = SafeKeeping._on_answer


def miss_nothing(self: ReliableSending, origin: NodeId, name: Name) -> bool:
    return False


DIRECT = {"spread": "direct"}

MUTANTS = [
    Mutant(
        "causes_not_sent",
        "a publication carries what its origin had delivered",
        ["causal_order"],
        [Patch(VectorClockBroadcast, "_causes_of_next", no_causes)],
    ),
    Mutant(
        "causes_not_checked",
        "a publication waits for its causes",
        ["causal_order"],
        [Patch(CausalDelivery, "_missing", missing_of_own_origin_only)],
    ),
    Mutant(
        "last_cause_not_checked",
        "it waits for the last of its causes too",
        ["causal_order"],
        [Patch(CausalDelivery, "_missing", missing_one_less)],
    ),
    Mutant(
        "own_slot_not_checked",
        "it waits for the earlier ones of its origin",
        ["fifo_order", "causal_order", "invariant"],
        [Patch(CausalDelivery, "_missing", missing_of_others_only)],
    ),
    Mutant(
        "held_not_re_examined",
        "a delivery frees what waited for it",
        ["agreement", "fifo_order"],
        [Patch(CausalDelivery, "arrive", arrive_alone)],
    ),
    Mutant(
        "held_freed_too_early",
        "what is freed is looked at again for other causes",
        ["causal_order", "invariant"],
        [Patch(CausalDelivery, "arrive", arrive_and_free_all)],
    ),
    Mutant(
        "own_not_delivered",
        "a publisher that is a member delivers its own",
        ["validity"],
        [Patch(VectorClockBroadcast, "on_publish", publish_for_others)],
    ),
    Mutant(
        "duplicate_filter_off_by_one",
        "a further copy is recognised",
        ["no_duplication"],
        [Patch(DuplicateFilter, "add", add_off_by_one)],
    ),
    Mutant(
        "gap_taken_for_seen",
        "what lies before a gap is still missing",
        ["agreement", "at_rest", "no_exception"],
        [Patch(DuplicateFilter, "_add_beyond", add_beyond_closes_gap)],
    ),
    Mutant(
        "accepted_not_persisted",
        "what was accepted survives a crash",
        ["no_duplication", "agreement", "at_rest"],
        [Patch(ReliableSending, "accept", accept_without_record)],
    ),
    Mutant(
        "not_passed_on",
        "every node passes publications on",
        ["agreement", "at_rest"],
        [Patch(ReliableSending, "accept", accept_without_spreading)],
    ),
    Mutant(
        "never_repeated",
        "what is not acknowledged is sent again",
        ["agreement", "at_rest"],
        [Patch(ReliableSending, "_repeat", repeat_nothing)],
    ),
    Mutant(
        "acknowledged_over_a_gap",
        "an acknowledgement stops at the first gap",
        ["agreement", "at_rest"],
        [Patch(ReliableSending, "_acknowledge", acknowledge_the_highest)],
    ),
    Mutant(
        "no_catching_up",
        "who comes back gets what it lacks",
        ["agreement", "at_rest"],
        [Patch(ReliableSending, "on_message", greet_and_send_nothing)],
    ),
    Mutant(
        "forgotten_too_early",
        "a message is kept until every neighbour has it",
        ["agreement", "no_exception"],
        [Patch(ReliableSending, "_forget", forget_what_one_has)],
    ),
    Mutant(
        "never_forgotten",
        "a message that every neighbour has is forgotten",
        ["at_rest"],
        [Patch(ReliableSending, "_forget", keep_for_ever)],
    ),
    Mutant(
        "recovered_empty",
        "a node comes back with what it persisted",
        ["no_duplication", "agreement", "at_rest", "validity"],
        [Patch(VectorClockBroadcast, "on_recover", recover_nothing)],
    ),
    Mutant(
        "held_not_recovered",
        "what was held at a crash is held again",
        ["agreement", "at_rest"],
        [Patch(StampedBroadcast, "restore", restore_without_the_held)],
    ),
    Mutant(
        "held_not_in_snapshot",
        "a snapshot contains what is held",
        ["agreement", "at_rest"],
        [Patch(StampedBroadcast, "snapshot", snapshot_without_the_held)],
    ),
    Mutant(
        "snapshot_lost",
        "compaction replaces records, it does not drop them",
        ["no_duplication", "agreement", "at_rest"],
        [Patch(Lives, "compact", compact_to_nothing)],
    ),
    Mutant(
        "number_used_again",
        "a number that was used is never used again",
        ["no_creation"],
        [Patch(SimNode, "forget_volatile", forget_the_last_number)],
    ),
    Mutant(
        "group_filter_dropped",
        "only members deliver",
        ["no_creation"],
        [Patch(SimulatedWorld, "deliver", deliver_to_everybody)],
    ),
    Mutant(
        "spoken_before_persisted",
        "nothing is visible before its entry is durable",
        ["no_duplication", "agreement", "no_creation"],
        [Patch(Steps, "_finish_half", crash_without_the_entry)],
    ),
    Mutant(
        "nothing_handed_over",
        "where copies go straight: what an origin that died cannot bring, others bring",
        ["agreement"],
        [Patch(ReliableSending, "hand_over", hand_nothing_over)],
        DIRECT,
        for_good=True,
    ),
    Mutant(
        "others_forget_too_soon",
        "… and keep it until all have it",
        ["agreement"],
        [Patch(ReliableSending, "_everywhere", everywhere_at_once)],
        DIRECT,
        for_good=True,
    ),
    Mutant(
        "others_keep_nothing",
        "… from the moment it is here",
        ["agreement"],
        [Patch(ReliableSending, "_keep_safe", restore_own_alone)],
        DIRECT,
        for_good=True,
    ),
    Mutant(
        "others_keep_for_ever",
        "… and no longer",
        ["at_rest"],
        [Patch(SafeKeeping, "_forget_up_to", forget_nothing)],
        DIRECT,
        for_good=True,
    ),
    Mutant(
        "silent_origins_not_asked",
        "… and ask for what was told and lost",
        ["at_rest"],
        [Patch(SafeKeeping, "_ask", ask_nobody)],
        DIRECT,
        for_good=True,
    ),
    Mutant(
        "nobody_is_away",
        "… and offer it when its origin is away",
        ["agreement"],
        [Patch(SafeKeeping, "is_away", nobody_is_away)],
        DIRECT,
        for_good=True,
    ),
    Mutant(
        "suspicions_do_not_matter",
        "… or suspected, for who hangs has links",
        ["agreement"],
        [Patch(SafeKeeping, "is_away", suspicions_do_not_matter)],
        DIRECT,
        for_good=True,
    ),
    Mutant(
        "others_restart_with_nothing",
        "… and have it after a restart",
        ["agreement"],
        [Patch(ReliableSending, "restore", restore_what_is_own)],
        DIRECT,
        for_good=True,
    ),
    Mutant(
        "one_answer_is_enough",
        "… and forget it when all they offered it to have it",
        ["agreement"],
        [Patch(SafeKeeping, "_on_answer", one_answer_is_enough)],
        DIRECT,
        for_good=True,
    ),
    Mutant(
        "offers_turned_down",
        "… and who lacks it says so",
        ["agreement"],
        [Patch(ReliableSending, "is_missing", miss_nothing)],
        DIRECT,
        for_good=True,
    ),
]
