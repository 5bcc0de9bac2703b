"""Each check on Spark with the smallest good and the smallest bad run; rows are written by hand."""

from pathlib import Path
from typing import Any

import pytest

from causalcast.pipeline.spark.spark_job import check_runs
from causalcast.pipeline.spark.tables import violations_table
from causalcast.testing.draft_run import DraftRun, message_id
from causalcast.trace.run_folder import write_run

A, P = 0, 1
M1, M2, GHOST = message_id(A, 1), message_id(A, 2), message_id(A, 7)


def story(*rows: str) -> DraftRun:
    """Rows as "a publish 1"; a and p are members of one group, messages are a's."""
    draft = DraftRun()
    draft.found(0, A, P)
    for row in rows:
        node, kind, *number = row.split()
        message = message_id(A, int(number[0])) if number else None
        draft.add({"a": A, "p": P}[node], kind, message, 0 if number else None)
    return draft


PUBLISHED = ("a publish 1", "a deliver 1")
TWICE = (*PUBLISHED, "a publish 2", "a deliver 2")
STORIES = {
    "good": story(*TWICE, "p deliver 1", "p deliver 2"),
    "created": story(*PUBLISHED, "p deliver 1", "p deliver 7"),
    "doubled": story(*PUBLISHED, "p deliver 1", "p deliver 1"),
    "own one missing": story("a publish 1", "p deliver 1"),
    "one lacks it": story(*PUBLISHED),
    "turned round": story(*TWICE, "p deliver 2", "p deliver 1"),
    "first one lost": story(*TWICE, "p deliver 2", "p crash"),
}
# run, guarantee, kind, node, message, pos, cause
EXPECTED = [
    ("created", "no_creation", "unpublished", P, GHOST, 1, None),
    ("doubled", "no_duplication", "repeated", P, M1, 1, None),
    ("first one lost", "causal_order", "gap", P, M2, 0, M1),
    ("first one lost", "fifo_order", "gap", P, M2, 0, M1),
    ("one lacks it", "agreement", "missing", P, M1, None, None),
    ("own one missing", "validity", "missing", A, M1, 0, None),
    ("turned round", "causal_order", "inversion", P, M2, 0, M1),
    ("turned round", "fifo_order", "inversion", P, M2, 0, M1),
]


@pytest.mark.spark
def test_each_check_finds_its_own_fault_and_nothing_else(spark: Any, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in STORIES]
    for folder, draft in zip(folders, STORIES.values(), strict=True):
        write_run(folder, draft.run())
    checked = check_runs(spark, folders)
    findings = {f.name: c.findings for f, c in zip(folders, checked, strict=True)}
    frame = violations_table(spark, findings)
    columns = ["run", "guarantee", "kind", "node", "message", "pos", "cause"]
    rows = [tuple(row) for row in frame.select(*columns).orderBy("run", "guarantee").collect()]
    assert rows == EXPECTED
