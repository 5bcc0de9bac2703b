"""Planted bugs of `delta_neighbourhood`."""

from causalcast.core import Message, NodeId, Outbox, Publication
from causalcast.parts.tree.neighbourhood import NOBODY
from causalcast.protocols.delta_neighbourhood import (
    DeltaNeighbourhood,
    LastNumbers,
    Passage,
    Queued,
)
from causalcast.swarm.mutant import Mutant, Patch

_on_recover = DeltaNeighbourhood.on_recover
_snapshot = DeltaNeighbourhood.snapshot
_start = DeltaNeighbourhood._start


def start_every_copy(
    self: DeltaNeighbourhood, sender: NodeId, publication: Publication, out: Outbox
) -> None:
    self._start(publication, self.around.hop(self.me, sender), sender, out)


def never_busy(self: DeltaNeighbourhood) -> bool:
    return False


def recover_without_last_numbers(
    self: DeltaNeighbourhood, records: list[Message], out: Outbox
) -> None:
    _on_recover(self, records, out)
    self.last = {}


def recover_without_queue(self: DeltaNeighbourhood, records: list[Message], out: Outbox) -> None:
    _on_recover(self, [record for record in records if not isinstance(record, Queued)], out)


def snapshot_without_last_numbers(self: DeltaNeighbourhood) -> list[Message]:
    return [record for record in _snapshot(self) if not isinstance(record, LastNumbers)]


def confirm_new_ones_only(
    self: DeltaNeighbourhood, sender: NodeId, publication: Publication, out: Outbox
) -> None:
    if publication.id >> 32 not in self.last or (
        publication.id & 0xFFFFFFFF > self.last[NodeId(publication.id >> 32)]
    ):
        self._start(publication, self.around.hop(self.me, sender), sender, out)


def deliver_only_what_others_published(
    self: DeltaNeighbourhood, publication: Publication, back: NodeId, sender: NodeId, out: Outbox
) -> None:
    before = len(out.effects)
    _start(self, publication, back, sender, out)
    if back == NOBODY:
        out.effects[before:] = [
            effect for effect in out.effects[before:] if type(effect).__name__ != "Deliver"
        ]


def forget_when_skipped(self: DeltaNeighbourhood, passage: Passage, out: Outbox) -> None:
    """Only who has confirmed everything forgets it; but nobody is told."""
    if not passage.open:
        passage.is_confirmed = True


MUTANTS = [
    Mutant(
        "every_copy_is_new",
        "a further copy is known by its publisher's last number",
        ["no_duplication", "at_rest", "no_exception"],
        [Patch(DeltaNeighbourhood, "_on_copy", start_every_copy)],
    ),
    Mutant(
        "several_under_way",
        "one publication at a time",
        ["invariant"],
        [Patch(DeltaNeighbourhood, "_is_busy", never_busy)],
    ),
    Mutant(
        "last_numbers_not_recovered",
        "what was delivered survives a crash",
        ["no_duplication", "invariant"],
        [Patch(DeltaNeighbourhood, "on_recover", recover_without_last_numbers)],
    ),
    Mutant(
        "queue_not_recovered",
        "what waits to be published survives a crash",
        ["validity"],
        [Patch(DeltaNeighbourhood, "on_recover", recover_without_queue)],
    ),
    Mutant(
        "last_numbers_not_in_snapshot",
        "a snapshot has the last numbers",
        ["no_duplication", "invariant"],
        [Patch(DeltaNeighbourhood, "snapshot", snapshot_without_last_numbers)],
    ),
    Mutant(
        "duplicates_not_confirmed",
        "a further copy is confirmed too",
        ["at_rest", "validity"],
        [Patch(DeltaNeighbourhood, "_on_copy", confirm_new_ones_only)],
    ),
    Mutant(
        "own_not_delivered",
        "a publisher that is a member delivers its own",
        ["validity"],
        [Patch(DeltaNeighbourhood, "_start", deliver_only_what_others_published)],
    ),
    Mutant(
        "never_confirmed",
        "who has all behind it confirms",
        ["at_rest", "validity"],
        [Patch(DeltaNeighbourhood, "_finish", forget_when_skipped)],
    ),
]
