"""A node's TOML is read whole, and what is wrong in it is named."""

from pathlib import Path

import pytest

from causalcast.errors import ConfigError
from causalcast.runtime.node_config import NodeConfig

GOOD = """
[node]
id = 3
name = "berlin-1"
listen = "127.0.0.1:7403"
[cluster]
name = "demo"
peers = { 1 = "127.0.0.1:7401", 2 = "127.0.0.1:7402" }
[protocol]
name = "vector_clock_broadcast"
repeat_after = "100ms"
[overlay]
kind = "edges"
edges = [[1, 2], [2, 3]]
[groups]
chat = [1, 2, 3]
all = "*"
[storage]
path = "data"
[trace]
path = "trace"
level = "deliveries"
[security]
tls = false
"""


def parse(text: str) -> NodeConfig:
    return NodeConfig.parse(text, Path("/folder"), "node.toml")


def test_a_whole_file_is_understood() -> None:
    config = parse(GOOD)
    assert (config.node, config.name, config.cluster) == (3, "berlin-1", "demo")
    assert str(config.listen) == "127.0.0.1:7403"
    assert {node: str(address) for node, address in config.peers.items()} == {
        1: "127.0.0.1:7401",
        2: "127.0.0.1:7402",
    }
    assert config.blueprint.topology.neighbours == {1: [2], 2: [1, 3], 3: [2]}
    assert config.blueprint.protocol_options["repeat_after"] == 100_000
    assert config.founders() == {"chat": [1, 2, 3], "all": [1, 2, 3]}
    assert (config.storage, config.trace) == (Path("/folder/data"), Path("/folder/trace"))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("id = 3", "id = -3", "node.id = -3: expected a number from 0"),
        ("id = 3", "", "key 'node.id' is missing"),
        ('name = "berlin-1"', "nmae = 'x'", "unknown key 'node.nmae'; did you mean 'name'?"),
        ("127.0.0.1:7403", "7403", "node.listen = '7403': expected host:port"),
        ("127.0.0.1:7403", "10.0.0.1:7403", "node.toml:5: 10.0.0.1:7403 can be reached by others"),
        ("127.0.0.1:7401", "example.org:1", "example.org:1 can be reached by others"),
        ("1 = ", "one = ", "cluster.peers.one = '127.0.0.1:7401': expected node ids"),
        ("[[1, 2], [2, 3]]", "[[1, 4]]", "overlay.edges = [1, 4]: expected nodes of this cluster"),
        ("[[1, 2], [2, 3]]", "[[1]]", "overlay.edges = [1]: expected pairs"),
        ("[1, 2, 3]", "[1, 9]", "groups.chat = [1, 9]: expected '*' or a list of node ids"),
        ('"edges"', '"hypercube"', "overlay.kind = 'hypercube': expected one of line, ring"),
        ("vector_clock_broadcast", "vector_clock", "did you mean vector_clock_broadcast?"),
        ('"100ms"', '"soon"', "protocol.repeat_after = 'soon': expected a duration"),
        ("repeat_after", "repeat_afer", "protocol.repeat_afer: no option"),
        ('repeat_after = "100ms"', 'spread = "direct"', "spread = 'direct' needs everybody"),
        ('"deliveries"', '"everything"', "trace.level = 'everything': expected one of"),
        (
            "id = 3",
            "id = 3\ntransport = 'pigeon'",
            "node.transport = 'pigeon': expected one of tcp",
        ),
        ("[storage]", "[udp]\ncluster_key = 'k'\n[storage]", "expected none, or transport = 'udp'"),
        ("tls = false", "tls = 1", "security.tls = 1: expected true or false"),
        ("tls = false", "tsl = false", "unknown key 'security.tsl'; did you mean 'tls'?"),
        (
            "tls = false",
            "tls = false\nidentity = 'x'",
            "expected true, because there is 'identity'",
        ),
        ("[storage]", "[limits]\nbody_bytes = 0\n[storage]", "limits.body_bytes = 0: expected"),
        ("peers =", "contact = '127.0.0.1:1'\npeers =", "overlay.kind = 'edges' is fixed: list"),
        ("id = 3", "id = 'new'", "overlay.kind = 'edges' is fixed: list"),
        ("id = 3", "id = 'old'", "node.id = 'old': expected a number from 0"),
        ("[storage]", "[strage]\nx = 1\n[storage]", "unknown key 'strage'"),
    ],
)
def test_what_is_wrong_is_named(before: str, after: str, expected: str) -> None:
    assert before in GOOD
    with pytest.raises(ConfigError) as caught:
        parse(GOOD.replace(before, after, 1))
    assert str(caught.value).startswith("node.toml:") or "did you mean" in str(caught.value)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "neighbours"),
    [
        ("line", {1: [2], 2: [1, 3], 3: [2, 4], 4: [3]}),
        ("ring", {1: [2, 4], 2: [1, 3], 3: [2, 4], 4: [3, 1]}),
        ("star", {1: [2, 3, 4], 2: [1], 3: [1], 4: [1]}),
        ("tree", {1: [2, 3], 2: [1, 4], 3: [1], 4: [2]}),
        ("full_mesh", {1: [2, 3, 4], 2: [1, 3, 4], 3: [1, 2, 4], 4: [1, 2, 3]}),
    ],
)
def test_graphs_over_the_sorted_ids(kind: str, neighbours: dict[int, list[int]]) -> None:
    peers = "4 = '127.0.0.1:4', 2 = '127.0.0.1:2', 1 = '127.0.0.1:1'"
    config = parse(
        f"[node]\nid = 3\nlisten = '127.0.0.1:3'\n[cluster]\npeers = {{ {peers} }}\n"
        f"[protocol]\nname = 'naive_flood'\n[overlay]\nkind = '{kind}'\n[groups]\nall = '*'\n"
    )
    found = config.blueprint.topology.neighbours
    assert {node: sorted(peers) for node, peers in found.items()} == {
        node: sorted(peers) for node, peers in neighbours.items()
    }


JOINING = """
[node]
id = 7
listen = "127.0.0.1:7407"
advertise = "127.0.0.1:9907"
[cluster]
contact = ["127.0.0.1:7401", "127.0.0.1:7402"]
[protocol]
name = "cptcast"
[overlay]
kind = "hyparview"
active_view = 4
[groups]
all = "*"
few = [1, 2]
[security]
tls = false
"""


def test_a_node_that_joins_knows_its_contacts_and_founds_nothing() -> None:
    config = parse(JOINING)
    assert [str(address) for address in config.contacts] == ["127.0.0.1:7401", "127.0.0.1:7402"]
    assert str(config.advertise) == "127.0.0.1:9907"
    assert config.founders() == {"all": [], "few": []}
    assert config.late_groups == [0]
    assert config.blueprint.overlay_options["active_view"] == 4


def test_the_node_without_a_contact_founds_its_groups() -> None:
    lines = [line for line in JOINING.splitlines() if not line.startswith("contact")]
    config = parse("\n".join(lines))
    assert config.founders() == {"all": [7], "few": []}
    assert config.late_groups == []


def test_a_node_that_is_always_new_keeps_its_lives_apart() -> None:
    text = JOINING.replace("id = 7", "id = 'new'")
    one, other = parse(text), parse(text)
    assert one.node != other.node and one.storage != other.storage
    assert one.control_name() == other.control_name() == "new"
    assert one.facts() == other.facts()


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("contact =", "peers = { 1 = '127.0.0.1:1' }\ncontact =", "cluster.peers = '…': expected"),
        ('"127.0.0.1:7402"', '"nowhere"', "cluster.contact = 'nowhere': expected host:port"),
        ('"127.0.0.1:7402"', '"10.0.0.1:1"', "10.0.0.1:1 can be reached by others"),
        ("[1, 2]", "3", "groups.few = 3: expected '*' or a list of node ids"),
        ("active_view", "activ_view", "overlay.activ_view: no option"),
        ("cptcast", "locamu", "locamu needs a"),
    ],
)
def test_what_is_wrong_with_joining_is_named(before: str, after: str, expected: str) -> None:
    assert before in JOINING
    with pytest.raises(ConfigError) as caught:
        parse(JOINING.replace(before, after, 1))
    assert expected in str(caught.value)


def test_a_cluster_key_lets_nodes_on_udp_leave_loopback(tmp_path: Path) -> None:
    text = GOOD.replace("id = 3", 'id = 3\ntransport = "udp"').replace(
        "127.0.0.1:7403", "10.0.0.1:7"
    )
    with pytest.raises(ConfigError, match="can be reached by others"):
        NodeConfig.parse(text, tmp_path)
    sealed = text + "[udp]\ncluster_key = 'key'\n"
    with pytest.raises(ConfigError, match=r"udp.cluster_key: key: No such file"):
        NodeConfig.parse(sealed, tmp_path)
    (tmp_path / "key").write_bytes(b"short")
    with pytest.raises(ConfigError, match="at least 32 random bytes"):
        NodeConfig.parse(sealed, tmp_path)
    (tmp_path / "key").write_bytes(bytes(range(32)))
    config = NodeConfig.parse(sealed, tmp_path)
    assert (config.transport, config.cluster_key) == ("udp", bytes(range(32)))
