"""What `watch` says beside a campaign: violations are wrong, and so is a watch that fell behind."""

import json
import sys
from pathlib import Path

import pytest

from causalcast.chaos import live_judge
from causalcast.chaos.live_judge import TOLD, LiveJudge

HEARTBEAT = {"run": "r", "deliveries": 12}
VIOLATION = {"violation": "fifo_order", "kind": "gap", "node": 2, "message": 5}


def judge_that_says(tmp_path: Path, *lines: object) -> LiveJudge:
    """One whose process says nothing itself."""
    told = tmp_path / "watch.jsonl"
    judge = LiveJudge(tmp_path, told, 10.0)
    told.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"torn')
    return judge


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    popen = live_judge.subprocess.Popen

    def quiet(command: list[str], **others: object) -> object:
        return popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)

    monkeypatch.setattr(live_judge.subprocess, "Popen", quiet)
    monkeypatch.setattr(live_judge, "CATCHES_UP_WITHIN", 0.2)


def test_all_was_seen_and_nothing_is_wrong(tmp_path: Path) -> None:
    assert judge_that_says(tmp_path, HEARTBEAT).end(12) == (12, [])


def test_violations_are_told_the_first_one_by_one(tmp_path: Path) -> None:
    _, wrong = judge_that_says(tmp_path, *[VIOLATION] * (TOLD + 3), HEARTBEAT).end(12)
    assert wrong[0] == "watch: fifo_order (gap) of 5 at node 2"
    assert len(wrong) == TOLD + 1 and wrong[-1] == "watch: and 3 more"


def test_what_it_did_not_see_is_wrong(tmp_path: Path) -> None:
    assert judge_that_says(tmp_path, HEARTBEAT).end(13)[1] == ["watch saw 12 of 13 deliveries"]
