"""compose.yaml and kubernetes.yaml describe nodes that start, find one another and are probed.

No container engine is needed: the files are read, what they and `make_nodes.sh` say is carried out
with folders of the test, and names of other containers become addresses of this machine.
"""

import contextlib
import os
import re
import signal
import ssl
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from loopback_nodes import free_ports
from recipe_processes import SOURCE, soon

from causalcast.runtime.node_config import NodeConfig
from causalcast.runtime.operating.local_cluster import STOP_WITHIN

yaml = pytest.importorskip("yaml", reason="no PyYAML: pip install 'causalcast[docs]'")
DEPLOY = Path(__file__).parents[2] / "deploy"
NODES, CLIENTS, HEALTH = 7400, 7500, 9464  # ports inside
UID = 7400


def make_nodes(folder: Path, *names: str) -> dict[int, Path]:
    """What `make_nodes.sh` makes: the folders by node."""
    programs = folder / "bin"
    programs.mkdir()
    program = programs / "causalcast"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m causalcast "$@"\n')
    program.chmod(0o755)
    environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": SOURCE}
    command = [str(DEPLOY / "make_nodes.sh"), str(folder / "nodes"), *names]
    subprocess.run(command, env=environment, check=True, capture_output=True)
    return {node: folder / "nodes" / f"node-{node}" for node in (1, 2, 3)}


def services() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return found["services"]


def manifests() -> dict[str, dict[str, Any]]:
    documents = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
    return {one["kind"]: one for one in documents}


def seconds(text: str) -> float:
    return float(text.removesuffix("s"))


def test_compose_names_the_nodes_that_are_made(tmp_path: Path) -> None:
    folders = make_nodes(tmp_path)
    for node, folder in folders.items():
        config = NodeConfig.read(folder / "node.toml")
        service = services()[f"node-{node}"]  # the name of a service is that of its host
        assert str(config.advertise) == f"node-{node}:{NODES}"
        others = {f"{name}:{NODES}" for name in services()} - {str(config.advertise)}
        assert {str(address) for address in config.peers.values()} == others
        (volume,) = service["volumes"]
        assert volume == f"./nodes/{folder.name}:/node", "its own volume"
        assert [port.split(":")[-1] for port in service["ports"]] == [str(CLIENTS)]
        assert seconds(service["stop_grace_period"]) > STOP_WITHIN
        assert service["restart"] == "unless-stopped" and service["stop_signal"] == "SIGTERM"
        probe = service["healthcheck"]["test"][-1]
        assert f"http://127.0.0.1:{HEALTH}/readyz" in probe
    assert len(services()) == len(folders)


@pytest.fixture(scope="module")
def pods(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """The folders of nodes that are named as pods are."""
    return make_nodes(tmp_path_factory.mktemp("pods"), "causalcast-%d.causalcast")


def test_the_set_of_kubernetes_names_the_nodes_that_are_made(pods: dict[int, Path]) -> None:
    service, made = manifests()["Service"], manifests()["StatefulSet"]
    spec = made["spec"]
    names = [f"{made['metadata']['name']}-{number}" for number in range(spec["replicas"])]
    hosts = [f"{name}.{spec['serviceName']}" for name in names]
    assert spec["serviceName"] == service["metadata"]["name"]
    for node, folder in pods.items():
        config = NodeConfig.read(folder / "node.toml")
        assert str(config.advertise) == f"{hosts[node - 1]}:{NODES}"
        for peer, address in config.peers.items():
            assert str(address) == f"{hosts[peer - 1]}:{NODES}"
        assert len(config.peers) == len(hosts) - 1
    # Names must be found before anybody is ready, and nobody waits for the one before.
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert spec["podManagementPolicy"] == "Parallel"
    assert spec["updateStrategy"]["type"] == "RollingUpdate"
    assert manifests()["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1
    # Labels find the pods.
    labels = spec["template"]["metadata"]["labels"]
    for selector in (
        service["spec"]["selector"],
        spec["selector"]["matchLabels"],
        manifests()["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
    ):
        assert selector == labels
    pod = spec["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > STOP_WITHIN
    (container,) = pod["containers"]
    (first,) = pod["initContainers"]
    assert first["image"] == container["image"]
    claims = {one["metadata"]["name"] for one in spec["volumeClaimTemplates"]}
    there = claims | {one["name"] for one in pod["volumes"]}
    for mount in (*first["volumeMounts"], *container["volumeMounts"]):
        assert mount["name"] in there
    assert {m["mountPath"]: m["name"] for m in container["volumeMounts"]}["/node"] in claims
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"nodes": NODES, "clients": CLIENTS, "health": HEALTH}
    for probe, path in (("startup", "healthz"), ("liveness", "healthz"), ("readiness", "readyz")):
        asked = container[f"{probe}Probe"]["httpGet"]
        assert (asked["path"], ports[asked["port"]]) == (f"/{path}", HEALTH)
    said = re.search(r"--uid (\d+)", (DEPLOY / "Containerfile").read_text())
    assert said is not None and int(said[1]) == UID
    context = pod["securityContext"]
    assert {context[key] for key in ("runAsUser", "runAsGroup", "fsGroup")} == {UID}


def here(toml: Path, ports: dict[tuple[str, int], int]) -> None:
    """Names and ports of containers become those of this machine."""
    text = toml.read_text()
    own = re.search(r'advertise = "([^:"]+):', text)
    assert own is not None
    for (name, port), free in ports.items():
        text = text.replace(f"{name}:{port}", f"127.0.0.1:{free}")
        if name == own[1]:
            text = text.replace(f"0.0.0.0:{port}", f"127.0.0.1:{free}")
    toml.write_text(text)


def is_ready(port: int) -> bool:
    with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz"):
        return True
    return False


@contextlib.contextmanager
def node_process(folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-m", "causalcast", "node", str(folder / "node.toml")]
    started = subprocess.Popen(
        command, cwd=folder, stderr=subprocess.PIPE, env=os.environ | {"PYTHONPATH": SOURCE}
    )
    try:
        yield started
        started.send_signal(signal.SIGTERM)
        _, said = started.communicate(timeout=30)
        assert started.returncode == 0 and b"stopped in good order" in said
    finally:
        started.kill()
        started.wait()


@pytest.mark.slow
def test_what_a_pod_is_given_is_a_node_that_becomes_ready(
    pods: dict[int, Path], tmp_path: Path
) -> None:
    """The init container's own command for each pod; then the nodes, with TLS, and probes."""
    secret = tmp_path / "secret"
    secret.mkdir()
    for number, folder in enumerate(pods.values()):
        tar = ["tar", "-C", str(folder), "-cf", str(secret / f"{number}.tar")]
        subprocess.run([*tar, "node.toml", "identity"], check=True)
    (first,) = manifests()["StatefulSet"]["spec"]["template"]["spec"]["initContainers"]
    names = [f"causalcast-{number}" for number in range(3)]
    free = iter(free_ports(9))
    ports = {
        (f"{name}.causalcast", port): next(free)
        for name in names
        for port in (NODES, CLIENTS, HEALTH)
    }
    with contextlib.ExitStack() as running:
        for name in names:
            pod = tmp_path / name
            pod.mkdir()
            script = first["args"][0].replace("/secret", str(secret)).replace("/node", str(pod))
            command = [*first["command"], script]
            subprocess.run(command, env=os.environ | {"HOSTNAME": name}, check=True)
            key = (pod / "identity" / "key.pem").stat()
            assert stat.S_IMODE(key.st_mode) == 0o600
            here(pod / "node.toml", ports)
            running.enter_context(node_process(pod))
        for name in names:
            soon(lambda: is_ready(ports[f"{name}.causalcast", HEALTH]), f"{name} is ready")  # noqa: B023
        for name in names:
            url = f"http://127.0.0.1:{ports[f'{name}.causalcast', HEALTH]}/metrics"

            def has_links(url: str = url) -> bool:
                with urllib.request.urlopen(url) as page:
                    return bool(
                        re.search(r"^causalcast_links(\{.*\})? 2$", page.read().decode(), re.M)
                    )

            soon(has_links, f"{name} finds the others")
            door = ports[f"{name}.causalcast", CLIENTS]
            with contextlib.suppress(ssl.SSLError):  # it is there, and speaks TLS
                ssl.get_server_certificate(("127.0.0.1", door), timeout=10)
