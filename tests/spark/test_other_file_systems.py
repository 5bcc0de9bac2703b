"""Runs that lie where only Spark can read: everything goes through another file system of Hadoop.

`viewfs` is one, it comes with Spark: its paths mean nothing to Python, and only Spark's own
configuration knows the folder behind them, as with `s3a` or `hdfs`.
"""

import json
import shutil
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest

from causalcast.cli.main import main
from causalcast.judge import judge
from causalcast.pipeline.logs.places import RemoteFolder, place_of
from causalcast.pipeline.spark import remote_runs
from causalcast.pipeline.spark.remote_runs import check_remote_runs, fetch_runs
from causalcast.sweep.grid import make_grid
from causalcast.sweep.point import run_point
from causalcast.testing.comparison import differences
from causalcast.testing.draft_run import DraftRun, message_id
from causalcast.testing.random_traces import damage, good_run
from causalcast.trace.export import to_json_lines
from causalcast.trace.run_folder import event_files, read_run, write_run
from causalcast.trace.schema import GUARANTEES

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parents[2]


class Store:
    """A folder, and the URI under which Spark knows it."""

    def __init__(self, folder: Path, uri: str) -> None:
        self.folder = folder
        self.uri = uri


@pytest.fixture
def store(spark: Any, tmp_path: Path) -> Store:
    name = f"store{abs(hash(str(tmp_path)))}"  # Hadoop keeps a file system once it has made it
    (tmp_path / "store").mkdir()
    link = f"fs.viewfs.mounttable.{name}.link./runs"
    spark._jsc.hadoopConfiguration().set(link, f"file://{tmp_path}/store")
    return Store(tmp_path / "store", f"viewfs://{name}/runs")


def inverted() -> DraftRun:
    """A publishes twice, B delivers the second before the first."""
    draft = DraftRun()
    draft.header.guarantees = list(GUARANTEES)
    draft.found(0, 0, 1)
    for number in (1, 2):
        draft.add(0, "publish", message_id(0, number), 0)
        draft.add(0, "deliver", message_id(0, number), 0)
    for number in (2, 1):
        draft.add(1, "deliver", message_id(0, number), 0)
    return draft


def told(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    """What a command prints as JSON."""
    main([*map(str, arguments), "--json"])
    captured = capsys.readouterr()
    assert captured.err == ""
    return json.loads(captured.out)


def split_into_pieces(folder: Path) -> None:
    """Every row in a file of its own, as of a run that was written while it grew."""
    for path in event_files(folder):
        table = pq.read_table(path)
        path.unlink()
        for row in range(len(table)):
            node, pos = table["node"][row].as_py(), table["pos"][row].as_py()
            pq.write_table(table.slice(row, 1), path.with_name(f"part-{node}-{pos}.parquet"))


def test_places_are_told_apart() -> None:
    assert place_of("runs/7") == Path("runs/7")
    assert place_of("file:///a%20run") == place_of("file:/a run") == Path("/a run")
    assert place_of("s3a://bucket/runs/7/") == RemoteFolder("s3a://bucket/runs/7/")
    assert (RemoteFolder("s3a://bucket/runs/7/").name, str(RemoteFolder("x://b") / "c")) == (
        "7",
        "x://b/c",
    )


def test_verify_says_the_same_as_of_local_runs(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(store.folder / "a run=1", inverted().run())
    write_run(store.folder / "pieces", inverted().run())
    split_into_pieces(store.folder / "pieces")
    local = [store.folder / "a run=1", store.folder / "pieces", store.folder / "pieces"]
    here = told(capsys, "verify", *local, "--local")
    # A folder of runs, and a file:// URI beside it.
    there = told(capsys, "verify", store.uri, f"file://{store.folder}/pieces")
    places = [f"{store.uri}/a run=1", f"{store.uri}/pieces", f"{store.folder}/pieces"]
    assert [run.pop("run") for run in there["runs"]] == places
    for run in here["runs"]:
        del run["run"]
    del here["seconds"], there["seconds"]
    assert there == here
    assert main(["verify", f"{store.uri}/a run=1"]) == 1
    assert "✗ deliver 0.2 @0 too early" in capsys.readouterr().out


@pytest.mark.slow
def test_spread_over_files_it_agrees_with_the_judge(
    spark: Any, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large runs: whole logs are read where they are worked on, pieces are brought together."""
    monkeypatch.setattr(remote_runs, "LARGE_BYTES", 0)
    drafts = []
    for seed in (3, 5):
        random = Random(seed)
        drafts.append(good_run(random))
        damage(drafts[-1], random)
        write_run(store.folder / str(seed), drafts[-1].run())
    split_into_pieces(store.folder / "5")
    runs = fetch_runs(spark, [RemoteFolder(store.uri)], tmp_path / "fetched")
    for run, checked in zip(drafts, check_remote_runs(spark, runs), strict=True):
        assert differences(run.run(), judge(run.run()), checked.findings) == []


def test_complaints_name_the_file_as_spark_does(
    spark: Any, store: Store, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write_run(store.folder / "torn", inverted().run())
    first = event_files(store.folder / "torn")[0]
    first.write_bytes(first.read_bytes()[:-40])
    for place, complaint in (
        ("torn", "/torn/events/part-00000.parquet: unreadable or truncated"),
        ("nowhere", "/nowhere: no such folder"),
        ("torn/events", "neither a run nor a folder of runs"),
    ):
        assert main(["verify", f"{store.uri}/{place}"]) == 2
        said = capsys.readouterr().err
        assert complaint in said and store.uri in said
        assert str(tmp_path) not in said and said.count("\n") == 1, said
    assert main(["verify", "nosuch://bucket/run"]) == 2
    assert 'No FileSystem for scheme "nosuch"' in capsys.readouterr().err
    assert main(["verify", f"{store.uri}/torn", "--local"]) == 2
    assert "only Spark can read" in capsys.readouterr().err
    with pytest.raises(Exception, match="cannot use Spark's file systems"):
        spark.read.format("causalcast").load(f"{store.uri}/torn").collect()


@pytest.mark.slow
def test_runs_are_written_and_changed_there(
    store: Store, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Import a log there, from there; compact it, and export it again."""
    log = store.folder / "log.jsonl"
    log.write_text("\n".join(to_json_lines(inverted().run())))
    told(capsys, "trace", "import", f"{store.uri}/log.jsonl", "--out", f"{store.uri}/imported")
    told(capsys, "trace", "import", log, "--out", tmp_path / "imported")
    there, here = read_run(store.folder / "imported"), read_run(tmp_path / "imported")
    assert there.header == here.header
    rows = [run.events.drop_columns(["at_us"]).to_pylist() for run in (there, here)]
    assert rows[0] == rows[1]

    compact = ("trace", "compact", f"{store.uri}/imported", "--out", f"{store.uri}/compact")
    assert told(capsys, *compact)["files"] == 1
    assert read_run(store.folder / "compact").events.to_pylist() == there.events.to_pylist()
    assert main([*compact]) == 2
    assert "already exists" in capsys.readouterr().err

    for run, out in ((f"{store.uri}/compact", "there"), (tmp_path / "imported", "here")):
        told(capsys, "trace", "export", run, "--format", "shiviz", "--out", tmp_path / out)
    assert (tmp_path / "there").read_text() == (tmp_path / "here").read_text()
    left = sorted(path.name for path in store.folder.iterdir() if "partial" in path.name)
    assert left == [], "nothing half done is left"


@pytest.mark.slow
def test_a_sweep_goes_there_and_on(
    store: Store, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    scenario = tmp_path / "small.toml"
    shutil.copy(ROOT / "scenarios" / "revoke_then_post.toml", scenario)
    sweep = ("sweep", scenario, "--out", f"{store.uri}/sweep")
    first = told(capsys, *sweep, "--seeds", "0..1")
    assert [point["attempts"] for point in first["points"]] == [1]
    second = told(capsys, *sweep, "--seeds", "0..2")
    assert [point["attempts"] for point in second["points"]] == [0, 1]
    rows = pq.read_table(store.folder / "sweep" / "results.parquet").to_pylist()
    assert [row["run"] for row in rows] == [point["run"] for point in second["points"]]
    assert all(row["verdict"] == "ok" and row["latency_p50_ms"] > 0 for row in rows)
    for point in make_grid([scenario], [], {}, range(2)):
        assert run_point(point, tmp_path, None).verdict == "ok"
        run, same = read_run(store.folder / "sweep" / point.name), read_run(tmp_path / point.name)
        assert run.events.equals(same.events)

    scenario.write_text(scenario.read_text() + "\n# changed\n")
    assert main([*map(str, sweep), "--seeds", "0..1"]) == 2
    assert "made from another scenario" in capsys.readouterr().err


@pytest.mark.slow
def test_a_report_on_it_goes_there(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(store.folder / "bad", inverted().run())
    out = f"{store.uri}/report.html"
    assert told(capsys, "report", f"{store.uri}/bad", "--out", out)["verdicts"] == ["violated"]
    page = (store.folder / "report.html").read_text()
    assert ">deliver 0.2 @0 too early</text>" in page
