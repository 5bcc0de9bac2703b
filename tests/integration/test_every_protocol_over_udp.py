"""Every causal protocol over UDP, through a network that loses a tenth of all datagrams.

The same story as over TCP: a node is killed and comes back. Spark judges all runs together.
"""

import json
from pathlib import Path

import pytest
from lossy_proxy import LossyProxies
from test_every_protocol import kill_one_and_bring_it_back, plan_for, promised

from causalcast.cli.main import main
from causalcast.registry import find_protocol, protocol_names
from causalcast.runtime.operating.local_cluster import LocalCluster
from causalcast.trace.gather import gather

CAUSAL = [name for name in protocol_names() if "causal_order" in find_protocol(name).guarantees]


def put_before(cluster: LocalCluster, proxies: LossyProxies) -> None:
    """Let nodes reach one another through proxies alone."""
    own = {node: address.rsplit(":", 1) for node, address in cluster.addresses.items()}
    behind = {node: proxies.before((host, int(port))) for node, (host, port) in own.items()}
    others = ", ".join(f'{node} = "{host}:{port}"' for node, (host, port) in behind.items())
    for node in cluster.ids:
        path = cluster.config_of(node)
        lines = path.read_text().splitlines()
        (place,) = [i for i, line in enumerate(lines) if line.startswith("peers = ")]
        lines[place] = f"peers = {{ {others} }}"
        path.write_text("\n".join(lines) + "\n")


@pytest.mark.slow
@pytest.mark.spark
def test_a_node_is_killed_on_a_lossy_network(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = []
    for protocol in CAUSAL:
        plan = plan_for(protocol)
        plan.transport = "udp"
        cluster = LocalCluster(tmp_path / protocol, plan)
        proxies = LossyProxies(0.1, seed=len(runs))
        put_before(cluster, proxies)
        with proxies.running():
            kill_one_and_bring_it_back(cluster, find_protocol(protocol))
        assert proxies.fired["lost"] > 10, protocol
        runs.append(tmp_path / "runs" / protocol)
        assert gather([tmp_path / protocol], runs[-1]).header.faults == {"crash": 1}
    capsys.readouterr()
    main(["verify", *map(str, runs), "--json"])
    found = {one["protocol"]: one for one in json.loads(capsys.readouterr().out)["runs"]}
    assert sorted(found) == sorted(CAUSAL)
    for protocol in CAUSAL:
        checked = found[protocol]["checked"]
        broken = [name for name in promised(find_protocol(protocol)) if not checked[name]["ok"]]
        assert broken == [], protocol
