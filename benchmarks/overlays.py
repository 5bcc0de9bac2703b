"""Broadcast on an overlay that HyParView built: redundancy, latency, messages, CPU and memory.

The overlay is built once per size, saved, and counted apart. Each point is a run of its own
process: 100 broadcasts, one every 100 ms, each pair of nodes with a latency of its own from 5 to 50
ms. Redundancy is payloads beyond the first per delivery; it and the latency are counted after the
first 20 broadcasts, when trees have been learnt. Beside the CPU time stands how many messages per
second that is, against the plain reference loop of the same minute.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
COMPILED = HERE.parent / "build" / "compiled"
SOURCE = HERE.parent / "src"
LEARNING = 20
POINTS: dict[str, tuple[str, str, dict[str, str]]] = {
    "prc_broadcast, anybody": ("prc_broadcast", "anybody", {}),
    "plumtree, one": ("plumtree", "one", {}),
    "cptcast tree shared, one": ("cptcast", "one", {"tree": "shared"}),
    "cptcast, one": ("cptcast", "one", {}),
    "plumtree, anybody": ("plumtree", "anybody", {}),
    "cptcast queue (the thesis), anybody": ("cptcast", "anybody", {"order": "queue"}),
    "cptcast tree shared, anybody": ("cptcast", "anybody", {"tree": "shared"}),
    "cptcast, anybody": ("cptcast", "anybody", {}),
    "cptcast, ten in turn": ("cptcast", "ten", {}),
    "cptcast tree source, ten in turn": ("cptcast", "ten", {"tree": "source"}),
}


def scenario(
    protocol: str, senders: str, options: dict[str, str], overlay: str, broadcasts: int
) -> str:
    """The TOML of one point."""
    node = {"one": "3", "anybody": '"random"', "ten": "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"}[senders]
    count = broadcasts // 10 if senders == "ten" else broadcasts
    # Ten in turn: each one second apart, a tenth of it after the one before.
    publish = f'[[publish]]\nnode = {node}\ncount = {count}\ninterval_ms = 100\ngroup = "all"\n'
    if senders == "ten":
        publish = "".join(
            f"[[publish]]\nat_ms = {100 * sender}\nnode = {sender}\ncount = {count}\n"
            'interval_ms = 1000\ngroup = "all"\n'
            for sender in range(10)
        )
    settings = "".join(f'{key} = "{value}"\n' for key, value in options.items())
    return (
        f'protocol = "{protocol}"\nuntil_ms = {100 * broadcasts}\nseed = 1\n'
        f"[options]\n{settings}\n[overlay]\n{overlay}\n"
        '[network]\nlatency_ms = { kind = "per_link", low = 5, high = 50 }\n'
        'exchange = "shared"\ntick_us = 100\n'
        f'[groups]\nall = "*"\n{publish}\n[calm]\nms = 5000\n'
    )


def build_overlay(nodes: int, active_view: int, path: Path) -> dict[str, float]:
    """Let nodes join one after the other, let it settle, save the links."""
    from causalcast.simulator.scenario_run import ScenarioRun
    from causalcast.simulator.scenarios.saved_graph import save_graph
    from causalcast.simulator.scenarios.scenario import Scenario

    overlay = (
        f'kind = "hyparview"\nnodes = {nodes}\nactive_view = {active_view}\n'
        "join_every_ms = 20\nsettle_ms = 30000\n"
    )
    text = scenario("prc_broadcast", "one", {}, overlay, 1)
    begun = time.process_time()
    running = ScenarioRun(Scenario(text, "overlay"), "deliveries")
    running.run()
    links = save_graph(running.simulation, path)
    return {"links": links, "cpu_seconds": time.process_time() - begun}


def run_point(name: str, overlay: Path, broadcasts: int) -> dict[str, float]:
    """One run and its figures."""
    import numpy as np
    import pyarrow.compute as pc

    from causalcast.core import outbox
    from causalcast.simulator.scenario_run import ScenarioRun
    from causalcast.simulator.scenarios.scenario import Scenario
    from causalcast.simulator.worlds.shared_state import DUPLICATE

    protocol, senders, options = POINTS[name]
    text = scenario(protocol, senders, options, f'from = "{overlay}"', broadcasts)
    begun = time.process_time()
    running = ScenarioRun(Scenario(text, "point"), "deliveries")
    running.recorder.wants[DUPLICATE] = True
    running.simulation.out.tells_duplicates = True
    built = time.process_time()
    running.run()
    seconds = time.process_time() - built
    world = running.simulation
    events = running.result().events
    kinds = events["kind"].cast("string")
    published = events.filter(pc.equal(kinds, "publish"))
    delivered = events.filter(pc.equal(kinds, "deliver"))
    at = dict(zip(published["message"].to_pylist(), published["at_us"].to_pylist(), strict=True))
    first = sorted(at.values())[min(LEARNING, len(at) - 1)]
    messages = delivered["message"].to_numpy()
    born = np.array([at[message] for message in messages.tolist()])
    origin = messages >> 32
    counted = (born >= first) & (delivered["node"].to_numpy() != origin)
    latency = (delivered["at_us"].to_numpy() - born)[counted] / 1000
    nodes = len(world.nodes)
    again = events.filter(pc.equal(kinds, "duplicate"))["message"].to_pylist()
    doubled = sum(at[message] >= first for message in again)
    return {
        "redundancy": doubled / int(counted.sum()),
        "reliability": delivered.num_rows / (nodes * len(at)),
        "mean_ms": float(latency.mean()),
        "p99_ms": float(np.percentile(latency, 99)),
        "messages": world.shared.messages_handled,
        "per_node_and_broadcast": world.shared.messages_handled / (nodes * len(at)),
        "cpu_seconds": seconds,
        "build_seconds": built - begun,
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
        "compiled": not outbox.__file__.endswith(".py"),
    }


def in_a_process(path: Path, *arguments: str) -> dict[str, float]:
    """Run this file once more, and read the JSON it prints."""
    environment = dict(os.environ, PYTHONPATH=str(path), OPENBLAS_NUM_THREADS="1")
    command = [sys.executable, str(HERE / "overlays.py"), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def loop_rate() -> float:
    """Messages per CPU second of the reference loop."""
    command = [sys.executable, str(HERE / "reference_flood.py"), "1"]
    facts = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    rate: float = facts["messages"] / facts["cpu_seconds"]
    return rate


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--active-view", type=int, default=4, help="5 for ten thousand nodes")
    parser.add_argument("--broadcasts", type=int, default=100)
    parser.add_argument("--only", default="", help="points whose name contains this text")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--point", nargs=2, metavar=("NAME", "OVERLAY"), help=argparse.SUPPRESS)
    parser.add_argument("--build", metavar="OVERLAY", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.point:
        name, overlay = options.point
        print(json.dumps(run_point(name, Path(overlay), options.broadcasts)))
        return 0
    if options.build:
        print(json.dumps(build_overlay(options.nodes, options.active_view, Path(options.build))))
        return 0
    path = COMPILED if (COMPILED / "causalcast").is_dir() else SOURCE
    sizes = ["--nodes", str(options.nodes), "--active-view", str(options.active_view)]
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        overlay = str(Path(folder) / "overlay.parquet")
        built = in_a_process(path, *sizes, "--build", overlay)
        if not options.json:
            print(
                f"{options.nodes:,} nodes, {built['links']:,} links, "
                f"built in {built['cpu_seconds']:.0f} CPU seconds, "
                f"{'compiled' if path == COMPILED else 'interpreted'}"
            )
            print(f"{'':36} redundancy  mean ms  p99 ms  msgs  reliab.  CPU s  GB  x loop")
        for name in (point for point in POINTS if options.only in point):
            rate = loop_rate()
            count = ["--broadcasts", str(options.broadcasts)]
            facts = in_a_process(path, *count, "--point", name, overlay)
            facts["x_loop"] = facts["messages"] / facts["cpu_seconds"] / rate
            results[name] = facts
            if not options.json:
                print(
                    f"{name:36} {facts['redundancy']:10.3f} {facts['mean_ms']:8.0f} "
                    f"{facts['p99_ms']:7.0f} {facts['per_node_and_broadcast']:5.1f} "
                    f"{facts['reliability']:8.4f} {facts['cpu_seconds']:6.1f} "
                    f"{facts['peak_gb']:3.1f} {facts['x_loop']:7.2f}",
                    flush=True,
                )
    if options.json:
        print(json.dumps({"overlay": built, "points": results}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
