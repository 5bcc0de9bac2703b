"""Bugs planted where readers with names are kept: their tests notice each of them."""

from collections.abc import Callable
from pathlib import Path

import pytest
import test_named_readers as stories

from causalcast.core.ids import GroupId
from causalcast.runtime.host import compaction
from causalcast.runtime.host.acknowledgements import Acknowledgements
from causalcast.runtime.host.inbox import Inbox, NamedInbox
from causalcast.runtime.host.readers import Readers
from causalcast.runtime.storage.durable_entry import (
    Entry,
    Memory,
    ReaderStands,
    StillOwed,
    StillWaiting,
    encode,
)
from causalcast.runtime.storage.reader_table import PLAIN, ReaderTable

Plant = Callable[[pytest.MonkeyPatch], None]


def acknowledged_by_all_at_once(patch: pytest.MonkeyPatch) -> None:
    def acknowledged_by(self: Inbox, bit: int, message: int) -> None:
        self.unacknowledged.pop(message, None)  # type: ignore[call-overload]

    patch.setattr(Inbox, "_acknowledged_by", acknowledged_by)


def snapshot_knows_the_plain_reader_only(patch: pytest.MonkeyPatch) -> None:
    def encoded(entry: Entry) -> bytes:
        return encode(StillWaiting(entry.deliveries) if isinstance(entry, StillOwed) else entry)

    patch.setattr(compaction, "encode", encoded)


def begins_without_an_entry(patch: pytest.MonkeyPatch) -> None:
    put = Acknowledgements.put

    def nothing_for_readers(self: Acknowledgements, entry: Entry) -> object:
        return None if isinstance(entry, ReaderStands) else put(self, entry)

    patch.setattr(Acknowledgements, "put", nothing_for_readers)


def a_restart_forgets_acknowledgements_of_readers(patch: pytest.MonkeyPatch) -> None:
    take_handled = Memory._take_handled

    def plain_only(self: Memory, message: int, bit: int) -> None:
        if bit == PLAIN:
            take_handled(self, message, bit)  # type: ignore[arg-type]

    patch.setattr(Memory, "_take_handled", plain_only)


def kept_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Readers, "_on_behind", lambda self, named: None)


def lost_in_silence(patch: pytest.MonkeyPatch) -> None:
    def on_behind(self: Readers, named: NamedInbox) -> None:
        if named.bytes > self._inbox.reader_bytes:
            named.queue.clear()
            named.unacknowledged.clear()

    patch.setattr(Readers, "_on_behind", on_behind)


def bits_used_again(patch: pytest.MonkeyPatch) -> None:
    def lowest(self: ReaderTable, group: GroupId) -> int:
        return PLAIN << 1

    patch.setattr(ReaderTable, "next_bit", lowest)


def memory_of_shared_bodies_leaks(patch: pytest.MonkeyPatch) -> None:
    def acknowledged_by(self: Inbox, bit: int, message: int) -> None:
        waiting = self.unacknowledged.get(message)  # type: ignore[call-overload]
        if waiting is not None:
            waiting.owed &= ~bit
            if not waiting.owed:
                del self.unacknowledged[message]  # type: ignore[arg-type]

    patch.setattr(Inbox, "_acknowledged_by", acknowledged_by)


def goes_on(folder: Path) -> None:
    stories.test_each_goes_on_where_it_was(folder, False)


def goes_on_compacted(folder: Path) -> None:
    stories.test_each_goes_on_where_it_was(folder, True)


def abandoned(folder: Path) -> None:
    stories.test_an_abandoned_reader_is_told_of_and_ended(folder, "")


@pytest.mark.parametrize(
    ("plant", "story"),
    [
        (acknowledged_by_all_at_once, goes_on),
        (snapshot_knows_the_plain_reader_only, goes_on_compacted),
        (begins_without_an_entry, goes_on),
        (begins_without_an_entry, stories.test_no_moment_is_bad_for_a_crash),
        (a_restart_forgets_acknowledgements_of_readers, goes_on),
        (kept_for_ever, abandoned),
        (lost_in_silence, abandoned),
        (bits_used_again, lambda _: stories.test_a_bit_is_not_soon_given_again()),
        (
            memory_of_shared_bodies_leaks,
            stories.test_bodies_are_given_to_all_from_memory_or_disk,
        ),
    ],
)
def test_it_is_noticed(
    plant: Plant,
    story: Callable[[Path], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stories, "PATIENCE", 2.0)
    plant(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception, TimeoutError)):
        story(tmp_path)
