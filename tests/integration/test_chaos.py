"""`causalcast chaos` in its short form, and a protocol that breaks under it."""

import json
from pathlib import Path

import pytest

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
    code, found = chaos(capsys, "--protocol", protocol, "--kills", "6")
    assert (code, found["wrong"]) == (0, [])
    assert found["kills"] == 6
    fired = found["fired"]
    assert isinstance(fired, dict) and len(fired) >= 2, fired  # another fault than kills, too
    acknowledged = found["acknowledged"]
    assert isinstance(acknowledged, int) and acknowledged > 50


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
