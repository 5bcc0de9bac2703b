"""A log in pieces: bounded on disk, read as one, gone on with quickly, and never a node's end."""

from dataclasses import replace
from pathlib import Path

import pytest
from test_node_log import CRASH, DELIVER, JOIN, LEAVE, PUBLISH, header, path_of

from causalcast.core.ids import NodeId, message_id
from causalcast.disk import File
from causalcast.errors import TraceError
from causalcast.trace import node_log
from causalcast.trace.follow import LogFollower
from causalcast.trace.gather import gather
from causalcast.trace.node_log import NodeLog, header_of, pieces_of, read_log
from causalcast.trace.run_folder import read_run


def published(node: int, number: int) -> int:
    return message_id(NodeId(node), number)


class Town:
    """Two nodes that publish and deliver in turns, each with a log of a few small pieces."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.folder = folder
        self.max_bytes = max_bytes
        self.at = 0
        self.logs = {node: self.open(node) for node in (1, 2)}

    def open(self, node: int) -> NodeLog:
        return NodeLog(path_of(self.folder, node), header(node), self.max_bytes)

    def row(self, node: int, kind: int, message: int = -1, group: int = -1) -> None:
        self.at += 1
        self.logs[node].add(self.at, kind, message, group)
        self.logs[node].write(self.at)

    def talk(self, first: int, last: int) -> None:
        """Both publish these numbers, the second one after it has delivered the first's."""
        for number in range(first, last + 1):
            one, two = published(1, number), published(2, number)
            for node, kind, message in [
                (1, PUBLISH, one),
                (1, DELIVER, one),
                (2, DELIVER, one),
                (2, PUBLISH, two),
                (2, DELIVER, two),
                (1, DELIVER, two),
            ]:
                self.row(node, kind, message, 0)

    def end(self) -> None:
        for node, log in self.logs.items():
            self.row(node, LEAVE)
            log.close()

    def pieces(self, node: int) -> list[Path]:
        return pieces_of(path_of(self.folder, node))


def test_pieces_are_read_as_one_log(tmp_path: Path) -> None:
    town = Town(tmp_path, max_bytes=1 << 20)
    town.logs[1]._piece_bytes = 700
    town.talk(1, 30)
    town.end()
    assert len(town.pieces(1)) > 3 and not town.pieces(2)
    rows = read_log(path_of(tmp_path, 1)).rows
    numbers = [row[2] for row in rows if row[1] == DELIVER]
    assert len(rows) == 91 and numbers == [
        published(node, n) for n in range(1, 31) for node in (1, 2)
    ]
    assert gather([tmp_path], tmp_path / "run").header.complete


def test_the_disk_it_takes_is_bounded(tmp_path: Path) -> None:
    limit = 8000
    town = Town(tmp_path, limit)
    for number in range(1, 200):
        town.talk(number, number)
        for node in (1, 2):
            files = [*town.pieces(node), path_of(tmp_path, node)]
            assert sum(file.stat().st_size for file in files) <= limit
            assert town.logs[node].disk_bytes() == sum(file.stat().st_size for file in files)
    assert read_log(path_of(tmp_path, 1)).header.first_pos > 0


def test_what_was_let_go_is_left_out_everywhere(tmp_path: Path) -> None:
    """Node 1 has let go more than node 2. What the run says is of messages that nobody has let go,
    so that nothing looks lost, invented or out of order."""
    town = Town(tmp_path, 8000)
    town.logs[2]._max_bytes = 1 << 20
    town.row(2, JOIN, group=1)
    town.talk(1, 100)
    town.end()
    floor = read_log(path_of(tmp_path, 1)).header.highest
    run = gather([tmp_path], tmp_path / "run")
    events = run.events.to_pylist()
    for node in (1, 2):
        kept = [published(node, number) for number in range(floor[node] + 1, 101)]
        assert 0 < len(kept) < 100
        for reader in (1, 2):
            delivered = [
                row["message"]
                for row in events
                if row["node"] == reader and row["kind"] == "deliver"
            ]
            assert [one for one in delivered if one in kept] == kept
        told = [row["message"] for row in events if row["kind"] == "publish"]
        assert [one for one in told if one in kept] == kept
    assert all(
        (row["message"] & 0xFFFFFFFF) > floor[row["message"] >> 32]
        for row in events
        if row["message"] is not None
    )
    members = {(row["group"], row["node"]) for row in run.members.to_pylist()}
    assert members == {(0, 1), (0, 2), (1, 1), (1, 2)}


def test_a_follower_goes_from_piece_to_piece(tmp_path: Path) -> None:
    """Whatever was put aside meanwhile; one that begins anew goes on where the run ends."""
    town = Town(tmp_path / "logs", 1 << 20)
    for log in town.logs.values():
        log._piece_bytes = 600
    follower = LogFollower([tmp_path / "logs"], tmp_path / "run")
    for turn in range(6):
        town.talk(10 * turn + 1, 10 * turn + 10)
        if turn == 3:
            follower = LogFollower([tmp_path / "logs"], tmp_path / "run")
        follower.step()
    town.end()
    follower.finish()
    assert len(town.pieces(1)) > 5
    followed = read_run(tmp_path / "run")
    gathered = gather([tmp_path / "logs"], tmp_path / "gathered")
    columns = ["node", "pos", "kind", "message"]
    assert (
        followed.events.select(columns).to_pylist() == gathered.events.select(columns).to_pylist()
    )
    assert followed.header.complete


def test_a_follower_that_comes_late_leaves_out_what_was_let_go(tmp_path: Path) -> None:
    town = Town(tmp_path / "logs", 8000)
    town.talk(1, 100)
    follower = LogFollower([tmp_path / "logs"], tmp_path / "run")
    follower.step()
    town.end()
    follower.finish()
    gathered = gather([tmp_path / "logs"], tmp_path / "gathered")
    followed = read_run(tmp_path / "run")
    columns = ["node", "pos", "kind", "message"]
    assert (
        followed.events.select(columns).to_pylist() == gathered.events.select(columns).to_pylist()
    )


def test_who_follows_too_slowly_is_told(tmp_path: Path) -> None:
    town = Town(tmp_path / "logs", 8000)
    town.talk(1, 1)
    follower = LogFollower([tmp_path / "logs"], tmp_path / "run")
    follower.step()
    town.talk(2, 200)
    with pytest.raises(TraceError, match="were let go before anybody read them"):
        follower.step()


def test_a_start_decodes_only_what_is_behind_the_last_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_log.MARK_EVERY, "value", 500)
    town = Town(tmp_path, 1 << 20)
    town.talk(1, 200)
    town.logs[1].close()
    decoded = 0
    take = node_log._End.take

    def counting(end: node_log._End, body: bytes) -> None:
        nonlocal decoded
        decoded += 1
        take(end, body)

    monkeypatch.setattr(node_log._End, "take", counting)
    log = town.open(1)
    assert decoded < 20
    assert (log.next_pos, log.sequence, log.ended_well) == (600, town.at, False)
    assert log._highest == {1: 200, 2: 200}
    log.close()


@pytest.mark.parametrize("turns", range(1, 12))
def test_a_log_goes_on_wherever_its_pieces_and_marks_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    """Node 1 starts again after every few turns, and loses nothing of what it must remember."""
    monkeypatch.setattr(node_log.MARK_EVERY, "value", 150)
    town = Town(tmp_path, 1 << 20)
    for _ in range(30 // turns):
        first = town.logs[1].next_pos // 3 + 1
        town.talk(first, first + turns - 1)
        before = town.logs[1]
        before.close()
        town.logs[1] = after = town.open(1)
        after._piece_bytes = 900
        for fact in ("next_pos", "sequence", "last_us", "_highest", "_members"):
            assert getattr(after, fact) == getattr(before, fact)
    town.end()
    gather([tmp_path], tmp_path / "run")


def test_a_crash_between_two_pieces_loses_nothing(tmp_path: Path) -> None:
    town = Town(tmp_path, 1 << 20)
    town.talk(1, 5)
    town.logs[1].close()
    path = path_of(tmp_path, 1)
    path.rename(node_log._piece_path(path, 0))
    log = town.open(1)
    assert log.next_pos == 15
    log.close()
    assert len(read_log(path).rows) == 15


def test_rows_that_cannot_be_written_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full for a while: nothing is lost, and both changes are told."""
    told: list[str] = []
    log = NodeLog(path_of(tmp_path, 1), header(1), on_trouble=told.append)
    write = File.write

    def full(file: File, offset: int, data: bytes) -> None:
        write(file, offset, data[:3])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(node_log.TRY_AGAIN, "value", 0.0)
    log.add(1, PUBLISH, 7, 0)
    log.write(1)
    monkeypatch.setattr(File, "write", full)
    for at in (2, 3):
        log.add(at, DELIVER, 7, 0)
        log.write(at)
    assert log.waits() and len(told) == 1 and "No space left" in told[0]
    assert log.sequence == 1
    monkeypatch.setattr(File, "write", write)
    log.add(4, CRASH)
    log.write(4)
    assert len(told) == 2 and "0 rows were lost" in told[1] and not log.waits()
    log.close()
    assert [row[0] for row in read_log(path_of(tmp_path, 1)).rows] == [1, 2, 3, 4]


def test_rows_that_wait_are_bounded_and_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_log.TRY_AGAIN, "value", 0.0)
    monkeypatch.setattr(node_log.MOST_WAITING, "value", 10)
    log = NodeLog(path_of(tmp_path, 1), header(1))
    write = File.write

    def full(file: File, offset: int, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(File, "write", full)
    for at in range(11):
        log.add(at, DELIVER, at + 1, 0)
        log.write(at)
    assert log.lost_rows == 11
    monkeypatch.setattr(File, "write", write)
    log.add(20, CRASH)
    log.write(20)
    log.close()
    with pytest.raises(TraceError, match="rows 0 to 11 are missing"):
        read_log(path_of(tmp_path, 1))


def test_another_level_begins_a_new_piece(tmp_path: Path) -> None:
    town = Town(tmp_path, 1 << 20)
    town.talk(1, 3)
    town.logs[1].close()
    log = NodeLog(path_of(tmp_path, 1), header(1, "deliveries"))
    log.close()
    assert header_of(path_of(tmp_path, 1)).level == "deliveries"
    assert len(read_log(path_of(tmp_path, 1)).rows) == 9


def test_a_log_of_the_format_before_is_read_and_gone_on_with(tmp_path: Path) -> None:
    town = Town(tmp_path, 1 << 20)
    town.talk(1, 3)
    town.logs[1].close()
    path = path_of(tmp_path, 1)
    path.write_bytes(path.read_bytes().replace(node_log.MAGIC, node_log.ONE_PIECE))
    assert len(read_log(path).rows) == 9
    town.logs[1] = town.open(1)
    town.talk(4, 4)
    assert len(pieces_of(path)) == 1 and len(read_log(path).rows) == 12


def test_a_log_that_lost_its_beginning_is_not_judged(tmp_path: Path) -> None:
    log = NodeLog(path_of(tmp_path, 1), replace(header(1), lost=True))
    log.close()
    NodeLog(path_of(tmp_path, 1), header(1)).close()
    with pytest.raises(TraceError, match="were lost before the log begins"):
        gather([tmp_path], tmp_path / "run")
