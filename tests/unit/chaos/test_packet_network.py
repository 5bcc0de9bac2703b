"""Packets between namespaces: everything arrives over TCP whatever is done to them, unless cut."""

import socket
import threading
from collections.abc import Iterator

import pytest

from causalcast.chaos.packet_network import PacketNetwork, address_of

SIZE = 300_000


@pytest.fixture
def network() -> Iterator[PacketNetwork]:
    objection = PacketNetwork.objection()
    if objection:
        pytest.skip(f"packets cannot be disturbed here: {objection}")
    network = PacketNetwork(seed=3)
    network.add(1)
    network.add(2)
    yield network
    network.close()


def send(network: PacketNetwork, timeout: float) -> bytes:
    """Node 1 sends `SIZE` bytes to node 2 over TCP; what arrived."""
    with network.inside(2):
        server = socket.create_server((address_of(2), 5000))
    with network.inside(1):
        client = socket.socket()  # a socket stays in the namespace where it was made
    client.settimeout(timeout)
    received = bytearray()

    def receive() -> None:
        connection, _ = server.accept()
        with connection:
            while data := connection.recv(65536):
                received.extend(data)

    with server, client:
        client.connect((address_of(2), 5000))
        reader = threading.Thread(target=receive)
        reader.start()
        client.sendall(bytes(range(250)) * (SIZE // 250))
        client.shutdown(socket.SHUT_WR)
        reader.join(20)
    return bytes(received)


def test_every_fault_hits_packets_and_tcp_hides_them(network: PacketNetwork) -> None:
    network.loss, network.duplication, network.reordering = 0.02, 0.05, 0.1
    network.delay = 0.002
    assert send(network, 10.0) == bytes(range(250)) * (SIZE // 250)
    faults = ["packets lost", "packets doubled", "packets overtaken", "packets delayed"]
    assert [fault for fault in faults if not network.fired[fault]] == []


def test_nothing_passes_a_cut_until_it_is_healed(network: PacketNetwork) -> None:
    network.cut([1], [2])
    with pytest.raises(TimeoutError):
        send(network, 0.3)
    assert network.fired["packets cut off"] > 0
    network.heal()
    assert len(send(network, 10.0)) == SIZE
