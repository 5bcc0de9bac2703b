"""`spark.read.format("causalcast")` without registration, on one run and on a folder of runs."""

from pathlib import Path
from typing import Any

import pytest

from causalcast.testing.draft_run import DraftRun, message_id
from causalcast.trace.run_folder import write_run


def two_runs(folder: Path) -> None:
    for name, deliveries in (("first", 1), ("second", 2)):
        draft = DraftRun()
        draft.found(0, 0, 1)
        for number in range(1, deliveries + 1):
            draft.add(0, "publish", message_id(0, number), 0)
            draft.add(1, "deliver", message_id(0, number), 0)
        write_run(folder / name, draft.run())


@pytest.mark.slow
@pytest.mark.spark
def test_events_of_a_run_and_of_many(spark: Any, tmp_path: Path) -> None:
    two_runs(tmp_path)
    one = spark.read.format("causalcast").load(str(tmp_path / "second"))
    rows = one.orderBy("node", "pos").select("run", "node", "pos", "kind", "message").collect()
    assert [tuple(row) for row in rows] == [
        ("second", 0, 0, "publish", message_id(0, 1)),
        ("second", 0, 1, "publish", message_id(0, 2)),
        ("second", 1, 0, "deliver", message_id(0, 1)),
        ("second", 1, 1, "deliver", message_id(0, 2)),
    ]
    every = spark.read.format("causalcast").load(str(tmp_path)).where("kind = 'deliver'")
    counts = {row["run"]: row["count"] for row in every.groupBy("run").count().collect()}
    assert counts == {"first": 1, "second": 2}


@pytest.mark.spark
def test_the_other_tables(spark: Any, tmp_path: Path) -> None:
    two_runs(tmp_path)
    source = spark.read.format("causalcast").option("table", "members")
    rows = source.load(str(tmp_path / "first")).orderBy("node").collect()
    assert [tuple(row) for row in rows] == [("first", 0, 0, 0, None), ("first", 0, 1, 0, None)]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("options", "path", "complaint"),
    [
        ({"table": "secrets"}, "first", "no table 'secrets'"),
        ({}, "nowhere", "no such run"),
        ({}, "first/events", "neither a run nor a folder of runs"),
    ],
)
def test_what_is_wrong_is_named(
    spark: Any, tmp_path: Path, options: dict[str, str], path: str, complaint: str
) -> None:
    two_runs(tmp_path)
    source = spark.read.format("causalcast").options(**options)
    with pytest.raises(Exception, match=complaint):
        source.load(str(tmp_path / path)).collect()
