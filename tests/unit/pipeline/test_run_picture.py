"""A run as a picture in a report: from a whole trace, from deliveries alone, from foreign logs."""

import json
import re
from pathlib import Path

import causalcast
from causalcast.cli.main import main
from causalcast.pipeline.report.run_picture import picture_of
from causalcast.runview.page_files import one_script
from causalcast.trace.foreign_log import import_log
from causalcast.trace.run_folder import write_run


def test_a_whole_trace_has_links_messages_and_the_counter_example(tmp_path: Path) -> None:
    causalcast.simulate("revoke_then_post", protocol="naive_flood", out=tmp_path / "run")
    picture, why_not = picture_of(causalcast.verify(tmp_path / "run"))
    assert picture is not None and why_not == ""
    assert picture["unit"] == "us" and not picture["direct"]
    assert picture["edges"] == [(0, 1), (0, 2), (1, 2)]
    assert all(frame[3] >= frame[2] for frame in picture["frames"])
    (causal,) = [g for g in picture["verdict"]["guarantees"] if g["name"] == "causal_order"]
    marks = [(m["node"], m["message"], m["role"]) for m in causal["examples"][0]["marks"]]
    assert marks == [
        (0, "0.1", "cause"),
        (1, "0.1", "seen"),
        (1, "1.1", "effect"),
        (2, "1.1", "wrong"),
        (2, "0.1", "too late"),
    ]


def test_what_waits_is_drawn_until_it_is_delivered(tmp_path: Path) -> None:
    causalcast.simulate("revoke_then_post", out=tmp_path / "run")
    picture, _ = picture_of(causalcast.verify(tmp_path / "run"))
    assert picture is not None
    ((node, message, since, until, reasons),) = picture["waiting"]
    assert (node, message) == (2, "1.1") and since < until
    assert reasons == [[since, "waits for 0.1"]]


def test_deliveries_alone_are_drawn_straight(tmp_path: Path) -> None:
    causalcast.simulate("revoke_then_post", "deliveries", out=tmp_path / "run")
    picture, _ = picture_of(causalcast.verify(tmp_path / "run"))
    assert picture is not None and picture["direct"] and picture["edges"] == []
    ways = {(frame[0], frame[1], frame[5]) for frame in picture["frames"]}
    assert ways == {(0, 1, "0.1"), (0, 2, "0.1"), (1, 0, "1.1"), (1, 2, "1.1")}


def test_too_many_rows_are_told_and_not_drawn(tmp_path: Path) -> None:
    causalcast.simulate("revoke_then_post", out=tmp_path / "run")
    verdict = causalcast.verify(tmp_path / "run")
    picture, why_not = picture_of(verdict, room=7)
    assert picture is None and "8 publications and deliveries" in why_not
    picture, _ = picture_of(verdict, room=8)  # without those of links
    assert picture is not None and picture["direct"]
    assert "too many for a report" in picture["stopped"]


def imported(tmp_path: Path, lines: list[dict[str, object]]) -> Path:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    write_run(tmp_path / "run", import_log(path))
    return tmp_path / "run"


def shop(**times: list[int]) -> list[dict[str, object]]:
    logs = {
        "cleo": [("deliver", "post"), ("deliver", "</script>")],
        "bob": [("deliver", "</script>"), ("publish", "post"), ("deliver", "post")],
        "ada": [("publish", "</script>"), ("deliver", "</script>"), ("deliver", "post")],
    }
    return [
        {"node": node, "pos": pos, "kind": kind, "message": message}
        | ({"at_us": times[node][pos]} if times else {})
        for node, log in logs.items()
        for pos, (kind, message) in enumerate(log)
    ]


def test_without_times_an_event_is_a_step_after_what_it_follows(tmp_path: Path) -> None:
    picture, _ = picture_of(causalcast.verify(imported(tmp_path, shop())))
    assert picture is not None and picture["unit"] == "step"
    names = picture["names"]
    at = {(names[e[1]], e[2], picture["labels"][e[3]]): e[0] for e in picture["events"]}
    revoked = at["ada", "publish", "</script>"]
    assert revoked == 0
    assert at["bob", "publish", "post"] > at["bob", "deliver", "</script>"] > revoked
    assert at["cleo", "deliver", "</script>"] > at["cleo", "deliver", "post"]
    assert at["cleo", "deliver", "post"] > at["bob", "publish", "post"]


def test_clocks_that_contradict_what_happened_are_not_believed(tmp_path: Path) -> None:
    right = {"ada": [0, 10, 500], "bob": [100, 200, 210], "cleo": [300, 400]}
    picture, _ = picture_of(causalcast.verify(imported(tmp_path, shop(**right))))
    assert picture is not None and picture["unit"] == "us"
    behind = right | {"cleo": [50, 60]}  # it delivered the post before it was published
    (tmp_path / "other").mkdir()
    picture, _ = picture_of(causalcast.verify(imported(tmp_path / "other", shop(**behind))))
    assert picture is not None and picture["unit"] == "step"


def test_the_report_carries_it_and_names_cannot_break_out(tmp_path: Path) -> None:
    run = imported(tmp_path, shop())
    out = tmp_path / "report.html"
    assert main(["report", str(run), "--local", "--out", str(out)]) == 1
    page = out.read_text()
    assert 'href="#see-0-causal_order-0"' in page and 'href="#see-0"' in page
    found = re.search(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert found is not None
    assert "</script>" in json.loads(found[1])["labels"].values()


def test_modules_become_one_script_in_the_order_of_their_needs() -> None:
    script = one_script('import { RunView } from "./view.js";\nnew RunView();\n')
    assert not re.search(r"^(import|export) ", script, re.MULTILINE)
    names = re.findall(r"^const module_(\w+) = \(", script, re.MULTILINE)
    assert sorted(names) == ["diagram", "graph", "layout", "moment", "timescale", "view"]
    assert names.index("moment") < names.index("diagram") < names.index("view")
