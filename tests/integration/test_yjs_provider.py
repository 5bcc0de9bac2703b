"""The provider for Yjs, under Node, with the real `yjs`: late, away for long, large, alone.

Needs Node and `npm install yjs y-protocols` (CAUSALCAST_NODE_MODULES says where). The shared editor
of the examples has tests in a browser.
"""

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from door_nodes import Doors, run
from loopback_nodes import until

import causalcast.clients

ROOT = Path(__file__).parents[2]
MODULES = Path(os.environ.get("CAUSALCAST_NODE_MODULES", ROOT / "node_modules"))
NODE = shutil.which("node")
pytestmark = [
    pytest.mark.skipif(NODE is None, reason="there is no Node here"),
    pytest.mark.skipif(
        not (MODULES / "yjs").is_dir(), reason=f"{MODULES} has no yjs: npm install yjs y-protocols"
    ),
]
CLIENTS = Path(causalcast.clients.__file__).parent
STORY = Path(__file__).with_name("yjs_story.mjs")
PATIENCE = 90.0


@contextlib.asynccontextmanager
async def nobody(doors: Doors) -> AsyncIterator[None]:
    """Nobody else uses the nodes."""
    yield


def told(
    tmp_path: Path,
    story: str,
    patches: dict[str, str] | None = None,
    patience: int = 30_000,
    beside: Callable[[Doors], contextlib.AbstractAsyncContextManager[None]] = nobody,
) -> dict[str, Any]:
    """What became of a story, told with two nodes that keep 20 messages for clients."""
    place = tmp_path / "js"
    place.mkdir()
    (place / "node_modules").symlink_to(MODULES.resolve())
    for name in ("causalcast", "causalcast_yjs"):
        text = (CLIENTS / f"{name}.js").read_text().replace("./causalcast.js", "./causalcast.mjs")
        for old, new in (patches or {}).items():
            if name == "causalcast_yjs":
                assert text.count(old) == 1, f"{old!r} is there {text.count(old)} times"
                text = text.replace(old, new)
        (place / f"{name}.mjs").write_text(text)
    shutil.copy(STORY, place)
    found: dict[str, Any] = {}

    async def with_nodes() -> None:
        doors = Doors(tmp_path / "nodes", 2, door="kept_messages = 20")
        async with doors.node(1), doors.node(2) as two, beside(doors):
            await until(lambda: len(two.status()["links"]) == 1)
            command = ["node", "--no-warnings", "--experimental-websocket", place / STORY.name]
            process = await asyncio.create_subprocess_exec(
                *(*command, story, str(patience), doors.url(1), doors.url(2)),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            try:
                async with asyncio.timeout(PATIENCE):
                    out, error = await process.communicate()
            finally:
                if process.returncode is None:
                    process.kill()
            assert process.returncode == 0, error.decode()
            found.update(json.loads(out))

    run(with_nodes())
    return found


def test_who_comes_late_gets_what_no_node_has_kept(tmp_path: Path) -> None:
    assert told(tmp_path, "late") == {"equal": True, "from": "answer", "length": 170}


def test_who_was_away_for_long_asks_again(tmp_path: Path) -> None:
    assert told(tmp_path, "gap") == {"equal": True, "length": 180, "failures": []}


def test_a_large_text_comes_in_pieces(tmp_path: Path) -> None:
    assert told(tmp_path, "large") == {"equal": True, "length": 1_500_000}


def test_an_answer_of_one_who_was_alone_leaves_doubt(tmp_path: Path) -> None:
    found = told(tmp_path, "alone")
    assert found == {"equal": True, "first": "kept", "second": "answer", "sure": False}


def test_a_program_in_python_keeps_the_document(tmp_path: Path) -> None:
    pytest.importorskip("pycrdt", reason="no pycrdt: pip install 'causalcast[recipes]'")
    sys.path.insert(0, str(ROOT / "examples" / "recipes"))
    import pycrdt_document

    @contextlib.asynccontextmanager
    async def keeper(doors: Doors) -> AsyncIterator[None]:
        path = tmp_path / "keeper.sqlite"
        keeping = asyncio.create_task(pycrdt_document.main([doors.url(2)], "all", path, True))
        try:
            yield
            assert not keeping.done(), keeping.exception()
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)

    found = told(tmp_path, "keeper", beside=keeper)
    answers = {"first": "answer", "second": "answer", "sure": True}
    assert found == {"equal": True, "length": 170, **answers}


PLANTED = [
    ("late", "nobody is asked", {'this._say("question", Y.encode': 'this._say("talk", Y.encode'}),
    ("gap", "after a gap nobody is asked", {"? this._ask() : this.onf": "? 0 : this.onf"}),
    ("gap", "words of one away are lost", {"if (update)": "if (update && this._client.isOpen)"}),
    ("large", "a piece is taken for the whole", {"if (!piece) return": "return"}),
    ("alone", "doubt is forgotten", {"this._isSure ||= !unsure": "this._isSure = true"}),
]
RIGHT = {"late": 170, "gap": 180, "large": 1_500_000, "alone": None}


@pytest.mark.slow
@pytest.mark.parametrize(("story", "bug", "patch"), PLANTED, ids=[row[1] for row in PLANTED])
def test_planted_bugs_are_noticed(
    story: str, bug: str, patch: dict[str, str], tmp_path: Path
) -> None:
    found = told(tmp_path, story, patch, patience=3000)
    is_right = found["equal"] and found.get("length") == RIGHT[story] and not found.get("sure")
    assert not is_right, bug
