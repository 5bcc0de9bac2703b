"""`causalcast report` and `metrics`: files and figures."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from causalcast.cli.main import main
from causalcast.simulator.runner import simulate


@pytest.mark.slow
@pytest.mark.spark
def test_the_report_is_one_file_with_the_verdict_first(
    good: Path, bad: Path, tmp_path: Path, spark: Any
) -> None:
    out = tmp_path / "report.html"
    assert main(["report", str(bad), "--out", str(out)]) == 1
    page = out.read_text()
    assert "<strong>violated</strong>" in page
    assert page.index("<strong>violated</strong>") < page.index("<svg")
    assert "n2 delivered a message before one of its causes" in page
    assert '<svg class="space-time"' in page
    assert ">deliver 1.1 @0 too early</text>" in page
    fetched = re.findall(r'(?:src|href)="(?!#)([^"]*)"|url\((?!#)([^)]*)\)', page)
    assert fetched == [], "nothing may be loaded from elsewhere"
    assert main(["report", str(good), str(bad), "--out", str(out)]) == 1
    page = out.read_text()
    assert page.count('<div class="verdict') == 3, "one for both together, and each its own"
    assert page.index("1 ok, 1 violated") < page.index("<svg")
    assert "Measured, side by side" in page


@pytest.mark.spark
def test_metrics_as_json(
    good: Path, bad: Path, capsys: pytest.CaptureFixture[str], spark: Any
) -> None:
    assert main(["metrics", str(good), str(bad), "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    runs = json.loads(captured.out)["runs"]
    assert [Path(run["run"]).name for run in runs] == ["good", "bad"]
    # Rows are 10 µs apart: 0.1 is published in row 0 and delivered in rows 2 and 6,
    # 1.1 is published in row 3 and delivered in rows 5 and 7.
    assert runs[0]["latency_mean_ms"] == pytest.approx((20 + 60 + 20 + 40) / 4 / 1000)
    assert runs[0]["latency_max_ms"] == pytest.approx(0.060)
    assert (runs[0]["publications"], runs[0]["deliveries"]) == (2, 6)
    assert runs[0]["redundancy"] is None, "the trace has no sends"


@pytest.mark.spark
def test_an_unusable_run_is_told_in_one_line(
    good: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = min((good / "events").iterdir())
    file.write_bytes(file.read_bytes()[:-40])
    for command in (["metrics"], ["report", "--out", str(tmp_path / "report.html")]):
        assert main([*command, str(good)]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_the_report_of_a_simulated_run_leads_to_the_lab(bad: Path, tmp_path: Path) -> None:
    simulated, out = tmp_path / "a run", tmp_path / "report.html"
    simulate("revoke_then_post", out=simulated)
    assert main(["report", str(simulated), "--local", "--out", str(out)]) == 0
    assert f"causalcast lab --run &#x27;{simulated}&#x27;" in out.read_text()
    assert main(["report", str(bad), "--local", "--out", str(out)]) == 1
    assert "causalcast lab" not in out.read_text()  # nobody simulated it
