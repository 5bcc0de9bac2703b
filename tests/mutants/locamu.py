"""Planted bugs of `locamu`: the errors of the papers put back, and slips that are easy to make."""

from causalcast.core import Message, NodeId, Outbox, Setup
from causalcast.parts.tree.neighbourhood import NOBODY, Neighbourhood, Pair
from causalcast.protocols.locamu.acknowledgements import Acknowledgements
from causalcast.protocols.locamu.arrivals import Arrivals
from causalcast.protocols.locamu.arrived_copy import Arrived
from causalcast.protocols.locamu.forwarding import Forwarding
from causalcast.protocols.locamu.headers import Headers
from causalcast.protocols.locamu.link_header import HeaderReader
from causalcast.protocols.locamu.local_past import LocalPast, NumberSet
from causalcast.protocols.locamu.message_log import Record
from causalcast.protocols.locamu.messages import (
    Admission,
    Copy,
    Kept,
    Noted,
    Past,
    Probe,
    Subscription,
)
from causalcast.protocols.locamu.missing import Missing
from causalcast.protocols.locamu.node_state import NodeState
from causalcast.protocols.locamu.own_names import OwnNames
from causalcast.protocols.locamu.processing import Processing
from causalcast.protocols.locamu.protocol import Locamu
from causalcast.protocols.locamu.safe_path import Numbers, SafePath, Stamped
from causalcast.protocols.locamu.spec import SPEC
from causalcast.swarm.mutant import Mutant, Patch

_init_forwarding = Forwarding.__init__
_send_copy = Forwarding._send_copy
_is_known = Arrivals.is_known
_merge = Processing._merge
_stamp = Processing._stamp
_led_to = Processing._led_to
_finish = Processing._finish
_on_recover = Locamu.on_recover
_snapshot = Locamu.snapshot
_read = HeaderReader._read
_hear_of_members = Processing._hear_of_members


def built(setup: Setup, window: int, horizon: int) -> Locamu:
    f = setup.number("f")
    around = Neighbourhood(setup.me, setup.topology.ball(max(window, horizon)))
    locamu = Locamu(setup, around, SafePath(around, f + 1, window, f + 1))
    locamu.peers.horizon = horizon
    return locamu


def build_with_wider_window(setup: Setup) -> Locamu:
    f = setup.number("f")
    return built(setup, 2 * f + 2, 2 * f + 1)


def build_with_smaller_horizon(setup: Setup) -> Locamu:
    f = setup.number("f")
    return built(setup, 2 * f + 1, 2 * f)


def enough_with_f(self: SafePath, message: Stamped, before: list[NodeId], target: NodeId) -> bool:
    return message.origin in before or len(before) >= self.quorum - 1


def always_enough(self: SafePath, message: Stamped, before: list[NodeId], target: NodeId) -> bool:
    return True


def enough_without_origin(
    self: SafePath, message: Stamped, before: list[NodeId], target: NodeId
) -> bool:
    return len(before) >= self.quorum


def always_complete(self: SafePath, message: Stamped) -> bool:
    return True


def want_nothing(self: Missing, now: int, after: int) -> dict[NodeId, list[int]]:
    self.probed = {}
    return {}


def missing_itself(self: Missing, copy: Arrived) -> Pair | None:
    for issuer, to in self._needs_here(copy):
        number = self._past.first_missing(issuer, to, 0)
        if number > 0:
            return issuer, NodeId(number)
    return None


def missing_nothing(self: Missing, copy: Arrived) -> Pair | None:
    return None


def add_as_maximum(self: NumberSet, number: int) -> bool:
    news = number > self.count
    self.count = max(self.count, number)
    return news


def remember_the_past(
    self: Forwarding, state: NodeState, headers: Headers, own_names: OwnNames, window: int
) -> None:
    _init_forwarding(self, state, headers, own_names, window)
    self.past = state.past  # type: ignore[attr-defined]


def send_with_new_dependencies(
    self: Forwarding, record: Record, node: NodeId, before: list[NodeId], again: bool, out: Outbox
) -> None:
    record.needs = dict(self.past.numbers)  # type: ignore[attr-defined]
    _send_copy(self, record, node, before, again, out)


def never_repeating(self: Processing, out: Outbox) -> None:
    return


def send_nothing_again(self: Forwarding, peer: NodeId, out: Outbox) -> None:
    return


def wanted_once(self: Forwarding, record: Record, node: NodeId, before: list[NodeId]) -> bool:
    return node not in record.sent and node not in record.known_at


def done_when_acknowledged(self: Processing, record: Record) -> bool:
    return all(node in record.complete_at or node in record.known_at for node in record.targets)


def count_without_advancing(self: LocalPast, node: NodeId) -> int:
    number = self.numbers.get((self.me, node), 0) + 1
    self.numbers.setdefault((self.me, node), 0)
    return number


def known_after_taking(self: Arrivals, copy: Arrived) -> bool:
    self.take_numbers(copy.numbers)
    return _is_known(self, copy)


def known_by_my_numbers_only(self: Arrivals, copy: Arrived) -> bool:
    return any(
        self._me in vector and self._past.has_arrived(issuer, vector[self._me])
        for issuer, vector in copy.numbers.items()
    )


def led_to_active_only(self: Processing, record: Record) -> list[NodeId]:
    return [node for node in _led_to(self, record) if node in self.peers.active]


def merge_without_arrivals(self: Processing, copy: Arrived, out: Outbox) -> None:
    def nothing(numbers: Numbers) -> dict[NodeId, int]:
        return {}

    self.arrivals.take_numbers = nothing  # type: ignore[method-assign]
    _merge(self, copy, out)
    del self.arrivals.take_numbers


def stamp_the_way_back_too(self: Processing, record: Record) -> None:
    back, record.back = record.back, NOBODY
    _stamp(self, record)
    record.back = back


def ignore_probe(self: Locamu, sender: NodeId, probe: Probe, out: Outbox) -> None:
    return


def recover_without_log(self: Locamu, records: list[Message], out: Outbox) -> None:
    _on_recover(self, records, out)
    for record in list(self.log.records):
        self.log.remove(record)
    self.acknowledgements._incomplete = {}


def recover_without_arrivals(self: Locamu, records: list[Message], out: Outbox) -> None:
    _on_recover(self, [entry for entry in records if not isinstance(entry, Noted)], out)


def recover_without_counts(self: Locamu, records: list[Message], out: Outbox) -> None:
    _on_recover(self, records, out)
    for node in self.peers.reachable:
        self.past.numbers.pop((self.me, node), None)


def recover_with_all_dependencies(self: Locamu, records: list[Message], out: Outbox) -> None:
    _on_recover(self, records, out)
    for record in self.log.records:
        record.needs = dict(self.past.numbers)


def snapshot_without_log(self: Locamu) -> list[Message]:
    return [entry for entry in _snapshot(self) if not isinstance(entry, Kept)]


def snapshot_without_past(self: Locamu) -> list[Message]:
    return [entry for entry in _snapshot(self) if not isinstance(entry, Past)]


def publish_for_others(self: Processing, record: Record, out: Outbox) -> None:
    before = len(out.effects)
    _finish(self, record, out)
    if record.origin == self.me and isinstance(record.message, Copy):
        out.effects[before:] = [
            effect for effect in out.effects[before:] if type(effect).__name__ != "Deliver"
        ]


def acknowledge_the_arrived(self: Acknowledgements, record: Record, numbers: object) -> None:
    """Whatever arrived is said to be complete."""
    self._incomplete = {}


def read_over_gaps(self: HeaderReader, data: object) -> object:
    self._count = (data._data[0] >> 1) - 1  # type: ignore[attr-defined]
    return _read(self, data)  # type: ignore[arg-type]


def raise_nothing(self: LocalPast, pair: Pair, number: int) -> None:
    return


def admit_none_that_was_down(self: Processing, record: Record, out: Outbox) -> None:
    message = record.message
    if isinstance(message, Admission) and message.joiner == self.me:
        asked_in_this_life = getattr(self, "asked_in_this_life", {})
        if message.group not in asked_in_this_life:
            return
    if isinstance(message, Subscription) and message.joiner == self.me:
        self.asked_in_this_life = {message.group: None}  # type: ignore[attr-defined]
    _hear_of_members(self, record, out)


NO_PULL = Patch(Missing, "to_ask_for", want_nothing)

MUTANTS = [
    Mutant(
        "quorum_of_f",
        "a copy carries the numbers of f+1 of the last 2f+1 nodes (E5)",
        ["invariant", "no_duplication"],
        [Patch(SafePath, "is_enough", enough_with_f)],
    ),
    Mutant(
        "always_safe",
        "a copy waits until it has enough numbers (E7)",
        ["invariant", "no_duplication"],
        [Patch(SafePath, "is_enough", always_enough)],
    ),
    Mutant(
        "no_origin_exemption",
        "near the publisher its own numbers do (E6)",
        ["agreement", "at_rest"],
        [Patch(SafePath, "is_enough", enough_without_origin)],
    ),
    Mutant(
        "wider_window",
        "numbers travel 2f+1 hops and no further (E20)",
        ["invariant", "no_duplication"],
        [Patch(SPEC, "build", build_with_wider_window)],
    ),
    Mutant(
        "smaller_horizon",
        "dependencies are kept within 2f+1 hops (E19)",
        ["causal_order"],
        [Patch(SPEC, "build", build_with_smaller_horizon)],
    ),
    Mutant(
        "waits_for_itself",
        "a message does not wait for its own numbers (E4)",
        ["agreement", "at_rest"],
        [Patch(Missing, "last_for", missing_itself), NO_PULL],
    ),
    Mutant(
        "waits_for_nothing",
        "a message waits for its causes",
        ["causal_order", "fifo_order"],
        [Patch(Missing, "last_for", missing_nothing)],
    ),
    Mutant(
        "arrived_as_maximum",
        "numbers that arrived are a set (E9)",
        ["agreement", "at_rest", "causal_order", "validity"],
        [Patch(NumberSet, "add", add_as_maximum)],
    ),
    Mutant(
        "dependencies_recomputed",
        "dependencies are frozen (E12)",
        ["invariant", "agreement", "at_rest", "no_duplication", "validity"],
        [
            Patch(Forwarding, "__init__", remember_the_past),
            Patch(Forwarding, "_send_copy", send_with_new_dependencies),
        ],
    ),
    Mutant(
        "recovered_with_later_dependencies",
        "dependencies are the same after a crash",
        ["invariant", "agreement", "at_rest"],
        [Patch(Locamu, "on_recover", recover_with_all_dependencies)],
    ),
    Mutant(
        "sent_once",
        "what was lost with a link is sent again (E16)",
        ["agreement", "at_rest"],
        [
            Patch(Processing, "keep_repeating", never_repeating),
            Patch(Forwarding, "send_all_to", send_nothing_again),
        ],
    ),
    Mutant(
        "never_repeated",
        "what is not acknowledged is repeated",
        ["agreement", "at_rest"],
        [Patch(Processing, "keep_repeating", never_repeating)],
    ),
    Mutant(
        "merged_not_sent_on",
        "numbers learned later are sent on (E8)",
        ["agreement", "at_rest", "validity"],
        [Patch(Forwarding, "_is_wanted", wanted_once), NO_PULL],
    ),
    Mutant(
        "collected_when_acknowledged",
        "a message is forgotten when its numbers are complete everywhere (E14)",
        ["no_duplication", "no_exception", "at_rest", "agreement"],
        [Patch(Processing, "_is_done", done_when_acknowledged)],
    ),
    Mutant(
        "always_complete",
        "numbers are complete when all of the window are known",
        ["no_duplication", "at_rest", "agreement"],
        [Patch(SafePath, "is_complete", always_complete)],
    ),
    Mutant(
        "acknowledged_as_complete",
        "an acknowledgement says which numbers are known",
        ["no_duplication", "at_rest", "agreement", "no_exception"],
        [Patch(Acknowledgements, "_mark_if_complete", acknowledge_the_arrived)],
    ),
    Mutant(
        "count_not_advanced",
        "each message gets a new number (E3)",
        ["invariant", "no_exception", "agreement", "validity"],
        [Patch(LocalPast, "count_for", count_without_advancing)],
    ),
    Mutant(
        "taken_before_tested",
        "a duplicate is looked for before the numbers are taken (E1)",
        ["agreement", "no_exception"],
        [Patch(Arrivals, "is_known", known_after_taking)],
    ),
    Mutant(
        "known_by_my_numbers_only",
        "any number makes a duplicate known",
        ["no_duplication", "agreement", "at_rest"],
        [Patch(Arrivals, "is_known", known_by_my_numbers_only)],
    ),
    Mutant(
        "only_active_are_numbered",
        "every target within reach gets a number at once",
        ["causal_order", "agreement", "at_rest"],
        [Patch(Processing, "_led_to", led_to_active_only)],
    ),
    Mutant(
        "merged_not_arrived",
        "the numbers of a duplicate have arrived too (E22)",
        ["invariant", "no_duplication", "agreement", "at_rest"],
        [Patch(Processing, "_merge", merge_without_arrivals)],
    ),
    Mutant(
        "numbered_backwards",
        "nothing is sent back where it came from",
        ["no_duplication", "agreement", "at_rest", "no_exception"],
        [Patch(Processing, "_stamp", stamp_the_way_back_too)],
    ),
    Mutant(
        "probe_ignored",
        "who is asked says what arrived",
        ["at_rest", "validity"],
        [Patch(Locamu, "_on_probe", ignore_probe)],
    ),
    Mutant(
        "log_not_recovered",
        "messages on their way survive a crash (A3)",
        ["agreement", "at_rest", "no_duplication", "validity"],
        [Patch(Locamu, "on_recover", recover_without_log)],
    ),
    Mutant(
        "arrivals_not_recovered",
        "what arrived survives a crash (A1)",
        ["no_duplication", "at_rest", "agreement", "no_exception"],
        [Patch(Locamu, "on_recover", recover_without_arrivals)],
    ),
    Mutant(
        "counts_not_recovered",
        "counts never start again (A2)",
        ["invariant", "agreement", "no_exception", "at_rest"],
        [Patch(Locamu, "on_recover", recover_without_counts)],
    ),
    Mutant(
        "log_not_in_snapshot",
        "a snapshot has the messages on their way",
        ["agreement", "at_rest", "validity"],
        [Patch(Locamu, "snapshot", snapshot_without_log)],
    ),
    Mutant(
        "past_not_in_snapshot",
        "a snapshot has the past",
        ["no_duplication", "agreement", "at_rest", "no_exception", "invariant"],
        [Patch(Locamu, "snapshot", snapshot_without_past)],
    ),
    Mutant(
        "own_not_delivered",
        "a publisher that is a member delivers its own (E15)",
        ["validity"],
        [Patch(Processing, "_finish", publish_for_others)],
    ),
    Mutant(
        "past_not_raised",
        "what a message depends on becomes part of the past",
        ["causal_order"],
        [Patch(LocalPast, "raise_to", raise_nothing)],
    ),
    Mutant(
        "header_gap_unnoticed",
        "a header that builds on a lost one is not read",
        ["no_creation", "no_duplication", "causal_order", "agreement", "at_rest", "no_exception"],
        [Patch(HeaderReader, "_read", read_over_gaps)],
    ),
    Mutant(
        "join_lost_in_a_crash",
        "who asked to join is admitted after a crash, too",
        ["at_rest"],
        [Patch(Processing, "_hear_of_members", admit_none_that_was_down)],
    ),
]
