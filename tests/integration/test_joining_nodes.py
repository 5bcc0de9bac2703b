"""Real nodes that find one another: they join through a contact, leave, die, and are cut off."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from cut_proxy import CutProxies
from loopback_nodes import free_ports, links, until

from causalcast import Node
from causalcast.errors import LeftBehind, NodeError
from causalcast.judge import judge
from causalcast.runtime.node_config import NodeConfig
from causalcast.runtime.operating.local_cluster import ClusterPlan, LocalCluster
from causalcast.trace.gather import gather

SAFETY = ("no_creation", "no_duplication", "fifo_order", "causal_order")
BOTH = pytest.mark.parametrize(
    ("protocol", "transport"), [("cptcast", "tcp"), ("prc_broadcast", "tcp"), ("cptcast", "udp")]
)


class Comers:
    """Nodes that know nothing but the address of a contact."""

    def __init__(
        self, folder: Path, protocol: str, transport: str = "tcp", options: str = ""
    ) -> None:
        self.folder = folder
        self.options = options  # of the protocol, as TOML
        self.transport = transport
        self.protocol = protocol
        self.nodes: dict[int, Node] = {}
        self.proxies: CutProxies | None = None
        self.contact = ""

    def config(self, node: int, port: int, advertised: int, identity: str = "") -> NodeConfig:
        contact = f'contact = "{self.contact}"' if self.contact else ""
        return NodeConfig.parse(
            f"""
            [node]
            id = {identity or node}
            listen = "127.0.0.1:{port}"
            advertise = "127.0.0.1:{advertised}"
            transport = "{self.transport}"
            [cluster]
            name = "test"
            {contact}
            [protocol]
            name = "{self.protocol}"
            {self.options}
            [overlay]
            kind = "hyparview"
            active_view = 3
            probe_every = 300
            retry_after = 200
            [groups]
            all = "*"
            [storage]
            path = "node-{node}/data"
            [trace]
            path = "node-{node}/trace"
            level = "deliveries"
            [security]
            tls = false
            """,
            self.folder,
        )

    async def come(self, node: int) -> Node:
        """Start one more; the first one is the contact of all others."""
        port = advertised = free_ports(1)[0]
        if self.proxies is not None:
            advertised = await self.proxies.before(node, port)
        came = Node(self.config(node, port, advertised))
        self.contact = self.contact or f"127.0.0.1:{advertised}"
        await came.start()
        self.nodes[node] = came
        return came

    async def publish(self, *nodes: int, count: int) -> None:
        """Each of them publishes so many."""
        for number in range(count):
            for node in nodes:
                await self.nodes[node].group("all").publish(f"{node} {number}".encode())

    async def all_take_part(self) -> None:
        """Wait until nobody misses anything from then on."""
        await until(lambda: all(node.status()["takes_part"] for node in self.nodes.values()))

    async def all_have(self, count: int, *nodes: int) -> None:
        """Wait until these have delivered so many."""
        await until(
            lambda: all(
                self.nodes[node].status()["delivered"].get("all", 0) == count for node in nodes
            )
        )

    async def stop(self) -> None:
        """All leave in good order."""
        for node in self.nodes.values():
            await node.stop()
        if self.proxies is not None:
            await self.proxies.close()


def run_with(comers: Comers, story: Callable[[], Awaitable[None]]) -> None:
    async def whole_story() -> None:
        try:
            await story()
        finally:
            await comers.stop()

    asyncio.run(whole_story())


def broken_promises(comers: Comers) -> list[object]:
    """What the judge finds in the gathered run: of safety, wherever nodes were."""
    run = gather([comers.folder], comers.folder / "run")
    found = judge(run)
    return [violation for name in SAFETY for violation in found.violations[name]]


@BOTH
def test_nodes_join_through_a_contact_and_leave(
    tmp_path: Path, protocol: str, transport: str
) -> None:
    """Six come one after the other; one comes in the middle of the traffic, one leaves in it."""
    comers = Comers(tmp_path, protocol, transport)

    async def story() -> None:
        for node in range(1, 7):
            await comers.come(node)
        await comers.all_take_part()
        # More than the contact: addresses of nodes they never met have reached them.
        await until(lambda: all(len(links(node)) >= 2 for node in comers.nodes.values()))
        await comers.publish(*range(1, 7), count=10)
        await comers.come(7)
        await until(lambda: bool(links(comers.nodes[7])))
        gone = comers.nodes.pop(3)
        await gone.stop()
        await until(lambda: all(3 not in links(node) for node in comers.nodes.values()))
        await comers.all_take_part()  # who is not born yet is owed nothing
        await comers.publish(1, 2, 4, 5, 6, 7, count=10)
        await comers.all_have(120, 1, 2, 4, 5, 6)
        # Born after everything its first neighbour had: whatever was published from then on.
        await until(lambda: comers.nodes[7].status()["delivered"].get("all", 0) >= 60)

    run_with(comers, story)
    assert broken_promises(comers) == []


@pytest.mark.parametrize("protocol", ["cptcast", "prc_broadcast"])
def test_halves_of_a_cut_network_find_together_with_nothing_missing(
    tmp_path: Path, protocol: str
) -> None:
    """Both sides go on publishing while cut off; once healed everybody has everything, in order."""
    comers = Comers(tmp_path, protocol)

    async def story() -> None:
        comers.proxies = CutProxies()
        for node in range(1, 7):
            await comers.come(node)
        await comers.all_take_part()
        await comers.publish(*range(1, 7), count=5)
        await comers.all_have(30, *range(1, 7))
        assert comers.proxies.cut([1, 2, 3], [4, 5, 6]) > 0
        await comers.publish(*range(1, 7), count=10)
        left, right = comers.nodes[1], comers.nodes[4]
        assert left.status()["delivered"]["all"] < 90 and right.status()["delivered"]["all"] < 90
        await until(lambda: comers.proxies is not None and comers.proxies.refused > 0)
        comers.proxies.heal()
        await comers.all_have(90, *range(1, 7))
        await comers.publish(*range(1, 7), count=5)
        await comers.all_have(120, *range(1, 7))

    run_with(comers, story)
    assert broken_promises(comers) == []


def test_who_was_cut_off_beyond_the_log_stops_and_comes_back_as_somebody_new(
    tmp_path: Path,
) -> None:
    comers = Comers(tmp_path, "cptcast", options="log = 3\ngive_up_after = 500")

    async def story() -> None:
        comers.proxies = CutProxies()
        for node in (1, 2, 3):
            await comers.come(node)
        await comers.all_take_part()
        await comers.publish(1, 2, 3, count=1)
        await comers.all_have(3, 1, 2, 3)
        assert comers.proxies.cut([3], [1, 2]) > 0
        await comers.publish(1, 2, count=5)
        await comers.all_have(13, 1, 2)
        comers.proxies.heal()
        left = comers.nodes.pop(3)
        with pytest.raises(LeftBehind, match=r"node 3 was left behind.*start it again"):
            await left.wait_stopped()
        with pytest.raises(LeftBehind):
            await left.group("all").publish(b"to nobody")
        await comers.come(4)
        await comers.all_take_part()
        await comers.publish(1, 4, count=1)
        await comers.all_have(15, 1, 2)
        await comers.all_have(2, 4)

    run_with(comers, story)
    assert broken_promises(comers) == []


def test_a_node_that_is_new_in_every_life(tmp_path: Path) -> None:
    """It comes back by its contact under another id; the founder may not found a second time."""
    comers = Comers(tmp_path, "prc_broadcast")

    async def story() -> None:
        founder = await comers.come(1)
        ports = free_ports(2)
        ids = []
        for life in range(2):
            node = Node(comers.config(2, ports[0], ports[0], '"new"'))
            async with node:
                ids.append(node.id)
                await until(lambda: bool(links(founder)))
                receipt = await node.group("all").publish(b"hello")
                await comers.all_have(life + 1, 1)
                assert receipt.id >> 32 == node.id
        assert ids[0] != ids[1]

        lonely = Comers(tmp_path / "lonely", "prc_broadcast")
        async with Node(lonely.config(1, ports[1], ports[1], '"new"')):
            pass
        with pytest.raises(NodeError, match="founded the cluster"):
            await Node(lonely.config(1, ports[1], ports[1], '"new"')).start()

    run_with(comers, story)


def test_newcomers_that_only_have_one_another_go_on_asking(tmp_path: Path) -> None:
    """2 comes before its contact is there, and 3 comes through 2: both find the founder later."""
    comers = Comers(tmp_path, "cptcast")

    async def story() -> None:
        founders_port = free_ports(1)[0]
        comers.contact = f"127.0.0.1:{founders_port}"
        second = await comers.come(2)
        comers.contact = str(second.config.listen)
        third = await comers.come(3)
        await until(lambda: links(second) == [3])
        assert not second.status()["takes_part"] and not third.status()["takes_part"]
        comers.contact = ""
        founder = Node(comers.config(1, founders_port, founders_port))
        await founder.start()
        comers.nodes[1] = founder
        await comers.all_take_part()

    run_with(comers, story)


def test_a_contact_of_another_protocol_is_no_way_in(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says what differs; the node goes on asking."""
    comers = Comers(tmp_path, "prc_broadcast")

    async def story() -> None:
        await comers.come(1)
        comers.protocol = "cptcast"
        await comers.come(2)
        await until(lambda: "protocol cptcast here, prc_broadcast there" in caplog.text)
        assert links(comers.nodes[2]) == []

    run_with(comers, story)


@pytest.mark.slow
@BOTH
def test_killed_nodes_come_back_as_somebody_new(
    tmp_path: Path, protocol: str, transport: str
) -> None:
    """Processes and SIGKILL in the middle of traffic; the survivors lose nothing."""
    cluster = LocalCluster(
        tmp_path / "nodes",
        ClusterPlan(nodes=7, protocol=protocol, overlay="hyparview", transport=transport),
    )

    def publish(count: int) -> None:
        for number in range(count):
            for node in cluster.ids:
                if cluster.is_running(node):
                    cluster.ask(node, "publish", group="all", text=f"{node} {number}")

    async def equal() -> None:
        # Up from the beginning, and up still: they have the same.
        await until(
            lambda: len({cluster.ask(node, "status")["delivered"]["all"] for node in old}) == 1
        )

    try:
        cluster.start_all()
        publish(10)
        cluster.kill(1)  # through whom all others came
        cluster.kill(4)
        publish(10)
        back = cluster.come_back(4)
        assert back == 8
        publish(10)
        old = [2, 3, 5, 6, 7]
        asyncio.run(equal())
    finally:
        assert cluster.stop_all() == []
    run = gather([cluster.folder], tmp_path / "run")
    found = judge(run)
    assert [violation for name in SAFETY for violation in found.violations[name]] == []
    assert run.header.faults == {"crash": 2}


@pytest.mark.parametrize("protocol", ["cptcast", "prc_broadcast"])
def test_who_publishes_faster_than_others_join_waits(tmp_path: Path, protocol: str) -> None:
    """Links are made safe from a log of bounded length. Publishers that outran it were alone for
    ever, each with links to all the others."""

    async def story() -> None:
        comers = Comers(tmp_path, protocol, options="log = 100")
        nodes = [await comers.come(node) for node in (1, 2, 3)]
        quiet = asyncio.Event()

        async def publish(node: Node) -> None:
            while not quiet.is_set():
                await node.group("all").publish(b"as fast as it goes")

        publishers = [asyncio.create_task(publish(node)) for node in nodes for _ in range(4)]
        await comers.all_take_part()
        await asyncio.sleep(1)
        quiet.set()
        await asyncio.gather(*publishers)

        def heard_last(node: Node) -> bool:
            return all(node.id == other.id or last_of(node, other.id) for other in nodes)

        heard: dict[int, dict[int, int]] = {node.id: {} for node in nodes}
        published = {node.id: node.status()["published"]["all"] for node in nodes}

        def last_of(node: Node, origin: int) -> bool:
            return heard[node.id].get(origin, 0) == published[origin]

        async def listen(node: Node) -> None:
            async for message in node.group("all"):
                heard[node.id][message.origin] = message.number

        listeners = [asyncio.create_task(listen(node)) for node in nodes]
        await until(lambda: all(map(heard_last, nodes)))
        for task in listeners:
            task.cancel()
        for node in nodes:
            await node.stop()

    asyncio.run(story())
