"""An experiment from outside: start its machines, trigger it, see how far it is, end it."""

import contextlib
import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from causalcast.errors import ConfigError, NodeError
from causalcast.experiments.broadcaster import GROUP
from causalcast.experiments.plan import Plan, spread
from causalcast.experiments.site import Machine, read_site
from causalcast.runtime.operating.control_client import ControlClient
from causalcast.runtime.operating.local_cluster import ClusterPlan, LocalCluster

CONTACT: Final = 1  # the node that is told by `trigger`, and through which others join
READY_WITHIN: Final = 60.0  # seconds from the start until the first node answers; each adds
READY_PER_NODE: Final = 1.0
STOP_WITHIN: Final = 60.0

Told = Callable[[str], None]


@dataclass
class Progress:
    """What all nodes together have done so far."""

    answering: int  # of so many nodes
    nodes: int
    busy: int  # that still broadcast
    published: int
    delivered: int  # by all nodes
    complete: int  # nodes that have delivered everything published

    @property
    def is_over(self) -> bool:
        """Whether everybody has everything, and nobody has anything left to say."""
        return self.busy == 0 and self.complete == self.nodes and self.published > 0

    def __str__(self) -> str:
        return (
            f"{self.published} published, {self.delivered} deliveries; {self.complete} of "
            f"{self.nodes} nodes have everything, {self.busy} still broadcast"
        )


class Experiment:
    """The nodes in one folder, started here or by another process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plan = Plan.read(folder)

    @staticmethod
    def prepare(
        folder: Path,
        site: str,
        processes_per_machine: int,
        broadcasters: int,
        cluster: ClusterPlan,
    ) -> "Experiment":
        """Write a folder and a TOML for each node; nothing runs yet."""
        machines = read_site(site)
        count = len(machines) * processes_per_machine
        if processes_per_machine < 1:
            raise ConfigError(f"{processes_per_machine} processes per machine: expected 1 or more")
        nodes = list(range(1, count + 1))
        per_machine = {
            machine.name: nodes[place * processes_per_machine :][:processes_per_machine]
            for place, machine in enumerate(machines)
        }
        chosen = spread(nodes, broadcasters)
        addresses = [
            address for each in machines for address in each.addresses(processes_per_machine)
        ]
        cluster.nodes = count
        cluster.groups = {GROUP: nodes}
        cluster.addresses = dict(zip(nodes, addresses, strict=True))
        LocalCluster(folder, cluster)
        plan = Plan(
            site, processes_per_machine, chosen, cluster.protocol, cluster.overlay, per_machine
        )
        plan.write(folder)
        return Experiment(folder)

    def start(self) -> "Running":
        """Start every machine of the site."""
        return Running(self, read_site(self.plan.site))

    def wait_ready(self, tell: Told, is_running: Callable[[], bool] = lambda: True) -> None:
        """Wait until every node takes part: one that comes later would miss the trigger."""
        nodes = self.plan.nodes
        deadline = time.monotonic() + READY_WITHIN + READY_PER_NODE * len(nodes)
        missing = list(nodes)
        while missing := [node for node in missing if not self.takes_part(node)]:
            tell(f"{len(nodes) - len(missing)} of {len(nodes)} nodes are there")
            if time.monotonic() > deadline or not is_running():
                log = self.folder / f"node-{missing[0]}" / "node.log"
                raise NodeError(f"node {missing[0]} did not start; see {log}")
            time.sleep(0.1)

    def trigger(self, broadcasts: int, payload: int, interval_ms: float, at: int = CONTACT) -> None:
        """Tell one node to tell everybody: broadcast so often, so much, at this pace."""
        self.ask(at, "trigger", broadcasts=broadcasts, payload=payload, interval_ms=interval_ms)

    def progress(self) -> Progress:
        """Ask every node how far it is."""
        statuses, busy = [], 0
        for node in self.plan.nodes:
            with contextlib.suppress(NodeError), self._client(node) as client:
                busy += client.ask("progress")["busy"]
                statuses.append(client.ask("status"))
        published = sum(status["published"].get(GROUP, 0) for status in statuses)
        delivered = [status["delivered"].get(GROUP, 0) for status in statuses]
        return Progress(
            len(statuses),
            len(self.plan.nodes),
            busy,
            published,
            sum(delivered),
            sum(each == published for each in delivered),
        )

    def wait_until_over(self, patience: float, tell: Told) -> bool:
        """Wait until everybody has everything; False if nothing has moved for `patience` s."""
        before: Progress | None = None
        moved = time.monotonic()
        while True:
            now = self.progress()
            if now.is_over and now == before:  # twice the same: nothing was under way
                return True
            if now != before:
                moved = time.monotonic()
                tell(str(now))
            elif time.monotonic() > moved + patience:
                return False
            before = now
            time.sleep(0.3)

    def stop(self) -> None:
        """Ask every node to stop in good order, and wait until none answers."""
        deadline = time.monotonic() + STOP_WITHIN
        for node in self.plan.nodes:
            with contextlib.suppress(NodeError):
                self.ask(node, "stop")
        for node in self.plan.nodes:
            while self.answers(node):
                if time.monotonic() > deadline:
                    raise NodeError(f"node {node} does not stop")
                time.sleep(0.05)

    def answers(self, node: int) -> bool:
        """Whether a node runs."""
        with contextlib.suppress(NodeError):
            self.ask(node, "status")
            return True
        return False

    def takes_part(self, node: int) -> bool:
        """Whether a node runs, and has found its place."""
        with contextlib.suppress(NodeError):
            return bool(self.ask(node, "status")["takes_part"])
        return False

    def ask(self, node: int, do: str, **request: Any) -> dict[str, Any]:
        """One request to a node."""
        with self._client(node) as client:
            return client.ask(do, **request)

    def _client(self, node: int) -> ControlClient:
        return ControlClient(self.folder / f"node-{node}", node, timeout=30)


class Running:
    """The processes that run the machines of an experiment, one for each."""

    def __init__(self, experiment: Experiment, machines: list[Machine]) -> None:
        self._experiment = experiment
        self._processes = {machine.name: self._start(machine) for machine in machines}

    def _start(self, machine: Machine) -> "subprocess.Popen[bytes]":
        folder = self._experiment.folder.resolve()
        module = "causalcast.experiments.machine"
        environment = dict(os.environ)
        source = str(Path(__file__).parents[2])  # the package this process runs, installed or not
        path = [source, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
        environment["PYTHONPATH"] = os.pathsep.join(path)
        with (folder / f"machine-{machine.name}.log").open("ab") as output:
            return subprocess.Popen(
                machine.command([module, str(folder), machine.name]),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,  # Ctrl-C is for us; we stop them in good order
            )

    def wait_ready(self, tell: Told) -> None:
        """Wait until every node takes part."""
        self._experiment.wait_ready(tell, self.is_running)

    def is_running(self) -> bool:
        """Whether every machine still has nodes that run."""
        return all(process.poll() is None for process in self._processes.values())

    def wait(self) -> None:
        """Return when all nodes of all machines have ended."""
        for process in self._processes.values():
            process.wait()

    def close(self) -> None:
        """Let all nodes stop in good order: their input is closed."""
        for process in self._processes.values():
            assert process.stdin is not None
            process.stdin.close()
        for name, process in self._processes.items():
            try:
                process.wait(STOP_WITHIN)
            except subprocess.TimeoutExpired:
                process.kill()
                raise NodeError(f"the nodes of {name} do not stop") from None
