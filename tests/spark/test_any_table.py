"""`causalcast.verify` of a DataFrame says what importing and verifying its lines says."""

import json
from pathlib import Path
from typing import Any

import pytest

import causalcast
from causalcast.errors import ConfigError, TraceError

LINES = [
    {"node": "ada", "pos": 0, "kind": "publish", "message": "revoke", "group": "access"},
    {"node": "bob", "pos": 0, "kind": "deliver", "message": "revoke", "group": "access"},
    {"node": "bob", "pos": 1, "kind": "publish", "message": "post", "group": "posts",
     "causes": ["revoke"]},
    {"node": "cleo", "pos": 0, "kind": "deliver", "message": "post", "group": "posts"},
    {"node": "cleo", "pos": 1, "kind": "deliver", "message": "revoke", "group": "access"},
]  # fmt: skip


def written(folder: Path, lines: list[dict[str, Any]]) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "events.json").write_text("\n".join(map(json.dumps, lines)))
    return str(folder)


@pytest.mark.spark
def test_a_table_is_judged(spark: Any, tmp_path: Path) -> None:
    frame = spark.read.json(written(tmp_path / "table", LINES))
    verdict = causalcast.verify(frame)
    told = verdict.to_json()
    assert told["verdict"] == "violated"
    assert [told["checked"][name]["violations"] for name in ("causal_order", "reply_order")] == [
        1,
        1,
    ]
    assert told["checked"]["causal_order"]["counter_examples"][0]["names"]["cause"] == "revoke"
    folder = verdict.folder
    assert folder.exists()
    del verdict
    assert not folder.exists(), "nothing is left behind"


@pytest.mark.spark
def test_a_table_that_is_none_is_refused(spark: Any, tmp_path: Path) -> None:
    frame = spark.read.json(written(tmp_path / "table", LINES))
    with pytest.raises(ConfigError, match="no column 'message'"):
        causalcast.verify(frame.drop("message"))
    with pytest.raises(ConfigError, match="none of the columns pos, time"):
        causalcast.verify(frame.drop("pos"))
    with pytest.raises(TraceError, match="shop: unknown kind 'sent'"):
        causalcast.verify(frame.replace("publish", "sent", "kind"), name="shop")


@pytest.mark.spark
def test_a_stream_of_files_is_judged_as_it_grows(spark: Any, tmp_path: Path) -> None:
    folder = written(tmp_path / "stream", LINES[:3])
    schema = "node string, pos long, kind string, message string, group string"
    told: list[Any] = []
    frame = spark.readStream.schema(schema).json(folder)
    watch = causalcast.verify(frame, tell=told.append, checkpoint=tmp_path / "checkpoint")
    watch.query.processAllAvailable()
    assert told[-1].violations == 0
    (tmp_path / "stream" / "more.json").write_text("\n".join(map(json.dumps, LINES[3:])))
    watch.query.processAllAvailable()
    watch.stop()
    assert told[-1].violations == 1
    [late] = watch.violations
    assert (late.node, late.effect, late.cause) == (
        "cleo",
        ("post", "posts"),
        ("revoke", "access"),
    )
