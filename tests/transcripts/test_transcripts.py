"""Stories, message by message: what is written below each command is what happens.

`pytest tests/transcripts --rewrite` writes down what happens now; read the diff before you keep it.
"""

from pathlib import Path

import pytest

from causalcast.testing import play

STORIES = sorted(Path(__file__).parent.glob("*/*.txt"))


@pytest.mark.parametrize("story", STORIES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_story(story: Path, request: pytest.FixtureRequest) -> None:
    text = story.read_text()
    played = play(text)
    if request.config.getoption("--rewrite"):
        story.write_text(played)
    else:
        assert played == text


def test_there_are_stories() -> None:
    assert len(STORIES) >= 4
