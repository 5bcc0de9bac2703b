"""What a message costs a node as `causalcast up` makes it, and what each part of that costs.

A ring of five with TLS, a journal and a trace, each node a process of its own: node 1 publishes
with 64 tasks, each of which waits until its message is durable; all take and acknowledge
everything. The variants leave one thing out, or all.

The figure is CPU time of all five processes per delivery at the four others: on a shared machine
rates of the wall clock say how busy the neighbours were. Builds and variants run in turn, and the
medians of the rounds count. `--build before=PATH` puts another build beside this one.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PEERS = HERE / "runtime_peers"
COMPILED = HERE.parent / "build" / "compiled"
SOURCE = HERE.parent / "src"
NODES = 5
GOAL_US = 15.0
IN_MEMORY = ('[storage]\npath = "data"\n', '[storage]\npath = "data"\ndurable = false\n')
# By name: the plan of the cluster, and what is written otherwise into the TOML of its nodes.
VARIANTS: dict[str, tuple[dict[str, Any], list[tuple[str, str]]]] = {
    "default": ({}, []),
    "trace of deliveries": ({"trace_level": "deliveries"}, []),
    "no trace": ({"trace_level": "none"}, []),
    "no journal": ({}, [IN_MEMORY]),
    "no TLS": ({"tls": False}, []),
    "no trace, no journal": ({"trace_level": "none"}, [IN_MEMORY]),
    "nothing of it": ({"trace_level": "none", "tls": False}, [IN_MEMORY]),
}


def run(variant: str, path: Path, work: dict[str, Any]) -> dict[str, float]:
    """One run of one variant of one build."""
    plan, changes = VARIANTS[variant]
    environment = dict(os.environ, PYTHONPATH=str(path))
    # On the disk of the checkout: a folder for temporary files may be in memory.
    with tempfile.TemporaryDirectory(dir=HERE.parent) as folder:
        cluster = Path(folder) / "cluster"
        wanted = {
            "folder": str(cluster),
            "plan": {"nodes": NODES, **plan},
            "changes": changes,
            "work": work,
        }
        subprocess.run(
            [sys.executable, str(PEERS / "default_cluster.py"), json.dumps(wanted)],
            env=environment,
            check=True,
        )
        member = str(PEERS / "default_member.py")
        processes = [
            subprocess.Popen(
                [*work["under"], sys.executable, member, str(cluster / f"node-{node}/node.toml")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
                text=True,
            )
            for node in range(1, NODES + 1)
        ]
        try:
            for word in ("ready", "received"):
                for process in processes:
                    said = process.stdout.readline().strip()
                    if said != word:
                        raise SystemExit(f"{variant}: a member said {said!r}, not {word!r}")
                for process in processes:
                    process.stdin.write("go\n")
                    process.stdin.flush()
            results = [json.loads(process.stdout.readline()) for process in processes]
            for process in processes:
                process.stdin.close()
            for process in processes:
                process.wait(60)
        finally:
            for process in processes:
                process.kill()
                process.wait()
    deliveries = work["publications"] * (NODES - 1)
    seconds = max(r["ended"] for r in results) - min(r["started"] for r in results)
    return {
        "cpu_us": sum(r["cpu_seconds"] for r in results) / deliveries * 1e6,
        "publisher_us": results[0]["cpu_seconds"] / work["publications"] * 1e6,
        "rate": deliveries / seconds,
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--publications", type=int, default=10_000)
    parser.add_argument("--size", type=int, default=32, help="bytes of a body")
    parser.add_argument("--tasks", type=int, default=64, help="that publish")
    parser.add_argument("--batch", type=int, default=1, help="messages taken together")
    parser.add_argument("--variants", nargs="*", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--build", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument(
        "--rates", action="store_true", help="of the wall clock, on a quiet machine"
    )
    parser.add_argument("--under", nargs="*", default=[], help="a command that runs each node")
    parser.add_argument("--json", type=Path, help="write all rounds to this file")
    options = parser.parse_args()
    builds = {} if options.build else {"interpreted": SOURCE}
    if (COMPILED / "causalcast").is_dir():
        builds = {"compiled": COMPILED}
    for given in options.build:
        name, _, path = given.partition("=")
        builds[name] = Path(path)
    work = {
        "publisher": 1,
        "publications": options.publications,
        "size": options.size,
        "tasks": options.tasks,
        "batch": options.batch,
        "under": options.under,
    }
    found: dict[str, dict[str, list[dict[str, float]]]] = {}
    for round_ in range(1, options.rounds + 1):
        for variant in options.variants:
            for build, path in builds.items():
                result = run(variant, path, work)
                found.setdefault(variant, {}).setdefault(build, []).append(result)
                rate = f"   {result['rate']:>9,.0f}/s" if options.rates else ""
                print(
                    f"round {round_}  {variant:21}  {build:12}  {result['cpu_us']:>7.1f} µs"
                    f"   (publisher: {result['publisher_us']:.1f} per publication){rate}",
                    flush=True,
                )
    print(f"\nCPU µs per delivery, median (lowest..highest); the goal is {GOAL_US:.0f}")
    for variant, by_build in found.items():
        for build, rounds in by_build.items():
            costs = [result["cpu_us"] for result in rounds]
            print(
                f"{variant:21}  {build:12}  {statistics.median(costs):>7.1f}"
                f"  ({min(costs):.1f}..{max(costs):.1f})"
            )
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
