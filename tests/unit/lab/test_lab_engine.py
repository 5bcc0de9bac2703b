"""The engine of the lab: true verdicts, edits that change only what follows, edited protocols."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from causalcast.lab.edits import Edit, with_edits
from causalcast.lab.engine import Lab
from causalcast.lab.gallery import gallery
from causalcast.lab.sources import patched, sources_of
from causalcast.runview.frames import frames_of
from causalcast.simulator.scenario_run import prepare
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.trace.kinds import KIND_CODE
from causalcast.trace.recorder import RecordedRow

STORY = {"do": "run", "scenario": "revoke_then_post", "protocol": "naive_flood"}
QUICK = [entry for entry in gallery() if entry["id"] not in ("crashes", "churn", "reordering")]
QUICK = [entry for entry in QUICK if not entry["id"].startswith("past/")]
LONG = ("catching_up_with_many_units",)
PAST = [entry for entry in gallery() if entry["id"].startswith("past/")]


@pytest.fixture
def lab() -> Iterator[Lab]:
    made = Lab()
    yield made
    made.close()


def ask(lab: Lab, **question: Any) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(lab.ask(json.dumps(question)))
    return answer


def run(lab: Lab, **changes: Any) -> dict[str, Any]:
    picture = ask(lab, **{**STORY, **changes})
    assert "error" not in picture, picture
    return picture


def question_of(entry: dict[str, Any], own: bool = True) -> dict[str, Any]:
    question = {name: entry[name] for name in ("scenario", "options", "seed")}
    question["protocol"] = entry["protocol"] if own else entry["other"]
    question["sources"] = entry["sources"] if own else {}
    return question


def test_the_catalogue_has_everything_that_can_be_chosen(lab: Lab) -> None:
    catalogue = ask(lab, do="catalogue")
    assert "revoke_then_post" in [one["name"] for one in catalogue["scenarios"]]
    assert "locamu" in [one["name"] for one in catalogue["protocols"]]
    assert catalogue["examples"] == ["examples/my_protocol.py"]
    sections = {one["section"] for one in catalogue["gallery"]}
    assert sections == {
        "Stories", "Errata of papers", "Broken on purpose", "Failed once, mended since"
    }  # fmt: skip


@pytest.mark.parametrize("entry", QUICK, ids=lambda entry: str(entry["id"]))
def test_the_gallery_tells_the_truth(lab: Lab, entry: dict[str, Any]) -> None:
    verdict = run(lab, **question_of(entry))["verdict"]
    if entry["breaks"] in ("", "pending"):
        assert (verdict["word"], verdict["broken"]) == (entry["breaks"] or "ok", [])
    else:
        assert entry["breaks"] in verdict["broken"]
        row = next(row for row in verdict["guarantees"] if row["name"] == entry["breaks"])
        assert row["examples"][0]["marks"] and row["examples"][0]["words"]
    if entry["other"]:
        assert run(lab, **question_of(entry, False))["verdict"]["word"] == "ok"
    if entry["sources"]:  # without the change nothing is broken
        assert run(lab, **{**question_of(entry), "sources": {}})["verdict"]["word"] == "ok"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["crashes", "churn", "reordering"])
def test_the_long_runs_of_the_gallery(lab: Lab, name: str) -> None:
    entry = next(entry for entry in gallery() if entry["id"] == name)
    verdict = run(lab, **question_of(entry))["verdict"]
    assert verdict["broken"] == ([entry["breaks"]] if entry["breaks"] else [])


def test_what_failed_once_breaks_nothing_now(lab: Lab) -> None:
    for entry in PAST:
        if not entry["id"].endswith(LONG):
            assert run(lab, **question_of(entry))["verdict"]["broken"] == [], entry["id"]


def test_a_message_is_followed_from_its_sending_to_its_arrival(lab: Lab) -> None:
    picture = run(lab)
    frames = picture["frames"]
    slow = [f for f in frames if (f[0], f[1], f[5]) == (0, 2, "0.1")]
    assert [(f[2], f[3], f[4]) for f in slow] == [(10_000, 91_000, "")]
    assert all(f[3] is None or f[3] >= f[2] for f in frames)


def test_lost_messages_say_so(lab: Lab) -> None:
    text = (
        'protocol = "vector_clock_broadcast"\nuntil_ms = 60\n[overlay]\nkind = "line"\nnodes = 2\n'
        "[network]\nloss = 0.5\n[[publish]]\ncount = 5\nnode = 0\n"
    )
    frames = run(lab, text=text, protocol=None)["frames"]
    assert {f[4] for f in frames} == {"", "loss"}


def test_what_waits_is_told_in_the_words_of_explain(lab: Lab) -> None:
    waiting = run(lab, protocol="vector_clock_broadcast")["waiting"]
    assert [(w[0], w[1], [r[1] for r in w[4]]) for w in waiting] == [(2, "1.1", ["waits for 0.1"])]
    assert waiting[0][3] == 91_000


def test_the_counter_example_goes_from_the_cause_to_where_it_came_too_late(lab: Lab) -> None:
    rows = run(lab)["verdict"]["guarantees"]
    (example,) = next(row["examples"] for row in rows if row["name"] == "causal_order")
    assert example["words"] == "n2 delivered 1.1 before its cause 0.1"
    told = [(m["node"], m["kind"], m["message"], m["role"]) for m in example["marks"]]
    assert told == [
        (0, "publish", "0.1", "cause"),
        (1, "deliver", "0.1", "seen"),
        (1, "publish", "1.1", "effect"),
        (2, "deliver", "1.1", "wrong"),
        (2, "deliver", "0.1", "too late"),
    ]


@pytest.mark.parametrize(
    "edit",
    [
        {"kind": "crash", "node": 1},
        {"kind": "publish", "node": 2},
        {"kind": "cut", "link": [0, 1]},
        {"kind": "delay", "link": [0, 1], "extra_ms": 5},
        {"kind": "suspect", "node": 1},
    ],
    ids=lambda edit: str(edit["kind"]),
)
def test_an_edit_changes_nothing_before_it(lab: Lab, edit: dict[str, Any]) -> None:
    before = run(lab, protocol="vector_clock_broadcast")
    after = run(lab, protocol="vector_clock_broadcast", edits=[{**edit, "at_us": 25_000}])
    earlier = [[e for e in one["events"] if e[0] < 25_000] for one in (before, after)]
    assert earlier[0] == earlier[1] and len(earlier[0]) >= 3
    sent = [[f[:3] for f in one["frames"] if f[2] < 25_000] for one in (before, after)]
    assert sent[0] == sent[1]
    assert before != after


def test_an_edited_scenario_is_a_scenario(lab: Lab) -> None:
    edits = [
        {"kind": "crash", "node": 1, "at_us": 50_500},
        {"kind": "recover", "node": 1, "at_us": 250_000},
    ]
    picture = run(lab, protocol="psync", seed=7, edits=edits)
    told = [(e[0], e[1], e[2]) for e in picture["events"] if e[2] in ("crash", "recover")]
    assert told == [(50_500, 1, "crash"), (250_000, 1, "recover")]
    scenario = Scenario(picture["scenario"], "saved")
    assert (scenario.protocol_name, scenario.seed) == ("psync", 7)
    assert scenario.until_us == 270_000  # the calm begins after the last edit
    running = prepare(scenario)
    running.run()
    assert picture["verdict"]["word"] == "ok"


def test_steps_get_further_steps(lab: Lab) -> None:
    question = {"scenario": "gallery/flood_crash", "protocol": "vector_clock_broadcast"}
    edits = [{"kind": "publish", "node": 2, "at_us": 0, "step": 1}]
    edits += [{"kind": "suspect", "node": 0, "at_us": 0, "step": 2}]
    picture = run(lab, **question, edits=edits)
    assert picture["steps"] == [
        "publish 0 all", "publish 2 all", "suspect 1 0", "suspect 2 0", "bring 0 1", "crash 0",
        "recover 0",
    ]  # fmt: skip
    assert len(picture["step_times"]) == 7 and picture["verdict"]["word"] == "ok"
    slower = ask(
        lab, do="run", **question, edits=[{"kind": "delay", "link": [0, 1], "at_us": 0, "step": 0}]
    )
    assert "lists its steps" in slower["error"]


def test_a_seed_and_options_can_be_chosen(lab: Lab) -> None:
    picture = run(lab, protocol="vector_clock_broadcast", seed=5, options={"spread": "direct"})
    assert picture["seed"] == 5
    assert "spread" in ask(lab, **{**STORY, "options": {"spread": "direct"}})["error"]


def test_the_parts_of_a_protocol_are_among_its_sources() -> None:
    files = sources_of("vector_clock_broadcast")
    assert next(iter(files)) == "protocols/vector_clock_broadcast.py"
    assert "parts/causal_delivery.py" in files
    assert next(iter(sources_of("locamu"))) == "protocols/locamu/protocol.py"


def test_a_changed_protocol_runs_and_the_shipped_one_stays_as_it_is(lab: Lab) -> None:
    sources = patched(
        "vector_clock_broadcast",
        [["protocols/vector_clock_broadcast.py", "causes.pop(self.me, None)", "causes.clear()"]],
    )
    changed = run(lab, protocol="vector_clock_broadcast", sources=sources)
    assert changed["verdict"]["promises_broken"] == ["causal_order"]
    assert run(lab, protocol="vector_clock_broadcast")["verdict"]["word"] == "ok"
    again = run(lab, protocol="vector_clock_broadcast", sources=sources)
    assert again == changed


def test_mistakes_in_a_changed_protocol_are_told_with_their_line(lab: Lab) -> None:
    path = "examples/my_protocol.py"
    source = sources_of(path)[path]
    question = {**STORY, "protocol": path}
    broken = source.replace("class Copy(Message):", "class Copy(Message)")
    assert "SyntaxError" in ask(lab, **question, sources={path: broken})["error"]
    raising = source.replace("        assert isinstance(message, Copy)\n", "        1 / 0\n")
    answer = ask(lab, **question, sources={path: raising})
    assert answer["error"].startswith("ZeroDivisionError") and "in on_message" in answer["trace"]
    locamu = patched("locamu", [["protocols/locamu/spec.py", "SPEC = ", "undefined_name\nSPEC = "]])
    for _ in range(2):  # what was loaded before the mistake is forgotten
        said = ask(lab, **{**STORY, "protocol": "locamu", "sources": locamu})["error"]
        assert "undefined_name" in said
    assert run(lab, **question, sources={path: source})["verdict"]["broken"] == ["causal_order"]


def test_a_run_that_never_ends_is_stopped(lab: Lab) -> None:
    entry = next(entry for entry in gallery() if entry["id"] == "figure_3_2")
    assert run(lab, **question_of(entry))["stopped"] == "stopped after 601 messages"


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ({"do": "dance"}, "expected a question"),
        ({"scenario": "nowhere"}, "no scenario"),
        ({"scenario": "gallery/nowhere"}, "no scenario"),
        ({"protocol": "nothing"}, "no protocol"),
        ({"protocol": "/etc/passwd.py"}, "no protocol"),
        ({"protocol": None, "text": 'protocol = "/tmp/x.py"\nuntil_ms = 1'}, "no protocol"),
        ({"protocol": "examples/../setup.py"}, "no example"),
        ({"scenario": "flood_10k"}, "the lab draws up to"),
        ({"seed": "one"}, "expected a whole number"),
        ({"edits": [{"kind": "burn", "at_us": 1}]}, "expected one of"),
        ({"edits": [{"kind": "crash", "node": -1, "at_us": 1}]}, "no node"),
        ({"edits": [{"kind": "crash", "node": 9, "at_us": 1}]}, "a node from 0 to 2"),
        ({"edits": [{"kind": "cut", "link": [1], "at_us": 1}]}, "two nodes"),
        ({"edits": [{"kind": "publish", "node": 1, "at_us": 1, "group": 'a"'}]}, "name of a group"),
        ({"sources": {"setup.py": ""}}, "no file of"),
    ],
)
def test_wrong_questions_are_answered_with_a_sentence(
    lab: Lab, question: dict[str, Any], said: str
) -> None:
    assert said in ask(lab, **{**STORY, **question})["error"]
    assert "error" in json.loads(lab.ask("not json"))


def test_edits_are_written_as_people_would() -> None:
    text = with_edits("until_ms = 5\n", [Edit({"kind": "cut", "link": [0, 2], "at_us": 1500})])
    assert text == 'until_ms = 21.5\n\n[[fault]]\nat_ms = 1.500\nkind = "cut"\nlink = [0, 2]\n'


def test_messages_that_overtake_or_come_twice_are_told_apart() -> None:
    def row(node: int, at: int, kind: str, message: int, peer: int, note: str) -> RecordedRow:
        return (node, at, KIND_CODE[kind], message, 0, peer, 1, 2, -1, note)

    rows = [
        row(0, 1, "send", 11, 1, "copy"),
        row(0, 2, "send", 12, 1, "copy"),
        row(1, 5, "receive", 12, 0, "copy"),
        row(1, 6, "receive", 11, 0, "copy"),
        row(1, 7, "receive", 11, 0, "copy"),  # the network doubled it
        row(0, 8, "send", 13, 1, "copy"),
        row(0, 8, "drop", -1, 1, "loss"),
        row(0, 9, "send", 14, 1, "copy"),
        row(1, 12, "drop", -1, 0, "receiver is down"),
        row(0, 13, "drop", -1, 1, "cut"),  # it never left
    ]
    frames, refused = frames_of(rows)
    assert [(f.looks[0], f.sent, f.end, f.lost) for f in frames] == [
        (11, 1, 6, ""),
        (12, 2, 5, ""),
        (11, 1, 7, ""),
        (13, 8, 8, "loss"),
        (14, 9, 12, "receiver is down"),
    ]
    assert refused == [(13, 0, 1, "cut")]
