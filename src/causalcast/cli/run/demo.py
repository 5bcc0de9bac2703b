"""`causalcast demo`: a real cluster, killed and restarted under load, and its trace judged.

Five processes on loopback, three overlapping groups, everybody publishes and answers what others
published, also across groups. Two nodes are killed in the middle of it and come back. Then the
trace of all nodes is gathered and verified.
"""

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from causalcast.cli.shared.extras import missing
from causalcast.errors import NodeError
from causalcast.runtime.operating.local_cluster import ClusterPlan, LocalCluster
from causalcast.trace.gather import gather

GROUPS: Final = {"orders": [1, 2, 3, 4], "billing": [2, 3, 4, 5], "alerts": [1, 3, 5]}
CAUGHT_UP_WITHIN: Final = 60.0  # seconds; it takes a few


def add_to(subparsers: Any) -> None:
    """Declare the command."""
    demo = subparsers.add_parser("demo")
    demo.add_argument("--out", type=Path, help="a new folder (default: a temporary one)")
    demo.add_argument("--seconds", type=float, default=8.0, help="how long traffic flows")
    demo.add_argument("--no-verify", action="store_true", help="stop when the run is gathered")
    demo.set_defaults(run=run_demo)


def run_demo(options: argparse.Namespace) -> int:
    """Play the whole story."""
    out = options.out or Path(tempfile.mkdtemp(prefix="causalcast-demo-"))
    console = Console(highlight=False, soft_wrap=True)
    run = play(out, options.seconds, console)
    if options.no_verify:
        console.print(f"the run: {run}")
        return 0
    return verify_and_report(run, out / "report.html", console)


def play(out: Path, seconds: float, console: Console) -> Path:
    """Run the cluster with its crashes, and gather the trace; the folder of the run."""
    plan = ClusterPlan(
        nodes=5,
        protocol="vector_clock_broadcast",
        overlay="ring",
        groups=GROUPS,
        name="demo",
        command=(sys.executable, "-m", "causalcast.cli.run.demo_node"),
    )
    cluster = LocalCluster(out / "nodes", plan)
    story = Story(cluster, console)
    try:
        story.begin()
        time.sleep(seconds * 0.25)
        first = story.kill(3)
        time.sleep(seconds * 0.2)
        second = story.kill(5)
        time.sleep(seconds * 0.15)
        story.restart(first)
        time.sleep(seconds * 0.15)
        story.restart(second)
        time.sleep(seconds * 0.25)
        story.end()
    finally:
        stubborn = cluster.stop_all()
    if stubborn:
        raise NodeError(f"nodes {stubborn} did not stop when asked to")
    run = gather([out / "nodes"], out / "run")
    console.print(
        f"stopped all nodes in good order; gathered [bold]{run.events.num_rows}[/] events "
        f"of {run.nodes.num_rows} nodes, {run.header.faults.get('crash', 0)} crashes among them"
    )
    return out / "run"


@dataclass
class Killed:
    """A node that was killed, and what it had delivered by then."""

    node: int
    delivered: int
    at: float


class Story:
    """What happens to the cluster, told while it happens."""

    def __init__(self, cluster: LocalCluster, console: Console) -> None:
        self._cluster = cluster
        self._console = console
        self._begun = time.monotonic()

    def begin(self) -> None:
        """Start everybody; they publish as soon as they run."""
        with self._console.status("starting 5 nodes"):
            self._cluster.start_all()
        self._begun = time.monotonic()
        groups = ", ".join(f"[bold]{name}[/] {members}" for name, members in GROUPS.items())
        self._tell(f"5 nodes are up on a ring; groups {groups}")
        self._tell("everybody publishes, and answers what the others publish")

    def kill(self, node: int) -> Killed:
        """SIGKILL while messages flow."""
        killed = Killed(node, self._delivered(node), time.monotonic())
        self._cluster.kill(node)
        self._tell(
            f"[red]node {node} killed[/] (SIGKILL) after {killed.delivered} deliveries; "
            f"the others go on"
        )
        return killed

    def restart(self, killed: Killed) -> None:
        """Start it again on the storage it left, and watch it catch up."""
        node = killed.node
        others_have = self._delivered_by_others(node)
        self._cluster.start(node)
        self._cluster.wait_ready(node)
        away = time.monotonic() - killed.at
        self._tell(f"[green]node {node} is back[/] after {away:.1f} s")
        missed = others_have - killed.delivered
        began = time.monotonic()
        while self._delivered(node) < others_have:
            if time.monotonic() > began + CAUGHT_UP_WITHIN:
                raise NodeError(f"node {node} does not catch up")
            time.sleep(0.01)
        self._tell(f"node {node} has caught up the {missed} messages it missed, and goes on")

    def end(self) -> None:
        """End the traffic and wait until everybody has everything."""
        for node in self._cluster.ids:
            self._cluster.ask(node, "be_quiet")
        with self._console.status("waiting until everybody has everything"):
            published = self._wait_until_equal()
        total = sum(published.values())
        counts = ", ".join(f"{n} in {name}" for name, n in published.items())
        self._tell(f"everybody has everything: [bold]{total}[/] messages, {counts}")

    def _wait_until_equal(self) -> dict[str, int]:
        """Return how much was published per group, when every member has delivered as much."""
        deadline = time.monotonic() + CAUGHT_UP_WITHIN
        before: dict[str, int] | None = None
        while time.monotonic() < deadline:
            statuses = [self._cluster.ask(node, "status") for node in self._cluster.ids]
            published = {
                name: sum(status["published"].get(name, 0) for status in statuses)
                for name in GROUPS
            }
            equal = all(
                status["delivered"].get(name, 0) == published[name]
                for status in statuses
                for name in status["groups"]
            )
            # Twice the same: no answer to a late message is under way any more.
            if equal and published == before:
                return published
            before = published
            time.sleep(0.2)
        raise NodeError(f"after {CAUGHT_UP_WITHIN:.0f} s somebody still lacks messages")

    def _delivered(self, node: int) -> int:
        delivered: dict[str, int] = self._cluster.ask(node, "status")["delivered"]
        return sum(delivered.values())

    def _delivered_by_others(self, node: int) -> int:
        """How much other members of the node's groups delivered, so what it should deliver."""
        total = 0
        for name, members in GROUPS.items():
            if node in members:
                others = [m for m in members if m != node and self._cluster.is_running(m)]
                statuses = [self._cluster.ask(other, "status") for other in others]
                total += max(status["delivered"].get(name, 0) for status in statuses)
        return total

    def _tell(self, text: str) -> None:
        self._console.print(f"[dim]{time.monotonic() - self._begun:5.1f} s[/]  {text}")


def verify_and_report(run: Path, report: Path, console: Console) -> int:
    """Judge the run with the pipeline and write the report; the exit code of the verdict."""
    from causalcast.cli.main import main

    where = ["--local"] if missing("spark") else []
    console.print("verifying the trace " + ("in this process" if where else "with Spark"))
    code = main(["verify", str(run), *where])
    report_code = main(["report", str(run), "--out", str(report), *where])
    if code or report_code:
        console.print(f"[bold red]something is wrong with this run[/]; it is kept in {run}")
    else:
        console.print(f"[bold green]every promise was kept[/]; the report: {report}")
    return code or report_code
