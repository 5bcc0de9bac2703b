"""`causalcast chaos` in its short form, and a protocol that breaks under it."""

import json
from pathlib import Path

import pytest

from causalcast.chaos import campaign
from causalcast.cli.main import main

FORGETFUL = '''
"""Says that it resumes, and keeps nothing: what it passed on before a crash it passes on again."""

from causalcast.core import Message, Multicast, ProtocolSpec, Publication, Wire


class Copy(Message):
    """Deliver it and pass it on."""

    wire = Wire("forgetful.copy", publication=Publication)

    def __init__(self, publication):
        self.publication = publication


class Forgetful(Multicast):
    def __init__(self, me):
        self.me, self.neighbours, self.seen = me, {}, {}

    def on_neighbour_up(self, peer, link, newborn, out):
        self.neighbours[peer] = None
        for copy in self.seen.values():
            out.send(peer, copy)

    def on_neighbour_down(self, peer, link, out):
        self.neighbours.pop(peer, None)

    def on_publish(self, publication, out):
        self.on_message(self.me, Copy(publication), out)

    def on_message(self, sender, message, out):
        if message.publication.id not in self.seen:
            self.seen[message.publication.id] = message
            out.deliver(message.publication)
            for peer in self.neighbours:
                out.send(peer, message)


SPEC = ProtocolSpec(
    name="forgetful",
    summary="Forgets everything when it is killed.",
    build=lambda setup: Forgetful(setup.me),
    messages=[Copy],
    guarantees=["no_creation", "no_duplication", "validity", "fifo_order", "causal_order"],
    restart="resume",
)
'''


def chaos(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, object]]:
    code = main(["chaos", "--json", *arguments])
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return code, found


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["locamu", "cbcast", "cptcast"])
def test_no_promise_breaks(protocol: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing acknowledged is lost, nothing doubled, nothing out of order."""
    faults = ["--faults", "kill", "pause"]
    code, found = chaos(capsys, "--protocol", protocol, "--kills", "6", "--rate", "20", *faults)
    assert (code, found["wrong"]) == (0, [])
    kills = found["kills"]
    assert isinstance(kills, int) and kills >= 6
    fired = found["fired"]
    assert isinstance(fired, dict) and len(fired) >= 2, fired  # another fault than kills, too
    acknowledged = found["acknowledged"]
    assert isinstance(acknowledged, int) and acknowledged > 50


def test_a_short_look_at_full_rate(capsys: pytest.CaptureFixture[str]) -> None:
    """Kills hit nodes that are up, others are counted apart, and every fault fires."""
    faults = ["--faults", "kill", "kill_at_start", "pause", "stop"]
    code, found = chaos(capsys, "--protocol", "cbcast", "--seconds", "6", "--tls", "off", *faults)
    assert (code, found["wrong"], found["never_fired"]) == (0, [], [])
    fired = found["fired"]
    assert isinstance(fired, dict)
    assert min(fired[fault] for fault in ("kill", "kill_at_start", "pause", "stop")) > 0
    assert isinstance(found["publications_per_second"], float)
    assert found["publications_per_second"] > 50  # some 60 were published before, at any speed


@pytest.mark.slow
def test_with_small_limits_and_spark_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    faults = ["--faults", "kill", "stop"]
    more = ["--seconds", "10", "--small-limits", "--watch", "--rate", "20", *faults]
    code, found = chaos(capsys, "--protocol", "vector_clock_broadcast", *more)
    assert (code, found["wrong"]) == (0, [])
    assert found["judged_while_it_went_on"] == found["deliveries"] != 0
    assert found["limits_drawn"]


@pytest.mark.slow
def test_a_fault_that_never_fires_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pause that does nothing: all promises hold, and still the campaign fails."""
    monkeypatch.setattr(campaign, "EXTRA_SECONDS", 1.0)
    monkeypatch.setattr(campaign._Story, "_strike", lambda self, fault: False)
    code, found = chaos(capsys, "--faults", "kill", "pause", "--kills", "1", "--rate", "5")
    assert (code, found["never_fired"]) == (1, ["pause"])


@pytest.mark.slow
def test_a_protocol_that_forgets_is_caught(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    protocol = tmp_path / "forgetful.py"
    protocol.write_text(FORGETFUL)
    arguments = ["--protocol", str(protocol), "--faults", "kill", "--out", str(tmp_path / "out")]
    code, found = chaos(capsys, *arguments, "--kills", "4", "--patience", "3")
    assert code == 1
    wrong = found["wrong"]
    assert isinstance(wrong, list) and any("no_duplication: violated" in line for line in wrong)
