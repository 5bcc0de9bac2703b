"""ShiViz files: the clocks say exactly what happened before what."""

import json
import re

from causalcast.testing.draft_run import DraftRun, message_id
from causalcast.trace.export import SHIVIZ_PARSER, to_shiviz

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
