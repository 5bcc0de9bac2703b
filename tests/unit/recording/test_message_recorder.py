"""The recorder: its lines are a log that is judged, whoever calls it and however it ends."""

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from causalcast.judge import judge
from causalcast.recording.recorder import HEADER, Recorder
from causalcast.trace.foreign_log import import_records, records_of
from causalcast.trace.log_files import LogFiles, files_at


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_conversation_is_recorded_and_judged(tmp_path: Path) -> None:
    """Cleo sees the answer before the question."""
    ada, bob, cleo = (Recorder(name, tmp_path / f"{name}.jsonl") for name in ("ada", "bob", "cleo"))
    for recorder in (ada, bob, cleo):
        recorder.subscribed("chat")
    question = ada.publish("chat")
    with bob.handling(question.headers, "chat") as handled:
        answer = bob.publish("chat")
    assert handled.id == question.id
    for headers in (answer.headers, question.headers):
        with cleo.handling(headers, "chat"):
            pass
    files = LogFiles(files_at(tmp_path))
    run = import_records(records_of(files), "chat")
    assert any("causal_order" in str(broken) for broken in judge(run).all_broken())
    assert rows(tmp_path / "bob.jsonl")[2]["causes"] == [question.id]


def test_a_line_says_everything_and_is_there_at_once(tmp_path: Path) -> None:
    recorder = Recorder('the "first"', tmp_path / "deep" / "log.jsonl")
    recorder.subscribed("jobs", share="workers")
    recorder.publish("jobs/1", key="ü")
    recorder.delivered({HEADER: b"x-1"}, "jobs/1", share="workers", attempt=2)
    recorder.unsubscribed("jobs")
    told = rows(tmp_path / "deep" / "log.jsonl")
    for row in told:
        assert row.pop("at_us") > 1_600_000_000_000_000
    node = 'the "first"'
    assert told == [
        {"node": node, "pos": 0, "kind": "join", "group": "jobs", "share": "workers"},
        {"node": node, "pos": 1, "kind": "publish", "message": f"{node}-1", "group": "jobs/1",
         "key": "ü"},
        {"node": node, "pos": 2, "kind": "deliver", "message": "x-1", "group": "jobs/1",
         "share": "workers", "attempt": 2},
        {"node": node, "pos": 3, "kind": "leave", "group": "jobs"},
    ]  # fmt: skip


def test_threads_get_one_order(tmp_path: Path) -> None:
    recorder = Recorder("p0", tmp_path / "log.jsonl")
    ids: list[str] = []

    def work() -> None:
        for _ in range(500):
            ids.append(recorder.publish("t").id)
            with recorder.handling({HEADER: "other-1"}, "t"):
                pass

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told = rows(tmp_path / "log.jsonl")
    assert [row["pos"] for row in told] == list(range(8 * 500 * 2))
    assert len(set(ids)) == 4000
    published = {row["message"] for row in told if row["kind"] == "publish"}
    assert published == set(ids)


def test_each_task_and_thread_answers_what_it_handles(tmp_path: Path) -> None:
    recorder = Recorder("p0", tmp_path / "log.jsonl")

    async def answer(message: str) -> None:
        with recorder.handling({HEADER: message}, "t"):
            await asyncio.sleep(0)  # others are handled meanwhile
            recorder.publish("t")

    async def main() -> None:
        await asyncio.gather(*(answer(f"q{n}") for n in range(5)))
        recorder.publish("t")  # answers nothing

    asyncio.run(main())
    causes = [row.get("causes") for row in rows(recorder.path) if row["kind"] == "publish"]
    assert causes == [[f"q{n}"] for n in range(5)] + [None]


def test_an_answer_ends_with_its_block_also_after_an_error(tmp_path: Path) -> None:
    recorder = Recorder("p0", tmp_path / "log.jsonl")
    with recorder.handling({HEADER: "outer"}, "t"):
        with pytest.raises(ZeroDivisionError), recorder.handling({HEADER: "inner"}, "t"):
            raise ZeroDivisionError
        recorder.publish("t")
    assert rows(recorder.path)[-1]["causes"] == ["outer"]


def test_what_nobody_recorded_is_unknown_each_by_itself(tmp_path: Path) -> None:
    recorder = Recorder("p0", tmp_path / "log.jsonl")
    ids = [recorder.delivered(headers, "t") for headers in (None, {}, {"other": "x"})]
    assert len(set(ids)) == 3 and all("unknown" in message for message in ids)


def test_a_restarted_process_goes_on_where_it_ended(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with Recorder("p0", path) as before:
        first = before.publish("t")
    with path.open("a") as file:
        file.write('{"node": "p0", "po')  # killed while it wrote
    after = Recorder("p0", path)
    second = after.publish("t")
    assert [row["kind"] for row in rows(path)] == ["publish", "crash", "recover", "publish"]
    assert [row["pos"] for row in rows(path)] == [0, 1, 2, 3]
    assert first.id != second.id


def test_it_needs_the_standard_library_only() -> None:
    import ast
    import sys

    import causalcast.recording.recorder as module

    tree = ast.parse(Path(str(module.__file__)).read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module] if isinstance(node, ast.ImportFrom) else [
                alias.name for alias in node.names]  # fmt: skip
            for name in names:
                assert str(name).partition(".")[0] in sys.stdlib_module_names
