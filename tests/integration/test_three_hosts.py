"""Three hosts, each in a network namespace of its own: TLS, a token, a revocation.

Host 1 has the authority of the cluster. Host 2 gets its identity with a token and brings a TOML of
its own. Host 3 has nothing but a token and an address. Then host 3 is revoked.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from loopback_nodes import PATIENCE

from causalcast.errors import NodeError
from causalcast.runtime.operating.control_client import ControlClient

TOML = """
[node]
id = {node}
listen = "10.77.0.{node}:7400"
[cluster]
name = "three-hosts"
{contact}
[protocol]
name = "cptcast"
[overlay]
kind = "hyparview"
[groups]
all = "*"
[trace]
path = "trace"
[security]
{authority}
"""


class Hosts:
    """Namespaces on one bridge, and the processes that run in them."""

    def __init__(self, count: int) -> None:
        self._names = [f"cc{os.getpid()}-{number}" for number in range(1, count + 1)]
        self._bridge = f"ccb{os.getpid()}"[:15]
        self._processes: list[subprocess.Popen[str]] = []
        _ip("link", "add", self._bridge, "type", "bridge")
        _ip("link", "set", self._bridge, "up")
        for number, name in enumerate(self._names, 1):
            outside, inside = f"cco{os.getpid()}-{number}"[:15], f"cci{os.getpid()}-{number}"[:15]
            _ip("netns", "add", name)
            _ip("link", "add", outside, "type", "veth", "peer", "name", inside)
            _ip("link", "set", inside, "netns", name)
            _ip("link", "set", outside, "master", self._bridge, "up")
            _ip("-n", name, "addr", "add", f"10.77.0.{number}/24", "dev", inside)
            _ip("-n", name, "link", "set", inside, "up")
            _ip("-n", name, "link", "set", "lo", "up")

    def start(self, host: int, *arguments: str) -> "subprocess.Popen[str]":
        """Run `causalcast …` at a host until the end of the test."""
        process = subprocess.Popen(
            self._command(host, arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._processes.append(process)
        return process

    def run(self, host: int, *arguments: str) -> str:
        """Run `causalcast …` at a host and return what it printed."""
        done = subprocess.run(
            self._command(host, arguments), capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def send_plain(self, host: int, address: str) -> bytes:
        """What a plaintext greeting from a host gets."""
        program = (
            "import socket, sys\n"
            f"one = socket.create_connection({tuple(address.rsplit(':', 1))!r}, 5)\n"
            "one.sendall(b'\\0\\0\\0\\x09CAUSALC1\\x90')\n"
            "try: sys.stdout.buffer.write(one.recv(4096))\n"
            "except OSError: pass\n"
        )
        command = ["ip", "netns", "exec", self._names[host - 1], sys.executable, "-c", program]
        return subprocess.run(command, capture_output=True, check=True, timeout=60).stdout

    def close(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.communicate(timeout=15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
        for name in self._names:
            _ip("netns", "del", name, check=False)
        _ip("link", "del", self._bridge, check=False)

    def _command(self, host: int, arguments: tuple[str, ...]) -> list[str]:
        inside = ["ip", "netns", "exec", self._names[host - 1]]
        return [*inside, sys.executable, "-m", "causalcast", *arguments]


def _ip(*arguments: str, check: bool = True) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise OSError(done.stderr.strip())


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and the command ip")
    try:
        made = Hosts(3)
    except OSError as error:
        pytest.skip(f"no network namespaces here: {error}")
    yield made
    made.close()


def wait(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            if condition():
                return
        except NodeError:
            pass  # its process is not that far
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@pytest.mark.slow
def test_three_hosts_with_tls_a_token_and_a_revocation(hosts: Hosts, tmp_path: Path) -> None:
    folders = {1: tmp_path / "one", 2: tmp_path / "two"}
    authority = tmp_path / "authority"

    def write(node: int, contact: str, more: str) -> str:
        folders[node].mkdir()
        path = folders[node] / "node.toml"
        path.write_text(TOML.format(node=node, contact=contact, authority=more))
        return str(path)

    def ask(node: int, do: str, **request: str) -> dict[str, object]:
        with ControlClient(folders[node], node) as client:
            return client.ask(do, **request)

    def delivered(node: int) -> object:
        counts = ask(node, "status")["delivered"]
        assert isinstance(counts, dict)
        return counts.get("all", 0)

    # Host 1: the authority and the first node.
    hosts.run(1, "keys", "init", str(authority), "--cluster", "three-hosts")
    first = write(1, "", f'authority = "{authority}"')
    hosts.run(1, "keys", "node", str(authority), "--id", "1", "--out", str(folders[1] / "identity"))
    hosts.start(1, "node", first)
    wait(lambda: bool(ask(1, "status")["takes_part"]), "host 1 does not start")

    # Host 2: an identity with a token, a TOML of its own.
    token = hosts.run(1, "keys", "token", str(authority), "--id", "2")
    second = write(2, 'contact = "10.77.0.1:7400"', "")
    identity = str(folders[2] / "identity")
    hosts.run(2, "keys", "enrol", "10.77.0.1:7400", "--token", token, "--out", identity)
    hosts.start(2, "node", second)

    # Host 3: nothing but a token and an address.
    token = hosts.run(1, "keys", "token", str(authority), "--id", "3")
    where = ["--dir", str(tmp_path / "guests"), "--listen", "10.77.0.3:7400"]
    hosts.start(3, "join", "10.77.0.1:7400", "--token", token, *where)
    folders[3] = tmp_path / "guests" / "node-3"
    for node in (2, 3):
        wait(lambda node=node: bool(ask(node, "status")["takes_part"]), f"host {node} is not in")

    # They speak; somebody without a certificate gets an alert of TLS and nothing of ours.
    ask(1, "publish", group="all", text="welcome")
    for node in (2, 3):
        wait(lambda node=node: delivered(node) == 1, f"host {node} did not deliver")
    assert len(hosts.send_plain(3, "10.77.0.1:7400")) <= 7

    # Host 3 is revoked at host 1; host 2 hears of it from its neighbour.
    hosts.run(1, "keys", "revoke", str(authority), "--id", "3")
    for node in (1, 2):
        wait(lambda node=node: 3 not in _links(ask(node, "status")), f"host {node} still has 3")
    wait(lambda: _links(ask(3, "status")) == [], "host 3 still has links")
    ask(1, "publish", group="all", text="among ourselves")
    wait(lambda: delivered(2) == 2, "host 2 did not deliver")
    time.sleep(1.5)  # host 3 asks its contact every second
    assert delivered(3) == 1 and _links(ask(3, "status")) == []
    for node in (1, 2):
        assert 3 not in _links(ask(node, "status"))


def _links(status: dict[str, object]) -> list[int]:
    found = status["links"]
    assert isinstance(found, list)
    return found
