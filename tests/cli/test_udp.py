"""`causalcast udp` and `udp-ptp`, typed into through a terminal: the report's demonstrations."""

import argparse
import asyncio
import os
import re
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from causalcast.cli.main import main
from causalcast.cli.udp import program as udp
from causalcast.cli.udp.member_message import encode
from causalcast.cli.udp.members_file import Member
from causalcast.protocols.member_multicast.members import Stamped

NAMES = ("ada", "bob", "cleo")
PATIENCE = 30
SOURCE = str(Path(__file__).parents[2] / "src")
ENVIRONMENT = {**os.environ, "PYTHONPATH": SOURCE}


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports: list[int] = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Stage:
    """Programs in terminals; what is left at the end of a test is stopped."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: list[pexpect.spawn[str]] = []
        ports = free_ports(len(NAMES))
        lines = [f"127.0.0.1 {port} {name}" for name, port in zip(NAMES, ports, strict=True)]
        (folder / "members.dat").write_text("# host port name\n" + "\n".join(lines) + "\n")

    def start(self, *arguments: str, ready: str = "type a message") -> "pexpect.spawn[str]":
        command = ["-m", "causalcast", *arguments]
        child = pexpect.spawn(
            sys.executable,
            command,
            cwd=str(self.folder),
            encoding="utf-8",
            timeout=PATIENCE,
            dimensions=(50, 200),
            env=ENVIRONMENT,
        )
        child.setecho(False)
        self.running.append(child)
        child.expect_exact(ready)
        return child

    def member(self, name: str, *flags: str) -> "pexpect.spawn[str]":
        return self.start("udp", "-S", name, *flags)

    def stop(self) -> None:
        for child in self.running:
            child.close(force=True)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path)
    yield stage
    stage.stop()


def test_three_members_hear_one_another(stage: Stage) -> None:
    ada, bob, cleo = (stage.member(name) for name in NAMES)
    ada.sendline("hello everybody")
    for member in (ada, bob, cleo):
        member.expect_exact("ada: hello everybody")
    cleo.sendline("hello ada")
    for member in (ada, bob, cleo):
        member.expect_exact("cleo: hello ada")
    bob.sendline("/clock")
    bob.expect_exact("clock [1, 0, 1]")
    bob.sendline("/members")
    bob.expect_exact("cleo: active")
    bob.sendline("x" * 129)
    bob.expect_exact("not sent: longer than 128 bytes")
    bob.sendline("/quit")
    bob.expect(pexpect.EOF)


def test_a_delayed_copy_is_waited_for(stage: Stage) -> None:
    """Ada's copy to cleo is late; bob's answer overtakes it, and cleo holds it back."""
    ada = stage.member("ada", "-T", "2000000")
    bob = stage.member("bob")
    cleo = stage.member("cleo", "-C", "1")
    ada.sendline("access revoked")
    bob.expect_exact("ada: access revoked")
    bob.sendline("party photos")
    cleo.expect_exact("[causal] message 1 of bob came, clock [1, 1, 0]")
    cleo.expect_exact("[causal] hold-back queue: 1 messages, clock here [0, 0, 0]")
    cleo.expect_exact("held back: message 1 of bob, clock [1, 1, 0], waits for message 1 of ada")
    cleo.expect_exact("ada: access revoked")
    cleo.expect_exact("message 1 of ada, clock [1, 0, 0]: delivered")
    cleo.expect_exact("bob: party photos")
    cleo.expect_exact("message 1 of bob, clock [1, 1, 0]: delivered")
    cleo.expect_exact("hold-back queue: 0 messages, clock here [1, 1, 0]")


def test_those_left_out_count_and_go_on(stage: Stage) -> None:
    ada, bob, cleo = (stage.member(name, "-C", "1") for name in NAMES)
    ada.sendline("@bob only for bob")
    bob.expect_exact("ada: only for bob")
    cleo.expect_exact("message 1 of ada, clock [1, 0, 0]: counted, it is not for us")
    ada.sendline("for all")
    bob.expect_exact("ada: for all")
    cleo.expect_exact("ada: for all")
    assert "only for bob" not in cleo.before
    ada.sendline("@zoe hello")
    ada.expect_exact("not sent: no member 'zoe'")


def test_a_killed_member_is_dropped_after_the_last_retransmission(stage: Stage) -> None:
    ada = stage.member("ada", "-n", "2", "-D", "1")
    bob, cleo = stage.member("bob"), stage.member("cleo")
    ada.sendline("all are here")
    for member in (bob, cleo):
        member.expect_exact("ada: all are here")
    cleo.close(force=True)
    ada.sendline("who is left?")
    ada.expect_exact("[ptp] cleo: no acknowledgement of 2: retransmission 1 of 2")
    ada.expect_exact("[ptp] cleo: no acknowledgement of 2: retransmission 2 of 2")
    ada.expect_exact("[ptp] cleo: retransmission failed: no answer to 3 copies")
    ada.expect_exact("cleo has failed (no acknowledgement came) and is dropped")
    bob.expect_exact("ada: who is left?")
    ada.sendline("only two")
    bob.expect_exact("ada: only two")
    ada.sendline("/members")
    ada.expect_exact("cleo: failed")


def test_the_others_go_on_after_one_that_died_half_way(stage: Stage) -> None:
    """Ada's last words reached bob alone; cleo gets them from him, and then all that follows."""
    ada = stage.member("ada", "-T", "600000000")
    bob, cleo = stage.member("bob", "-n", "1"), stage.member("cleo", "-n", "1", "-C", "1")
    ada.sendline("last words")
    bob.expect_exact("ada: last words")
    ada.close(force=True)
    bob.sendline("party photos")
    cleo.expect_exact("held back: message 1 of bob, clock [1, 1, 0], waits for message 1 of ada")
    cleo.sendline("what happened?")
    for member in (bob, cleo):
        member.expect_exact("and is dropped")
    cleo.expect_exact("[causal] message 1 of ada came through bob")
    cleo.expect_exact("ada: last words")
    cleo.expect_exact("bob: party photos")
    bob.sendline("and on")
    cleo.expect_exact("bob: and on")


class Wires:
    """An endpoint that sends nothing, and remembers whom it was told to make wait."""

    def __init__(self, *_: object) -> None:
        self.layers: list[object] = []
        self.rooms: list[tuple[int, bool]] = []

    def make_room(self, peer: int, room: bool) -> None:
        self.rooms.append((peer, room))


class Lines:
    """A prompt that keeps what is said."""

    def __init__(self, *_: object) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


def test_nobody_is_deaf_after_a_full_hold_back_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bob says more than a thousand things before ada's late copy comes; he is asked to wait."""
    monkeypatch.setattr(udp, "UdpEndpoint", Wires)
    monkeypatch.setattr(udp, "Prompt", Lines)
    options = argparse.Namespace(retransmissions=5, ack_delay=0, causal_debug=False)
    members = [Member(name, port, name, "127.0.0.1") for port, name in enumerate(NAMES, 1)]

    async def talk() -> udp.MulticastSession:
        cleo = udp.MulticastSession(members, 2, options)
        for number in range(1, 1101):
            said = Stamped([1, number, 0], True, b"number %d" % number, 0, True)
            cleo._take(1, encode(said))
        assert cleo.prompt.said[1:] == [
            "bob is asked to wait: too many of its messages are held back"
        ]
        cleo._take(0, encode(Stamped([1, 0, 0], True, b"first", 0, True)))
        return cleo

    cleo = asyncio.run(talk())
    assert cleo.endpoint.rooms == [(1, False), (1, True)]
    assert cleo.prompt.said[2] == "ada: first" and cleo.prompt.said[-1] == "bob may go on"
    assert len(cleo.prompt.said) == 2 + 1101 + 1


def test_delayed_acknowledgements_cause_retransmissions_and_no_doubles(stage: Stage) -> None:
    ada = stage.member("ada", "-D", "1")
    bob = stage.member("bob", "-t", "700000", "-D", "1")
    ada.sendline("@bob once")
    bob.expect_exact("[ptp] ada: acknowledgement of 1 delayed")
    ada.expect_exact("[ptp] bob: no acknowledgement of 1: retransmission 1 of 5")
    bob.expect_exact("[ptp] ada: message 1 was here already: not taken again")
    bob.expect(re.escape("[ptp] ada: acknowledgement of 1 sent"))
    ada.expect_exact("[ptp] bob: acknowledgement of 1 received")
    bob.expect_exact("acknowledgement of the acknowledgement of 1 received")
    assert bob.before.count("ada: once") == 0


def test_a_changed_number_is_no_acknowledgement(stage: Stage) -> None:
    """The first program: the wrong number is ignored, the message comes again and is not taken."""
    one, two = free_ports(2)
    peer = ("-H", "127.0.0.1", "-D", "1")
    ada = stage.start("udp-ptp", *peer, "-P", str(two), "-p", str(one))
    bob = stage.start("udp-ptp", *peer, "-P", str(one), "-p", str(two), "-s", "1")
    ada.sendline("hello bob")
    bob.expect(r"127.0.0.1:\d+: hello bob")
    bob.expect_exact(f"another number for the acknowledgement of 1 to 127.0.0.1:{one}? [1]")
    bob.sendline("7")
    bob.expect_exact("modified to 7 sent")
    ada.expect_exact("acknowledgement of 7 received, which was never sent: ignored")
    ada.expect_exact("no acknowledgement of 1: retransmission")
    bob.expect_exact("message 1 was here already: not taken again")
    bob.expect_exact("another number for the acknowledgement of 1")
    bob.sendline("")
    ada.expect_exact("acknowledgement of 1 received")


def test_the_delay_of_an_acknowledgement_is_asked_for(stage: Stage) -> None:
    one, two = free_ports(2)
    ada = stage.start("udp-ptp", "-H", "localhost", "-P", str(two), "-p", str(one), "-D", "1")
    bob = stage.start("udp-ptp", "-H", "localhost", "-P", str(one), "-p", str(two), "-t", "1")
    ada.sendline("hello bob")
    bob.expect_exact("by how many seconds? [0]")
    bob.sendline("0.4")
    bob.expect_exact("delayed by 0.4 s")
    ada.expect_exact("acknowledgement of 1 received")


def test_nobody_there(stage: Stage) -> None:
    one, two = free_ports(2)
    ada = stage.start("udp-ptp", "-H", "127.0.0.1", "-P", str(two), "-p", str(one), "-n", "1")
    ada.sendline("hello?")
    ada.expect_exact("has failed: no answer came; 1 messages may not have come")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("127.0.0.1 7001\nnonsense\n", "members.dat:2: expected 'host port' or 'host port name'"),
        ("127.0.0.1 7001\n\n127.0.0.1 seven\n", "members.dat:3: expected a port from 1 to 65535"),
        ("127.0.0.1 7001\n127.0.0.1 7001\n", "members.dat:2: 127.0.0.1:7001 is in the list"),
        ("127.0.0.1 7001 a\n127.0.0.1 7002 a\n", "members.dat:2: the name 'a' is in the list"),
        ("no.such.host.invalid 7001\n", "members.dat:1: nobody knows the host"),
        ("127.0.0.1 7001\n", "1 members; expected at least 2"),
        ("\n".join(f"127.0.0.1 {7000 + i}" for i in range(33)), "at most 32 have a slot"),
        ("127.0.0.1 7001\n127.0.0.1 7002\n", "could be 127.0.0.1:7001, 127.0.0.1:7002"),
    ],
)
def test_what_is_wrong_with_members_dat(
    text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "members.dat"
    path.write_text(text)
    assert main(["udp", "-S", "127.0.0.1", "--members", str(path)]) == 2
    printed = capsys.readouterr().err
    assert told in printed and printed.count("\n") == 1


def test_a_port_that_is_taken_and_a_missing_file(
    stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.member("ada")
    again = pexpect.spawn(
        sys.executable,
        ["-m", "causalcast", "udp", "-S", "ada"],
        cwd=str(tmp_path),
        encoding="utf-8",
        timeout=PATIENCE,
        env=ENVIRONMENT,
    )
    again.expect(r"causalcast: cannot listen at 127.0.0.1:\d+: Address already in use")
    again.expect(pexpect.EOF)
    again.close()
    assert again.exitstatus == 2
    assert main(["udp", "-S", "ada", "--members", str(tmp_path / "nowhere")]) == 2
    assert "No such file" in capsys.readouterr().err
