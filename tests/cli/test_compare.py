"""`causalcast compare`: what the survey's table says in words, measured."""

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

from causalcast.cli.main import main


@pytest.fixture(scope="module")
def measured() -> dict[str, Any]:
    """Every protocol of the survey on one workload, once."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main(["compare", "--count", "4", "--json"]) == 0
    found: dict[str, Any] = json.loads(printed.getvalue())
    return found


def test_every_run_is_judged_in_order_and_the_workload_is_the_same(
    measured: dict[str, Any],
) -> None:
    rows = measured["measured"]
    assert len(rows) == 9 and {row["verdict"] for row in rows} == {"ok"}
    assert len({(row["publications"], row["deliveries"]) for row in rows}) == 1
    assert rows[0]["publications"] > 50


def test_the_words_of_table_1_are_what_was_measured(measured: dict[str, Any]) -> None:
    """Who carries messages never blocks; who carries names does; zones alone need a structure."""
    rows = {row["label"]: row for row in measured["measured"]}
    for label, row in rows.items():
        carries_messages = label in ("first_generation", "causal_separators (packets)")
        assert (row["held_share"] == 0) == carries_messages, label
        assert (row["carried"] > 1.5) == carries_messages, label
        assert (row["ways"] < 0.5) == (row["approach"] == "interconnection"), label
    size = {label: row["overhead_mean"] for label, row in rows.items()}
    assert size["compaction_multicast"] < size["vector_clock_broadcast"]
    assert size["first_generation"] > 5 * size["vector_clock_broadcast"]
    assert size["causal_separators (clocks)"] < size["vector_clock_broadcast"]
    assert [row["name"] for row in measured["survey"]] == [
        "first generation",
        "vector clocks",
        "compaction",
        "interconnection",
    ]


def test_one_protocol_and_a_workload_of_ones_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = tmp_path / "line.toml"
    line.write_text(
        'protocol = "psync"\nuntil_ms = 50\n[overlay]\nkind = "line"\nnodes = 4\n'
        '[[publish]]\nnode = "random"\ncount = 3\n'
    )
    chosen = ["--protocol", "plumtree", "--protocol", "cbcast"]
    assert main(["compare", str(line), "--json", *chosen]) == 0
    plumtree, cbcast = json.loads(capsys.readouterr().out)["measured"]
    assert plumtree["deliveries"] == 12 and plumtree["approach"] == "–"
    assert "does not fit" in cbcast["verdict"] and "full_mesh" in cbcast["verdict"]
    assert main(["compare", "--nodes", "1"]) == 2
    assert main(["compare", "--protocol", "cbcast", "--nodes", "3", "--count", "1"]) == 0
    printed = capsys.readouterr().out
    assert "The survey's Table 1" in printed
    assert max(len(line) for line in printed.splitlines()) <= 100
