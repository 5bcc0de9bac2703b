"""What a watch keeps: a batch counts for all runs at once, or for none."""

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from causalcast.errors import TraceError
from causalcast.pipeline.live import live_watch
from causalcast.pipeline.live.live_check import LiveCheck
from causalcast.pipeline.live.live_foreign import LiveForeignCheck
from causalcast.pipeline.live.live_state import LiveState
from causalcast.pipeline.live.live_watch import Progress, Watch
from causalcast.testing.draft_run import DraftRun, message_id
from causalcast.trace.run_folder import write_run


def check_with(rows: int) -> LiveCheck:
    check = LiveCheck({})
    check.rows_done = rows
    return check


def test_half_a_batch_does_not_count(tmp_path: Path) -> None:
    state = LiveState(tmp_path)
    state.save(0, [("a", check_with(1)), ("b", check_with(1))])
    state.save(1, [("a", check_with(2))])
    (tmp_path / "done").write_text("0")  # killed before batch 1 counted
    again = LiveState(tmp_path)
    assert again.done == 0
    assert {run: check.rows_done for run, check in again.all()} == {"a": 1, "b": 1}
    again.save(1, [("a", check_with(3))])
    assert {run: check.rows_done for run, check in LiveState(tmp_path).all()} == {"a": 3, "b": 1}


def test_damage_is_named(tmp_path: Path) -> None:
    (tmp_path / "done").write_text("?")
    with pytest.raises(TraceError, match="damaged"):
        LiveState(tmp_path)


class Bomb:
    """What a run from a stranger may hold in place of a check."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


def test_a_state_that_names_anything_but_checks_runs_nothing(tmp_path: Path) -> None:
    mark = tmp_path / "was here"
    folder = tmp_path / "state"
    folder.mkdir()
    LiveState(folder).save(0, [("a", check_with(1))])
    [state] = folder.glob("*/*.state")
    for hostile in (Bomb(mark), ("a", Bomb(mark)), ("a", {"b": Bomb(mark)}), ("a", set())):
        state.write_bytes(pickle.dumps(hostile))
        with pytest.raises(TraceError, match="remove the state of the watch"):
            LiveState(folder).load("a")
    assert not mark.exists()


def test_what_is_read_back_is_what_was_kept(tmp_path: Path) -> None:
    m = message_id(0, 1)
    check = LiveCheck({0: {0, 1}}, redelivery=True)
    check.feed(0, [(0, "publish", m, 0), (1, "deliver", m, 0)])
    check.feed(1, [(1, "deliver", m, 0)])
    check.settle()
    foreign = LiveForeignCheck("none", False, {(0, 1)})
    foreign.feed(0, [(0, "publish", m, 0, None, None, None, False)])
    foreign.feed(1, [(0, "deliver", m + 1, 0, None, [m], None, False)])
    foreign.settle()
    LiveState(tmp_path).save(0, [("a", check), ("b", foreign)])  # type: ignore[list-item]
    again = LiveState(tmp_path)
    found = again.load("a")
    assert found is not None and found.in_flight[m].lacking == {1}
    assert np.array_equal(found.nodes[0].seen, check.nodes[0].seen)
    found.nodes[0].seen[0] += 1  # can be written to, as before
    other = again.load("b")
    assert isinstance(other, LiveForeignCheck) and other.rows_waiting() == foreign.rows_waiting()


class Frame:
    """A batch as Spark hands it over."""

    def __init__(self, run: Path, rows: list[tuple[int, int, str, int, int]]) -> None:
        self.rows = [dict(zip(live_watch.COLUMNS, row, strict=True)) | {"run": str(run)}
                     for row in rows]  # fmt: skip

    def toArrow(self) -> pa.Table:  # noqa: N802 - Spark's name
        return pa.Table.from_pylist(self.rows)


def test_runs_at_rest_are_on_disk_alone_and_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_watch, "RUNS_AT_HAND", 2)
    told: list[Progress] = []
    (tmp_path / "state").mkdir()
    watch = Watch(tmp_path / "state", told.append)
    runs = [tmp_path / f"run {n}" for n in range(5)]
    m = message_id(0, 1)
    for batch, run in enumerate(runs):
        draft = DraftRun()
        draft.found(0, 0, 1)
        write_run(run, draft.run())
        rows = [(0, 0, "publish", m, 0), (0, 1, "deliver", m, 0)]
        if batch:  # in the first run something is still on its way
            rows.append((1, 0, "deliver", m, 0))
        watch.take(Frame(run, rows), batch)
    assert list(watch.runs) == [str(runs[0]), str(runs[3]), str(runs[4])]
    assert {run for run, _ in watch.every_run()} == {str(run) for run in runs}
    watch.take(Frame(runs[1], [(1, 1, "deliver", m, 0)]), 5)
    [(run, finding)] = told[-1].found
    assert (run, finding.guarantee) == (str(runs[1]), "no_duplication")

    again = Watch(tmp_path / "state", told.append)
    assert list(again.runs) == [str(runs[0])], "what is on its way is waited for after a restart"
    with pytest.raises(TraceError, match="goes on with 9"):
        again.take(Frame(runs[0], [(1, 0, "deliver", m, 0)]), 9)


def test_a_cluster_that_only_beats_is_idle(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    watch = Watch(tmp_path / "state", lambda progress: None)
    draft = DraftRun()
    draft.found(0, 0, 1)
    write_run(tmp_path / "run", draft.run())
    m = message_id(0, 1)
    watch.last_news = 0.0
    watch.take(Frame(tmp_path / "run", [(0, 0, "publish", m, 0)]), 0)
    assert watch.last_news > 0 and watch.quiet_batches == 0
    watch.last_news = 0.0
    for batch in (1, 2):
        watch.take(Frame(tmp_path / "run", [(0, batch, "send", m, 0)]), batch)
    assert watch.last_news == 0 and watch.quiet_batches == 2
    watch.take(Frame(tmp_path / "run", [(0, 3, "deliver", m, 0)]), 3)
    assert watch.last_news > 0 and watch.quiet_batches == 0
