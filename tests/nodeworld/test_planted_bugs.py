"""Bugs of the runtime, planted one at a time: a few worlds find each of them."""

from collections.abc import Callable
from typing import Any

import pytest

from causalcast.nodeworld.plan import draw
from causalcast.nodeworld.trial import try_plan
from causalcast.runtime.host.acknowledgements import Acknowledgements
from causalcast.runtime.host.compaction import Compaction
from causalcast.runtime.host.inbox import Inbox
from causalcast.runtime.host.steps import Steps
from causalcast.runtime.storage.durable_entry import StillWaiting, encode
from causalcast.runtime.storage.journal import JournalFile

Plant = Callable[[pytest.MonkeyPatch], None]


def speaks_before_it_is_durable(patch: pytest.MonkeyPatch) -> None:
    """Messages of a step leave at once, and its entry follows."""
    settle = Steps.settle

    def hasty(self: Steps, publication: Any = None, *more: Any, **named: Any) -> None:
        settle(self, publication, *more, **named)
        for step in self.held._steps:
            sends = [one for one in step.actions if one[0].__name__ == "_transmit"]
            step.actions = [one for one in step.actions if one not in sends]
            self._happen(sends)

    patch.setattr(Steps, "settle", hasty)


def acknowledges_without_writing(patch: pytest.MonkeyPatch) -> None:
    """A durable acknowledgement is told before it is in the journal."""
    take = Acknowledgements.take

    def forgetful(self: Acknowledgements) -> Any:
        messages, marking = take(self)
        return messages[1:], marking

    patch.setattr(Acknowledgements, "take", forgetful)


def compaction_drops_the_inbox(patch: pytest.MonkeyPatch) -> None:
    """What the application has not handled is not in the new journal."""

    def empty(self: Compaction, chunk: Any) -> Callable[[], bytes]:
        return lambda: encode(StillWaiting([]))

    patch.setattr(Compaction, "_still_waiting", empty)


def what_is_given_back_is_lost(patch: pytest.MonkeyPatch) -> None:
    """A message that the application gives back never comes again."""
    patch.setattr(Inbox, "give_back", lambda self, publication: None)


def syncs_nothing(patch: pytest.MonkeyPatch) -> None:
    """The journal is written, and never synced."""
    append = JournalFile.append

    def unsynced(self: JournalFile, entries: Any) -> Any:
        sync, self._file.sync_content = self._file.sync_content, lambda: None  # type: ignore[method-assign]
        try:
            return append(self, entries)
        finally:
            self._file.sync_content = sync  # type: ignore[method-assign]

    patch.setattr(JournalFile, "append", unsynced)


def never_dials_again(patch: pytest.MonkeyPatch) -> None:
    """A link that is lost is not told to anybody."""
    patch.setattr("causalcast.runtime.host.link_listener.LinkListener.link_lost", lambda *_: None)


BUGS: list[tuple[Plant, str, range]] = [
    (speaks_before_it_is_durable, "vector_clock_broadcast", range(60)),
    (acknowledges_without_writing, "vector_clock_broadcast", range(60)),
    (compaction_drops_the_inbox, "vector_clock_broadcast", range(60)),
    (what_is_given_back_is_lost, "vector_clock_broadcast", range(60)),
    (syncs_nothing, "vector_clock_broadcast", range(60)),
    (never_dials_again, "vector_clock_broadcast", range(60)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("plant", "protocol", "seeds"), BUGS, ids=[b[0].__name__ for b in BUGS])
def test_it_is_found(
    plant: Plant, protocol: str, seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in seeds:
        problems = try_plan(draw(protocol, seed)).problems
        if problems:
            print(f"seed {seed}: {problems[0]}")
            return
    raise AssertionError(f"{len(seeds)} worlds did not find it")
