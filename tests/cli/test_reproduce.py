"""`causalcast reproduce`, as a user types it."""

import csv
import json
from pathlib import Path

import pytest

from causalcast.cli.main import main
from causalcast.reproduce.families import FAMILIES


def test_a_figure_becomes_tables_pictures_verdicts_and_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["reproduce", "--figure", "s000_fig7", "--out", str(tmp_path), "--processes", "1"]
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    verdicts = {claim["claim"]: claim["verdict"] for claim in found["claims"]}
    assert verdicts["K0-61"] == verdicts["K0-62"] == "confirmed"
    assert sum(found["counts"].values()) == 231
    folder = tmp_path / "quick"
    rows = list(csv.DictReader((folder / "s000_fig7.csv").open()))
    assert {row["series"] for row in rows} >= {"LoCaMu", "CBCAST", "Barriers"}
    assert (folder / "s000_fig7.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "s000_fig7.parquet").exists()
    page = (folder / "index.html").read_text()
    assert "<svg" in page and "K0-62" in page and "not yet decided" in page
    # The same again needs no point, and `--claims` runs none.
    assert main(["reproduce", "--claims", "--out", str(tmp_path)]) == 0
    assert "231 claims" in capsys.readouterr().out


def test_it_lists_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "--list"]) == 0
    assert "s002_fig4_2" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [["--figure", "s000_fig99"], ["--processes", "-1"], ["--master", "local[1]"]],
)
def test_wrong_usage_is_told(arguments: list[str]) -> None:
    assert main(["reproduce", *arguments]) == 2


def test_a_small_tree_is_measured_and_judged() -> None:
    row = FAMILIES["tree"](
        {"protocol": "locamu", "nodes": 7, "messages": 20, "bandwidth_mbps": 10, "seed": 1}
    )
    assert (row["verdict"], row["deliveries"], row["causal"]) == ("ok", 140, True)
    assert row["copies_off_tree"] == 0 and row["in_flight"] > 1
    share = 10e6 / 3  # of an inner node's bandwidth, for each of its links
    assert row["rate"] == pytest.approx(share / (8 * (32 + row["metadata_mean"])), rel=0.15)


def test_a_small_broadcast_is_measured_and_judged() -> None:
    values = {"nodes": 12, "senders": 1, "broadcasts": 20, "interval_ms": 50}
    network = {"payload_bytes": 100, "nodes_per_host": 4, "host_bandwidth_mbps": 400}
    row = FAMILIES["broadcast"]({"protocol": "prc_broadcast", **values, **network})
    assert (row["verdict"], row["reliability"]) == ("ok", 1.0)
    assert row["inversions"] == 0 and row["redundancy"] > 0


def test_nodes_that_fall_are_looked_at_before_meanwhile_and_after() -> None:
    values = {"protocol": "locamu", "nodes": 15, "senders": 4, "interval_ms": 40, "messages": 60}
    row = FAMILIES["tree"]({**values, "falls": 1, "until_ms": 1000, "seed": 1})
    assert row["verdict"] == "ok"
    assert row["latency_before_ms"] < row["latency_during_max_ms"]
    # Whoever is up gets everything: the fourteen others get what each of them is sent.
    assert row["rate_before"] == row["rate_during"] == row["rate_after"]
    unharmed = FAMILIES["tree"]({**values, "falls": 0, "until_ms": 1000, "seed": 1})
    assert unharmed["latency_during_max_ms"] < row["latency_during_max_ms"]


@pytest.mark.parametrize("overlay", ["hyparview", "tree"])
def test_nodes_that_come_and_go_and_a_tree_that_nobody_mends(overlay: str) -> None:
    values = {"nodes": 20, "senders": 2, "broadcasts": 40, "interval_ms": 50, "views_of": 100}
    network = {"payload_bytes": 100, "nodes_per_host": 4, "host_bandwidth_mbps": 400}
    if overlay == "tree":
        trouble = {"protocol": "naive_flood", "overlay": "tree", "crash_share": 0.5}
    else:
        trouble = {"protocol": "cptcast", "churn_per_s": 4}
    row = FAMILIES["broadcast"]({**values, **network, **trouble})
    assert (row["reliability"] < 0.9) == (overlay == "tree")
    assert row["doubled"] == 0 and row["latency_of_shortest"] >= 1
