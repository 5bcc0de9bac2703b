"""Runs that the command line is tried on."""

from pathlib import Path

import pytest

from causalcast.testing.draft_run import DraftRun, message_id
from causalcast.trace.run_folder import write_run
from causalcast.trace.schema import GUARANTEES

A, B, P = 0, 1, 2
QUESTION, ANSWER = message_id(A, 1), message_id(B, 1)


def question_and_answer() -> DraftRun:
    """A asks, B answers, P listens; all is well."""
    draft = DraftRun()
    draft.header.guarantees = list(GUARANTEES)
    draft.header.protocol = "test"
    draft.found(0, A, B, P)
    draft.add(A, "publish", QUESTION, 0)
    draft.add(A, "deliver", QUESTION, 0)
    draft.add(B, "deliver", QUESTION, 0)
    draft.add(B, "publish", ANSWER, 0)
    draft.add(B, "deliver", ANSWER, 0)
    draft.add(A, "deliver", ANSWER, 0)
    draft.add(P, "deliver", QUESTION, 0)
    draft.add(P, "deliver", ANSWER, 0)
    return draft


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """A run without fault."""
    write_run(tmp_path / "good", question_and_answer().run())
    return tmp_path / "good"


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    """P delivers the answer before the question."""
    draft = question_and_answer()
    draft.logs[P].reverse()
    write_run(tmp_path / "bad", draft.run())
    return tmp_path / "bad"


@pytest.fixture
def incomplete(tmp_path: Path) -> Path:
    """The run was cut short, and P has not delivered the answer yet."""
    draft = question_and_answer()
    draft.logs[P].pop()
    draft.header.complete = False
    write_run(tmp_path / "incomplete", draft.run())
    return tmp_path / "incomplete"
