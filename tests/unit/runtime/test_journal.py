"""The journal returns exactly what was durable, whatever is torn or damaged."""

import asyncio
import errno
import os
from pathlib import Path

import pytest

from causalcast.errors import JournalError, NodeError
from causalcast.runtime.storage.journal import Journal, JournalFile
from causalcast.runtime.storage.journal_frames import Place

ENTRIES = [b"first", b"", b"third entry", b"\x00" * 9, b"last"]


def write(path: Path, *groups: list[bytes]) -> list[int]:
    """A journal of these groups, each synced by itself; the file's size after each."""
    file = JournalFile(path)
    sizes = []
    for group in groups:
        file.append(group)
        sizes.append(file.size)
    file.close()
    return sizes


def read(path: Path) -> list[bytes]:
    """What a restarted node finds."""
    file = JournalFile(path)
    file.close()
    assert [entry.sequence for entry in file.found] == list(range(1, len(file.found) + 1))
    return [entry.data for entry in file.found]


def flipped(content: bytes, bit: int) -> bytes:
    """The same with one bit of byte `bit // 8` the other way round."""
    damaged = bytearray(content)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def test_what_was_appended_comes_back_in_order(tmp_path: Path) -> None:
    write(tmp_path / "journal", ENTRIES[:2], ENTRIES[2:])
    assert read(tmp_path / "journal") == ENTRIES


def test_a_journal_cut_at_any_byte_keeps_every_whole_record(tmp_path: Path) -> None:
    """Each entry is a group of its own here, so each one whole must come back."""
    path = tmp_path / "journal"
    sizes = write(path, *([entry] for entry in ENTRIES))
    whole = path.read_bytes()
    for length in range(len(whole) + 1):
        path.write_bytes(whole[:length])
        survivors = sum(size <= length for size in sizes)
        assert read(path) == ENTRIES[:survivors], f"cut at byte {length}"
        write(path, [b"goes on"])
        assert read(path) == [*ENTRIES[:survivors], b"goes on"]


def test_an_error_names_the_file_and_the_offset(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    sizes = write(path, [b"one"], [b"two"], [b"three"])
    damaged = bytearray(path.read_bytes())
    damaged[sizes[0] + 18] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(JournalError) as caught:
        JournalFile(path)
    assert str(path) in str(caught.value)
    assert f"byte {sizes[0] + 18} (bit 0 flipped), in entry 2;" in str(caught.value)


def test_compaction_keeps_counting_and_leaves_one_file(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    file = JournalFile(path)
    file.append([b"old"] * 100)
    large = file.size
    places = file.replace([b"snapshot", b"inbox"])
    file.read_replaced()
    assert [file.read(place) for place in places] == [b"snapshot", b"inbox"]
    file.append([b"new"])
    assert file.size < large
    file.close()
    again = JournalFile(path)
    assert [(e.sequence, e.data) for e in again.found] == [
        (101, b"snapshot"),
        (102, b"inbox"),
        (103, b"new"),
    ]
    assert os.listdir(tmp_path) == ["journal"]


def test_a_damaged_snapshot_is_never_taken_for_a_torn_tail(tmp_path: Path) -> None:
    """It is the only frame of its file, and still no crash can have torn it."""
    path = tmp_path / "journal"
    file = JournalFile(path)
    file.replace([b"everything"])
    file.close()
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(JournalError, match="in the snapshot"):
        JournalFile(path)


def test_a_crash_at_any_byte_of_a_compaction_leaves_a_whole_journal(tmp_path: Path) -> None:
    """Until the new file has its name the old one counts, whatever lies beside it."""
    path, beside = tmp_path / "journal", tmp_path / "journal.new"
    write(path, ENTRIES)
    old = path.read_bytes()
    file = JournalFile(path)
    file.replace([b"snapshot"])
    file.close()
    new = path.read_bytes()
    for length in range(len(new) + 1):
        path.write_bytes(old)
        beside.write_bytes(new[:length])
        assert read(path) == ENTRIES
        assert not beside.exists()


def test_a_body_that_was_damaged_while_the_node_ran_is_not_handed_out(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    file = JournalFile(path)
    place = file.append([b"before", b"the body"])[1]
    assert file.read(place) == b"the body"
    whole = path.read_bytes()
    for bit in range(8 * (place.offset - 8), 8 * (place.offset + place.length)):
        path.write_bytes(flipped(whole, bit))
        with pytest.raises(JournalError, match=f"journal: damaged in .* {place.offset} to"):
            file.read(place)
    file.close()


def test_two_nodes_cannot_share_a_journal(tmp_path: Path) -> None:
    held = JournalFile(tmp_path / "journal")
    with pytest.raises(NodeError, match="in use"):
        JournalFile(tmp_path / "journal")
    held.close()
    JournalFile(tmp_path / "journal").close()


class Listener:
    """Collects what the journal reports."""

    def __init__(self) -> None:
        self.durable: list[tuple[int, int]] = []  # sequence of the last, how many
        self.places: list[Place] = []
        self.errors: list[JournalError] = []

    def on_durable(self, sequence: int, places: list[Place]) -> None:
        self.durable.append((sequence, len(places)))
        self.places.extend(places)


def test_what_waits_when_a_sync_starts_goes_with_it(tmp_path: Path) -> None:
    async def story() -> None:
        heard = Listener()
        journal = Journal(
            JournalFile(tmp_path / "journal"),
            asyncio.get_running_loop(),
            heard.on_durable,
            heard.errors.append,
        )
        journal.append(b"alone")
        journal.commit()
        for number in range(10):  # the loop has not run since, so the first sync is not over
            journal.append(b"%d" % number)
            journal.commit()
        await journal.drain()
        assert heard.durable == [(1, 1), (11, 10)]
        assert journal.read(heard.places[4]) == b"3"
        journal.close()

    asyncio.run(story())
    assert len(read(tmp_path / "journal")) == 11


def test_compaction_waits_for_its_turn_between_entries(tmp_path: Path) -> None:
    """What is appended before it is replaced, what is appended after it stays."""

    async def story() -> None:
        heard = Listener()
        replaced: list[Place] = []
        journal = Journal(
            JournalFile(tmp_path / "journal"),
            asyncio.get_running_loop(),
            heard.on_durable,
            heard.errors.append,
        )
        assert journal.append(b"before") == 1
        journal.compact([lambda: b"snapshot"], lambda places: replaced.extend(places or []))
        assert journal.append(b"after") == 3
        await journal.drain()
        assert heard.durable == [(1, 1), (3, 1)]
        assert [journal.read(place) for place in replaced] == [b"snapshot"]
        journal.close()

    asyncio.run(story())
    file = JournalFile(tmp_path / "journal")
    assert [(entry.sequence, entry.data) for entry in file.found] == [
        (2, b"snapshot"),
        (3, b"after"),
    ]


def test_a_compaction_without_room_leaves_everything_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old file goes on, and so do the numbers that entries behind the compaction have."""

    def no_room(fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async def story() -> None:
        heard = Listener()
        told: list[object] = []
        journal = Journal(
            JournalFile(tmp_path / "journal"),
            asyncio.get_running_loop(),
            heard.on_durable,
            heard.errors.append,
        )
        journal.append(b"before")
        monkeypatch.setattr(os, "fsync", no_room)  # of the new file; entries need fdatasync
        journal.compact([lambda: b"snapshot", lambda: b"inbox"], told.append)
        assert journal.append(b"after") == 4
        await journal.drain()
        assert heard.durable == [(1, 1), (4, 1)]
        assert journal.read(heard.places[0]) == b"before"
        assert told == [None]
        journal.close()

    asyncio.run(story())
    monkeypatch.undo()
    assert read(tmp_path / "journal") == [b"before", b"", b"", b"after"]
    assert os.listdir(tmp_path) == ["journal"]


def test_a_failing_disk_is_reported_and_nothing_is_called_durable(tmp_path: Path) -> None:
    async def story() -> None:
        heard = Listener()
        file = JournalFile(tmp_path / "journal")
        journal = Journal(file, asyncio.get_running_loop(), heard.on_durable, heard.errors.append)
        read_only = os.open(tmp_path / "journal", os.O_RDONLY)
        os.dup2(read_only, file._file._fd)
        journal.append(b"lost")
        journal.commit()
        while not heard.errors:
            await asyncio.sleep(0.001)
        assert heard.durable == []
        assert "cannot be written" in str(heard.errors[0])

    asyncio.run(story())


def test_draining_waits_for_what_was_there_and_not_for_an_idle_moment(tmp_path: Path) -> None:
    """Others go on appending, so that there is none."""

    async def story() -> None:
        durable: list[int] = []

        def on_durable(sequence: int, places: list[Place]) -> None:
            durable.append(sequence)
            journal.append(b"one more")  # again and again

        file = JournalFile(tmp_path / "journal")
        journal = Journal(file, asyncio.get_running_loop(), on_durable, pytest.fail)
        last = journal.append(b"before")
        async with asyncio.timeout(20):
            journal.commit()
            busy = asyncio.get_running_loop().create_task(_commit_for_ever(journal))
            await journal.drain()
        assert durable[-1] >= last
        busy.cancel()
        await asyncio.gather(busy, return_exceptions=True)
        journal.close()

    asyncio.run(story())


async def _commit_for_ever(journal: Journal) -> None:
    while True:
        journal.append(b"and more")
        journal.commit()
        await asyncio.sleep(0)
