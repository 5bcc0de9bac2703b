"""A node's log keeps every row that was written, cuts what is torn, and gathers into a run."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from causalcast.errors import TraceError
from causalcast.trace.gather import gather
from causalcast.trace.node_log import NodeLog, NodeLogHeader, header_of, read_log
from causalcast.trace.recorder import code_of
from causalcast.trace.run_folder import read_run

PUBLISH, DELIVER, SEND, NOTE = map(code_of, ("publish", "deliver", "send", "note"))
JOIN, LEAVE, CRASH = map(code_of, ("join", "leave", "crash"))


def header(node: int, level: str = "full") -> NodeLogHeader:
    return NodeLogHeader(
        node=node,
        name=f"node-{node}",
        address=f"127.0.0.1:740{node}",
        cluster="test",
        protocol="vector_clock_broadcast",
        options={"window": 1000},
        overlay="ring",
        guarantees=["causal_order"],
        groups={"all": [1, 2], "late": [1]},
        level=level,
        version="0",
        started_at=f"2026-01-0{node}T00:00:00+00:00",
    )


def path_of(folder: Path, node: int) -> Path:
    return folder / f"node-{node}" / f"node-{node}.nodelog"


def write(folder: Path, node: int, *turns: Sequence[tuple[int, ...]], level: str = "full") -> Path:
    """A log of these turns; each row is (at_us, kind, message, group)."""
    log = NodeLog(path_of(folder, node), header(node, level))
    for sequence, turn in enumerate(turns, start=log.sequence + 1):
        for row in turn:
            log.add(*row)  # type: ignore[arg-type]
        log.write(sequence)
    log.close()
    return path_of(folder, node)


def test_groups_may_be_added_and_nothing_else(tmp_path: Path) -> None:
    path = write(tmp_path, 1, [(1, LEAVE, -1, 1)])
    first = header(1)
    more = replace(first, groups={**first.groups, "news": [1, 2], "others": [2]})
    NodeLog(path, more).close()
    assert header_of(path).groups_at_first() == [0, 2]  # also if older pieces are let go
    assert read_log(path).header.groups == more.groups
    NodeLog(path, more).close()  # it goes on
    for groups in (first.groups, {"news": [1, 2], **first.groups}, {**first.groups, "news": [1]}):
        with pytest.raises(TraceError, match="begun with groups"):
            NodeLog(path, replace(first, groups=groups))


def test_a_log_goes_on_where_it_ended(tmp_path: Path) -> None:
    write(tmp_path, 1, [(1, PUBLISH, 7, 0)], [(2, DELIVER, 7, 0), (3, DELIVER, 8, 0)])
    log = NodeLog(path_of(tmp_path, 1), header(1))
    assert (log.next_pos, log.sequence, log.ended_well) == (3, 2, False)
    log.close()
    path = write(tmp_path, 1, [(4, CRASH)])
    found = read_log(path)
    assert [row[:3] for row in found.rows] == [
        (1, PUBLISH, 7),
        (2, DELIVER, 7),
        (3, DELIVER, 8),
        (4, CRASH, -1),
    ]
    assert found.sequence == 3


def test_the_last_sign_of_life_is_the_last_row_or_the_start(tmp_path: Path) -> None:
    assert read_log(write(tmp_path, 1)).last_us() == 1_767_225_600_000_000
    assert read_log(write(tmp_path, 1, [(5, PUBLISH, 7, 0), (9, DELIVER, 7, 0)])).last_us() == 9


def test_a_log_cut_at_any_byte_keeps_every_whole_turn(tmp_path: Path) -> None:
    path = write(tmp_path, 1, [(1, PUBLISH, 7, 0)], [(2, DELIVER, 7, 0)], [(3, DELIVER, 8, 0)])
    whole = path.read_bytes()
    ends = [read_log(path).whole_bytes]
    for _ in range(3):  # where each turn ends, from the last one back
        path.write_bytes(whole[: ends[-1] - 1])
        ends.append(read_log(path).whole_bytes)
    for length in range(ends[-1], len(whole) + 1):
        path.write_bytes(whole[:length])
        rows = sum(end <= length for end in ends) - 1
        assert len(read_log(path).rows) == rows
        log = NodeLog(path, header(1))
        assert log.next_pos == rows
        log.add(9, CRASH)
        log.write(9)
        log.close()
        assert len(read_log(path).rows) == rows + 1


def test_damage_before_an_intact_turn_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path, 1, [(1, PUBLISH, 7, 0)], [(2, DELIVER, 7, 0)])
    damaged = bytearray(path.read_bytes())
    first_turn = damaged.index(b"\x93\x01\x00")  # sequence 1, position 0
    damaged[first_turn + 4] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(TraceError, match="damaged at byte"):
        read_log(path)


def test_the_level_decides_what_is_written(tmp_path: Path) -> None:
    rows = [(1, PUBLISH, 7, 0), (2, SEND, 7, 0), (3, NOTE, 7, 0)]
    counts = {
        level: len(read_log(write(tmp_path / level, 1, rows, level=level)).rows)
        for level in ("deliveries", "messages", "full")
    }
    assert counts == {"deliveries": 1, "messages": 2, "full": 3}


def test_a_log_of_another_run_is_not_continued(tmp_path: Path) -> None:
    path = write(tmp_path, 1, [(1, PUBLISH, 7, 0)])
    with pytest.raises(TraceError, match="begun with protocol 'vector_clock_broadcast'"):
        NodeLog(path, replace(header(1), protocol="naive_flood"))


def test_logs_gather_into_a_run_that_reads_back(tmp_path: Path) -> None:
    """Node 1 stopped in good order, node 2 was killed; it had joined `late` and left it."""
    write(tmp_path / "a", 1, [(1, PUBLISH, 7, 0), (2, DELIVER, 7, 0)], [(3, LEAVE)])
    write(tmp_path / "b", 2, [(5, JOIN, -1, 1), (6, DELIVER, 7, 0), (7, LEAVE, -1, 1)])
    gather([tmp_path / "a", tmp_path / "b"], tmp_path / "run")
    run = read_run(tmp_path / "run")
    assert [(r["node"], r["pos"], r["kind"], r["message"]) for r in run.events.to_pylist()] == [
        (1, 0, "publish", 7),
        (1, 1, "deliver", 7),
        (1, 2, "leave", None),
        (2, 0, "join", None),
        (2, 1, "deliver", 7),
        (2, 2, "leave", None),
        (2, 3, "crash", None),
    ]
    assert run.members.to_pylist() == [
        {"group": 0, "node": 1, "from_pos": 0, "to_pos": None},
        {"group": 0, "node": 2, "from_pos": 0, "to_pos": None},
        {"group": 1, "node": 1, "from_pos": 0, "to_pos": None},
        {"group": 1, "node": 2, "from_pos": 0, "to_pos": 2},
    ]
    assert run.groups.to_pylist() == [{"group": 0, "name": "all"}, {"group": 1, "name": "late"}]
    assert run.header.world == "real"
    assert run.header.faults == {"crash": 1}
    assert run.header.complete
    assert run.header.started_at == "2026-01-01T00:00:00+00:00"


def test_a_missing_log_makes_the_run_incomplete(tmp_path: Path) -> None:
    write(tmp_path, 1, [(1, PUBLISH, 7, 0)])
    assert not gather([tmp_path], tmp_path / "run").header.complete


def test_logs_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "a", 1, [(1, PUBLISH, 7, 0)])
    write(tmp_path / "b", 1, [(1, PUBLISH, 7, 0)])
    with pytest.raises(TraceError, match="two logs of node 1"):
        gather([tmp_path / "a", tmp_path / "b"], tmp_path / "run")
    other = NodeLog(path_of(tmp_path / "c", 2), replace(header(2), cluster="other"))
    other.close()
    with pytest.raises(TraceError, match=r"cluster 'other'.*not one run"):
        gather([tmp_path / "a", tmp_path / "c"], tmp_path / "run")
