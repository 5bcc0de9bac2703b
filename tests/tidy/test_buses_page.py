"""The script behind `make buses` puts what was measured into the page, and nothing else."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from causalcast.buses.conditions import CONDITIONS
from causalcast.buses.registry import SYSTEMS
from causalcast.buses.trial import Outcome, folder_name
from causalcast.trace.foreign_log import Record, import_records
from causalcast.trace.run_folder import write_run

ROOT = Path(__file__).parent.parent.parent
ROWS = (
    ("p0", "publish", "p0-1"), ("p1", "deliver", "p0-1"), ("p1", "publish", "p1-1"),
    ("p2", "deliver", "p1-1"), ("p2", "deliver", "p0-1"),
)  # fmt: skip


def put_in(measured: Path, docs: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(ROOT / "scripts" / "buses_page.py"), str(measured)]
    return subprocess.run([*command, "--docs", str(docs)], capture_output=True, text=True,
                          check=False)  # fmt: skip


def measured(folder: Path, *leave_out: str) -> Path:
    folder.mkdir()
    outcomes = [
        Outcome(system.name, setup, condition.name, deliveries=4321, latency_p50_ms=98.7)
        for system in SYSTEMS for setup in system.setups for condition in CONDITIONS
        if system.name not in leave_out
    ]  # fmt: skip
    (found,) = (one for one in outcomes if (one.system, one.setup, one.condition)
                == ("NATS", "one subscription", "moderate"))  # fmt: skip
    found.causal = 17
    lines = [Record("row", {"node": node, "pos": pos, "kind": kind, "message": message})
             for pos, (node, kind, message) in enumerate(ROWS)]  # fmt: skip
    run = folder / folder_name("NATS", "one subscription", "moderate") / "run"
    write_run(run, import_records(lines, "trial", whole=False))
    (folder / "results.json").write_text(json.dumps([one.to_dict() for one in outcomes]))
    return folder


def test_the_page_gets_what_was_measured(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    (docs / "images").mkdir(parents=True)
    page = docs / "buses.md"
    shutil.copy(ROOT / "docs" / "buses.md", page)
    before = page.read_text()
    done = put_in(measured(tmp_path / "measured"), docs)
    assert done.returncode == 0, done.stderr
    text = page.read_text()
    assert "| NATS: one subscription | **17** of 4,321 | 0 of 4,321 |" in text
    assert "| NATS: one subscription | 98.7 |" in text
    assert "NATS, one subscription; 60 publications per second and process:\n\n> p2 del" in text
    assert max(map(len, text.split("## Counter-examples")[1].split("##")[0].splitlines())) <= 100
    assert (docs / "images" / "buses_nats.svg").read_text().startswith("<svg")
    prose = [line for line in before.splitlines() if line[:1] not in ("|", ">", "!")]
    kept = [line for line in prose if line in text]
    assert len(prose) - len(kept) <= 3, "only what introduces the examples is another"
    assert put_in(tmp_path / "measured", docs).returncode == 0 and page.read_text() == text


def test_a_page_that_would_lose_a_bus_is_refused(tmp_path: Path) -> None:
    done = put_in(measured(tmp_path / "measured", "RabbitMQ"), ROOT / "docs")
    assert done.returncode == 2 and "RabbitMQ, a queue per topic, moderate" in done.stderr
