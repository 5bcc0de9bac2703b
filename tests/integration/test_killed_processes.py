"""Real processes, SIGKILL and restart: nothing is lost, doubled or out of order."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from loopback_nodes import PATIENCE, disorder

from causalcast.errors import NodeError
from causalcast.runtime.operating.control_client import ControlClient
from causalcast.runtime.operating.local_cluster import ClusterPlan, LocalCluster
from causalcast.trace.gather import gather

FLOOD_FILE = '''
"""A user's own protocol, outside the package: hand everything to every neighbour."""

from causalcast.core import Message, Multicast, ProtocolSpec, Publication, Wire


class Copy(Message):
    """Deliver it and pass it on."""

    wire = Wire("mine.copy", publication=Publication)

    def __init__(self, publication):
        self.publication = publication


class Mine(Multicast):
    def __init__(self, me):
        self.me, self.neighbours, self.seen = me, {}, set()

    def on_neighbour_up(self, peer, link, newborn, out):
        self.neighbours[peer] = None

    def on_neighbour_down(self, peer, link, out):
        self.neighbours.pop(peer, None)

    def on_publish(self, publication, out):
        self.on_message(self.me, Copy(publication), out)

    def on_message(self, sender, message, out):
        if message.publication.id not in self.seen:
            self.seen.add(message.publication.id)
            out.deliver(message.publication)
            for peer in self.neighbours:
                out.send(peer, message)


SPEC = ProtocolSpec(
    name="mine",
    summary="Hand everything to every neighbour.",
    build=lambda setup: Mine(setup.me),
    messages=[Copy],
    guarantees=["no_creation", "no_duplication"],
)
'''

MakeCluster = Callable[[ClusterPlan], LocalCluster]


@pytest.fixture
def make_cluster(tmp_path: Path) -> Iterator[MakeCluster]:
    """Clusters whose processes end with the test."""
    made: list[LocalCluster] = []

    def make(plan: ClusterPlan) -> LocalCluster:
        made.append(LocalCluster(tmp_path / f"cluster-{len(made)}", plan))
        made[-1].start_all()
        return made[-1]

    yield make
    for cluster in made:
        for node in cluster.ids:
            if cluster.is_running(node):
                cluster.kill(node)


def wait_until_equal(cluster: LocalCluster) -> None:
    """Wait until every node has delivered all that was published to the one group."""
    deadline = time.monotonic() + PATIENCE
    while True:
        statuses = [cluster.ask(node, "status") for node in cluster.ids]
        published = sum(status["published"].get("all", 0) for status in statuses)
        if all(status["delivered"].get("all", 0) == published for status in statuses):
            return
        assert time.monotonic() < deadline, statuses
        time.sleep(0.05)


def test_a_node_killed_in_traffic_catches_up(make_cluster: MakeCluster, tmp_path: Path) -> None:
    """Three nodes publish in turn; node 2 is killed in the middle and comes back."""
    cluster = make_cluster(ClusterPlan(nodes=3, overlay="line"))
    clients = {node: ControlClient(cluster.folder_of(node), node) for node in cluster.ids}

    def publish(node: int, count: int) -> None:
        for number in range(count):
            clients[node].ask("publish", group="all", text=f"{node} {number}")

    for node in cluster.ids:
        publish(node, 20)
    clients[2].ask("publish", group="all", text="the last words of node 2")
    cluster.kill(2)
    publish(1, 20)
    publish(3, 20)
    cluster.start(2)
    cluster.wait_ready(2)
    clients[2] = ControlClient(cluster.folder_of(2), 2)
    publish(2, 20)
    wait_until_equal(cluster)
    for client in clients.values():
        client.__exit__()
    assert cluster.stop_all() == []

    run = gather([cluster.folder], tmp_path / "run")
    assert disorder(run) == []
    rows = run.events.to_pylist()
    mine = [row for row in rows if row["node"] == 2]
    assert [row["pos"] for row in mine] == list(range(len(mine)))
    assert [row["kind"] for row in mine].count("publish") == 41  # the last words included
    assert [row["kind"] for row in mine if row["kind"] in ("crash", "recover", "leave")] == [
        "crash",
        "recover",
        "leave",
    ]
    assert run.header.faults == {"crash": 1}


def test_what_publish_returned_for_survives_sigkill(
    make_cluster: MakeCluster, tmp_path: Path
) -> None:
    """The only node of a cluster is killed the moment `publish` has answered, five times over."""
    cluster = make_cluster(ClusterPlan(nodes=1))
    for number in range(1, 6):
        answer = cluster.ask(1, "publish", group="all", text=f"number {number}")
        cluster.kill(1)
        assert answer["message"] == f"1.{number}"
        cluster.start(1)
        cluster.wait_ready(1)
    with ControlClient(cluster.folder_of(1), 1) as client:
        messages = client.messages("all")
        assert [next(messages)["text"] for _ in range(5)] == [f"number {n}" for n in range(1, 6)]
    cluster.stop_all()
    rows = gather([cluster.folder], tmp_path / "run").events.to_pylist()
    assert [row["message"] & 0xFF for row in rows if row["kind"] == "publish"] == [1, 2, 3, 4, 5]
    assert [row["message"] & 0xFF for row in rows if row["kind"] == "deliver"] == [1, 2, 3, 4, 5]


def test_a_users_protocol_file_runs_over_sockets(make_cluster: MakeCluster, tmp_path: Path) -> None:
    """It keeps nothing, so it works until it is killed, and then cannot come back as the same."""
    file = tmp_path / "mine.py"
    file.write_text(FLOOD_FILE)
    cluster = make_cluster(ClusterPlan(nodes=2, protocol=str(file), overlay="line"))
    deadline = time.monotonic() + PATIENCE
    while not cluster.ask(1, "status")["links"]:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    cluster.ask(1, "publish", group="all", text="hello")
    with ControlClient(cluster.folder_of(2), 2) as client:
        message = next(client.messages("all"))
    assert (message["message"], message["text"], message["origin"]) == ("1.1", "hello", 1)
    cluster.kill(2)
    cluster.start(2)
    with pytest.raises(NodeError, match="under a new id"):
        cluster.wait_ready(2)
    cluster.stop_all()
    run = gather([cluster.folder], tmp_path / "run")
    assert run.header.protocol == "mine"
    kinds = [row["kind"] for row in run.events.to_pylist() if row["node"] == 2]
    assert kinds[-1] == "crash"  # added by whoever gathers
