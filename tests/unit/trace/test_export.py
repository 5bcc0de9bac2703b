"""ShiViz files: the clocks say exactly what happened before what."""

import json
import re
from typing import Any

from causalcast.testing.draft_run import DraftRun, message_id
from causalcast.testing.partial_logs import imported
from causalcast.trace.export import SHIVIZ_PARSER, to_json_lines, to_shiviz

A, B = 0, 1


def test_clocks_tell_the_story() -> None:
    draft = DraftRun()
    draft.found(0, A, B)
    draft.add(A, "publish", message_id(A, 1), 0)
    draft.add(A, "deliver", message_id(A, 1), 0)
    draft.add(B, "deliver", message_id(A, 1), 0)
    draft.add(B, "publish", message_id(B, 1), 0)
    draft.add(A, "deliver", message_id(B, 1), 0)
    lines = list(to_shiviz(draft.run()))
    assert lines[:2] == [SHIVIZ_PARSER, ""]
    python_regex = SHIVIZ_PARSER.replace("(?<", "(?P<")
    events = [
        (found["host"], json.loads(found["clock"]), found["event"])
        for found in re.finditer(python_regex, "\n".join(lines[2:]))
    ]
    assert events == [
        ("n0", {"n0": 1}, "publish 0.1 group 0"),
        ("n0", {"n0": 2}, "deliver 0.1 group 0"),
        ("n1", {"n0": 1, "n1": 1}, "deliver 0.1 group 0"),
        ("n1", {"n0": 1, "n1": 2}, "publish 1.1 group 0"),
        ("n0", {"n0": 3, "n1": 2}, "deliver 1.1 group 0"),
    ]


def test_a_run_that_cannot_have_happened_is_still_drawn() -> None:
    """A delivers B's message before the question that B answers: a cycle."""
    draft = DraftRun()
    draft.found(0, A, B)
    draft.add(A, "deliver", message_id(B, 1), 0)
    draft.add(A, "publish", message_id(A, 1), 0)
    draft.add(B, "deliver", message_id(A, 1), 0)
    draft.add(B, "publish", message_id(B, 1), 0)
    assert len(list(to_shiviz(draft.run()))) == 2 + 2 * 4


FOREIGN: list[dict[str, Any]] = [
    {"node": "ada", "pos": 0, "kind": "join", "group": "chat"},
    {"node": "ada", "pos": 1, "kind": "publish", "message": "hello", "group": "chat", "key": "k"},
    {"node": "ada", "pos": 2, "kind": "deliver", "message": "hello", "group": "chat"},
    {"node": "bob", "pos": 0, "kind": "join", "group": "chat", "share": "s"},
    {"node": "bob", "pos": 1, "kind": "deliver", "message": "hello", "group": "chat",
     "share": "s", "attempt": 1},
    {"node": "bob", "pos": 2, "kind": "publish", "message": "hi", "group": "chat",
     "causes": ["hello"]},
]  # fmt: skip


def test_an_imported_log_goes_out_under_its_own_names_and_positions() -> None:
    lines = [json.loads(line) for line in to_json_lines(imported(FOREIGN, "any", True))]
    assert lines[0] == {"kind": "header", "whole": True, "redelivery": "any"}
    said = [{key: value for key, value in line.items() if key != "at_us"} for line in lines[1:]]
    assert sorted(said, key=str) == sorted(FOREIGN, key=str)


def test_no_join_stands_at_a_negative_position() -> None:
    draft = DraftRun()
    draft.found(0, A, B)
    draft.add(A, "publish", message_id(A, 1), 0)
    lines = [json.loads(line) for line in to_json_lines(draft.run())][1:]
    assert [(line["node"], line["pos"], line["kind"]) for line in lines] == [
        (A, 0, "join"),
        (B, 0, "join"),
        (A, 1, "publish"),
    ]


def test_shiviz_calls_things_as_their_system_does() -> None:
    told = "\n".join(to_shiviz(imported(FOREIGN, "any", True)))
    assert "publish hello group chat" in told
    assert "bob " in told
