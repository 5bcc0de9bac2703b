"""`causalcast limits` as typed."""

import json

import pytest

from causalcast.cli.main import main


def test_all_limits_are_listed_with_what_they_may_be(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["limits", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert len(rows) > 150
    assert rows["runtime.links.links.dial_timeout"]["set_in"] == "only drawn"
    assert rows["runtime.node_config.inbox_bytes"]["set_in"] == "[limits] inbox_bytes"
    assert rows["trace.node_log.max_bytes"]["set_in"] == "[trace] max_bytes"
    assert rows["protocols.locamu.repeat_after"]["set_in"] == "[protocol] repeat_after"
    assert rows["overlays.hyparview.shuffle_every"]["default"] > 0
    for row in rows.values():
        assert row["least"] <= row["default"] and row["about"], row
        assert row["most"] is None or row["default"] <= row["most"], row


def test_a_room_is_listed_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["limits", "wire.framing"]) == 0
    told = capsys.readouterr().out
    assert "wire.framing.most_together\n    64 KiB, from 16 bytes to 1 MiB; only drawn" in told
    assert "runtime" not in told
    assert main(["limits", "core.message.longest_run"]) == 0
    assert "64 messages, from 2 to 1,024" in capsys.readouterr().out
    assert main(["limits", "detectors.heartbeat.interval"]) == 0
    assert "500 ms, from 0 us on; [detector] interval" in capsys.readouterr().out


def test_a_room_that_is_not_there_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["limits", "no.such"]) == 2
    assert "no limit has a name that begins with 'no.such'" in capsys.readouterr().err
