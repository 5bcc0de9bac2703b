"""A soak of real processes: durable messages while one neighbour is frozen, killed, and back.

Three nodes in a full mesh. Nodes 1 and 2 publish as fast as their publishers are let; node 3
listens. After 30 % of the messages node 3 is frozen (SIGSTOP), after 50 % it is killed, after 70 %
it is started again. The soak ends when every node has delivered everything, each origin in order.

Twice a second each node writes what it takes (memory, journal, trace, what it keeps for others) and
the longest that a publisher of it had to wait. The result is JSON and a figure.

    python benchmarks/soak.py --messages 1000000 --out soak
    python benchmarks/soak.py --figure-of soak/soak.json --svg docs/images/soak.svg
"""

import argparse
import asyncio
import contextlib
import json
import sys
import time
from pathlib import Path
from typing import Any

from causalcast import open as open_node
from causalcast.runtime.node import ReceivedMessage
from causalcast.runtime.operating.local_cluster import ClusterPlan, LocalCluster

PUBLISHERS = (1, 2)
VICTIM = 3
EVERY = 0.5  # seconds between samples
PHASES = [(0.3, "frozen"), (0.5, "killed"), (0.7, "back")]
LONG_GAP = 15.0  # seconds without a sample
PAGE = 4096
MEBIBYTE = 1 << 20


# One node


class SoakNode:
    """Publishes its share, counts what it delivers, and writes down what that takes."""

    def __init__(self, config: Path) -> None:
        self.folder = config.parent
        self.config = config
        self.plan = json.loads((config.parent.parent / "soak-plan.json").read_text())
        self.longest = 0.0
        self.began: dict[int, float] = {}  # when each publisher began to wait
        self.next: dict[int, int] = {}
        self.out_of_order = 0

    async def run(self) -> None:
        """Until stdin closes."""
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(sys.stdin, lambda: sys.stdin.read(1) or ended.set())
        async with open_node(self.config) as self.node:
            self.group = self.node.group("all")
            self.group.on_message(self.came)
            done = self.node.status()["published"].get("all", 0)
            share = self.plan["share"] if self.node.id in PUBLISHERS else 0
            self.left = max(0, share - done)
            works = [asyncio.create_task(self.publish(n)) for n in range(self.plan["publishers"])]
            works.append(asyncio.create_task(self.sample()))
            await ended.wait()
            for work in works:
                work.cancel()
            await asyncio.gather(*works, return_exceptions=True)

    def came(self, message: ReceivedMessage) -> None:
        """In order per origin; a message that came before the restart may come once more."""
        expected = self.next.get(message.origin)
        if expected is not None and message.number > expected:
            self.out_of_order += 1
        self.next[message.origin] = max(expected or 0, message.number + 1)

    async def publish(self, number: int) -> None:
        body = b"." * self.plan["body"]
        while self.left:
            self.left -= 1
            self.began[number] = time.monotonic()
            await self.group.publish(body)
            self.longest = max(self.longest, time.monotonic() - self.began.pop(number))

    async def sample(self) -> None:
        """A line for every moment; also of publishers that wait still."""
        with (self.folder / "samples.jsonl").open("a", buffering=1) as file:
            while True:
                late = asyncio.get_running_loop().time()
                await asyncio.sleep(EVERY)
                late = asyncio.get_running_loop().time() - late - EVERY
                now = time.monotonic()
                waits = [self.longest, *(now - began for began in self.began.values())]
                self.longest = 0.0
                status = self.node.status()
                sample = {
                    "at": time.time(),
                    "memory": resident_bytes(),
                    "journal": status["journal"]["bytes"],
                    "trace": status["trace"].get("bytes", 0),
                    "kept": status["kept_bytes"],
                    "published": status["published"].get("all", 0),
                    "delivered": status["delivered"].get("all", 0),
                    "pause": max(waits),
                    "loop_late": late,
                    "links": status["links"],
                    "out_of_order": self.out_of_order,
                }
                file.write(json.dumps(sample) + "\n")


def resident_bytes() -> int:
    """The memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


# All of them


def soak(options: argparse.Namespace) -> dict[str, Any]:
    """Run it; what was measured."""
    plan = ClusterPlan(nodes=3, overlay="full_mesh", protocol=options.protocol)
    plan.command = (sys.executable, str(Path(__file__).resolve()), "--node")
    cluster = LocalCluster(options.out / "cluster", plan)
    share = options.messages // len(PUBLISHERS)
    soak_plan = {"share": share, "publishers": options.publishers, "body": options.body}
    (cluster.folder / "soak-plan.json").write_text(json.dumps(soak_plan))
    began = time.time()
    marks: dict[str, float] = {}
    for node in cluster.ids:
        cluster.start(node)
    try:
        phases = list(PHASES)
        while True:
            time.sleep(EVERY)
            last = {node: last_sample(cluster, node) for node in cluster.ids}
            published = sum(last[node].get("published", 0) for node in PUBLISHERS)
            if phases and published >= phases[0][0] * options.messages:
                phase = phases.pop(0)[1]
                marks[phase] = time.time() - began
                if phase == "frozen":
                    cluster.pause(VICTIM)
                elif phase == "killed":
                    cluster.kill(VICTIM)
                else:
                    cluster.start(VICTIM)
                print(f"{marks[phase]:7.1f} s  {published} published, node {VICTIM} is {phase}")
            if time.time() - began > options.seconds:
                print("out of time")
                break
            if all(one.get("delivered", 0) >= share * len(PUBLISHERS) for one in last.values()):
                marks["everything delivered"] = time.time() - began
                break
    finally:
        for node in cluster.ids:
            with contextlib.suppress(Exception):
                cluster.stop(node)
    samples = {str(node): read_samples(cluster, node, began) for node in cluster.ids}
    facts = {"messages": options.messages, "body": options.body, "protocol": options.protocol}
    return {**facts, "publishers": options.publishers, "marks": marks, "samples": samples}


def last_sample(cluster: LocalCluster, node: int) -> dict[str, Any]:
    """What a node wrote last."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = (cluster.folder_of(node) / "samples.jsonl").read_text().splitlines()
        sample: dict[str, Any] = json.loads(lines[-1])
        return sample
    return {}


def read_samples(cluster: LocalCluster, node: int, began: float) -> list[dict[str, Any]]:
    """All that a node wrote, in seconds since the beginning."""
    samples = []
    for line in (cluster.folder_of(node) / "samples.jsonl").read_text().splitlines():
        with contextlib.suppress(ValueError):  # torn by the kill
            sample = json.loads(line)
            samples.append({**sample, "at": round(sample["at"] - began, 2)})
    return samples


def summary(result: dict[str, Any]) -> dict[str, Any]:
    """The figures that are told in words."""
    samples = result["samples"]
    both = [sample for node in PUBLISHERS for sample in samples[str(node)]]
    mebibytes = {
        name: round(max(sample[name] for sample in both) / MEBIBYTE, 1)
        for name in ("memory", "journal", "trace", "kept")
    }
    return {
        "seconds": round(max(sample["at"] for sample in both), 1),
        "longest pause of a publisher (s)": round(max(sample["pause"] for sample in both), 2),
        "most of nodes 1 and 2 (MiB)": mebibytes,
        "delivered": {node: some[-1]["delivered"] for node, some in samples.items() if some},
        "out of order": sum(some[-1]["out_of_order"] for some in samples.values() if some),
    }


def with_gaps(samples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same, with nothing to draw where a node stood still or was away."""
    nothing = float("nan")
    drawn: list[dict[str, Any]] = []
    for sample in samples:
        if drawn and sample["at"] - drawn[-1]["at"] > LONG_GAP:
            drawn.append(dict.fromkeys(sample, nothing) | {"at": sample["at"]})
        drawn.append(sample)
    return drawn


def draw(result: dict[str, Any], paths: list[Path]) -> None:
    """The figure: memory, disk and pauses over time."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(4, 1, figsize=(8, 9), sharex=True)
    titles = ["memory (MiB)", "journal and trace (MiB)", "longest wait of a publisher (s)"]
    for node, colour in zip(("1", "2", "3"), ("#1b6ca8", "#d1495b", "#8d8d8d"), strict=True):
        some = with_gaps(result["samples"][node])
        at = [sample["at"] for sample in some]
        axes[0].plot(at, [s["memory"] / MEBIBYTE for s in some], color=colour, label=f"node {node}")
        axes[1].plot(at, [s["journal"] / MEBIBYTE for s in some], color=colour)
        axes[1].plot(at, [s["trace"] / MEBIBYTE for s in some], color=colour, linestyle=":")
        if int(node) in PUBLISHERS:
            axes[2].plot(at, [s["pause"] for s in some], color=colour)
        axes[3].plot(at, [s["delivered"] / 1000 for s in some], color=colour)
    for axis, title in zip(axes, [*titles, "delivered (thousands)"], strict=True):
        axis.set_title(title, loc="left", fontsize=10)
        axis.grid(alpha=0.3)
        axis.set_ylim(bottom=0)
        for name, when in result["marks"].items():
            axis.axvline(when, color="black", linewidth=0.8, linestyle="--")
            if axis is axes[0]:
                side = "right" if " " in name else "left"
                axis.text(when, axis.get_ylim()[1], name, fontsize=8, va="bottom", ha=side)
    axes[0].legend(loc="lower right", fontsize=8)
    axes[0].set_title("memory (MiB)", loc="left", fontsize=10, pad=16)
    axes[1].plot([], [], color="black", label="journal")
    axes[1].plot([], [], color="black", linestyle=":", label="trace")
    axes[1].legend(loc="upper left", fontsize=8)
    axes[-1].set_xlabel("seconds")
    figure.tight_layout()
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--node", type=Path, help="be one node of a soak (used by itself)")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--publishers", type=int, default=64, help="per node that publishes")
    parser.add_argument("--body", type=int, default=100, help="bytes")
    parser.add_argument("--protocol", default="vector_clock_broadcast")
    parser.add_argument("--seconds", type=float, default=7200, help="give up after these")
    parser.add_argument("--out", type=Path, default=Path("soak"))
    parser.add_argument("--figure-of", type=Path, help="only draw what a soak measured")
    parser.add_argument("--svg", type=Path)
    options = parser.parse_args()
    if options.node is not None:
        asyncio.run(SoakNode(options.node).run())
        return
    if options.figure_of is not None:
        result = json.loads(options.figure_of.read_text())
    else:
        result = soak(options)
        (options.out / "soak.json").write_text(json.dumps(result))
    print(json.dumps(summary(result), indent=2))
    out = options.figure_of.parent if options.figure_of else options.out
    draw(result, [options.svg or out / "soak.svg", out / "soak.png"])


if __name__ == "__main__":
    main()
