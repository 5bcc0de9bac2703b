"""A thousand hostile connections at a node: it goes on delivering, and lets a neighbour back in."""

import os
import resource
import selectors
import socket
import ssl
import time
from pathlib import Path

from causalcast.runtime.operating.local_cluster import ClusterPlan, LocalCluster

PATIENCE = 60  # seconds; a delivery takes milliseconds unless something is wrong
CONNECTIONS = 1000
MOST_MEMORY_MB = 256  # about 50 without an attack, and 110 with it
HELD_AT_MOST = 32  # strangers that a node puts up with


class Attackers:
    """Connections that never say who they are: silent ones, garbage, half and whole handshakes.

    Whenever the node hangs up on one, another takes its place."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.made = 0
        self._address = address
        self._selector = selectors.DefaultSelector()
        self._hello = _client_hello()

    def open(self, count: int) -> None:
        for _ in range(count):
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(self._address)
            self._selector.register(one, selectors.EVENT_WRITE)
            self.made += 1

    def go_on(self, seconds: float) -> None:
        """Send what there is to send, and replace whoever was turned away."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for key, events in self._selector.select(0.01):
                one = key.fileobj
                assert isinstance(one, socket.socket)
                try:
                    if events & selectors.EVENT_WRITE:
                        one.send(self._nastiness())
                        self._selector.modify(one, selectors.EVENT_READ)
                    elif not one.recv(4096):
                        raise ConnectionResetError
                except OSError:
                    self._selector.unregister(one)
                    one.close()
                    if self.made < 3 * CONNECTIONS:
                        self.open(1)

    def close(self) -> None:
        for key in list(self._selector.get_map().values()):
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.close()
        self._selector.close()

    def _nastiness(self) -> bytes:
        kinds = [b"", os.urandom(500), self._hello[: len(self._hello) // 2], self._hello]
        return kinds[self.made % 4]


def _client_hello() -> bytes:
    """The first bytes of a handshake in good order: they cost a node most."""
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        context.wrap_bio(into, out).do_handshake()
    except ssl.SSLWantReadError:
        return out.read()
    raise AssertionError("a handshake cannot end before it began")


def memory_of(cluster: LocalCluster, node: int) -> float:
    """Megabytes of a node's process that are in memory."""
    told = Path(f"/proc/{cluster._processes[node].pid}/status").read_text()
    return int(told.partition("VmRSS:")[2].split()[0]) / 1024


def test_a_thousand_hostile_connections_do_not_stop_delivery(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    cluster = LocalCluster(tmp_path / "nodes", ClusterPlan(nodes=3, overlay="full_mesh"))
    host, _, port = cluster.addresses[1].rpartition(":")
    attackers = Attackers((host, int(port)))
    try:
        cluster.start_all()

        def delivery(number: int) -> None:
            """Publish at node 2, wait until it is delivered at node 1, where the attack is."""
            begun = time.monotonic()
            cluster.ask(2, "publish", group="all", text=str(number))
            while cluster.ask(1, "status")["delivered"].get("all", 0) < number:
                assert time.monotonic() < begun + PATIENCE, "delivery has stopped"

        for number in range(1, 11):
            delivery(number)
        attackers.open(CONNECTIONS)
        attackers.go_on(1.0)
        for number in range(11, 21):
            attackers.go_on(0.05)
            delivery(number)
        # A neighbour that was away gets in through the crowd.
        cluster.kill(3)
        cluster.start(3)
        cluster.wait_ready(3)
        deadline = time.monotonic() + PATIENCE
        while 3 not in cluster.ask(1, "status")["links"]:
            attackers.go_on(0.1)
            assert time.monotonic() < deadline, "nobody gets in any more"
        status = cluster.ask(1, "status")
        assert sorted(status["links"]) == [2, 3]
        assert status["trouble"]["turned_away"] > CONNECTIONS - HELD_AT_MOST
        assert attackers.made >= CONNECTIONS
        assert memory_of(cluster, 1) < MOST_MEMORY_MB
    finally:
        attackers.close()
        stubborn = cluster.stop_all()
    assert not stubborn
