"""Simulated messages per CPU second, interpreted and compiled, beside the plain reference loop.

Each is run in turn, in a process of its own, for several rounds; the ratio of a round compares
what ran within the same minute, and the median of the ratios is what counts.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SOURCE = HERE.parent / "src"
COMPILED = HERE.parent / "build" / "compiled"
GOALS = {"interpreted": 1.0, "compiled": 4.0}


def measure(script: str, path: Path | None, seed: int) -> dict[str, float]:
    """Run one script and read the JSON it prints."""
    environment = dict(os.environ, OPENBLAS_NUM_THREADS="1")
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    command = [sys.executable, str(HERE / script), str(seed)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    routes: dict[str, tuple[str, Path | None]] = {
        "reference loop": ("reference_flood.py", None),
        "interpreted": ("simulated_flood.py", SOURCE),
    }
    if (COMPILED / "causalcast").is_dir():
        routes["compiled"] = ("simulated_flood.py", COMPILED)
    rates: dict[str, list[float]] = {name: [] for name in routes}
    ratios: dict[str, list[float]] = {name: [] for name in routes}
    for seed in range(1, options.rounds + 1):
        counts = set()
        for name, (script, path) in routes.items():
            result = measure(script, path, seed)
            counts.add((result["messages"] // 10_000, result["delivered"]))
            rates[name].append(result["messages"] / result["cpu_seconds"])
            ratios[name].append(rates[name][-1] / rates["reference loop"][-1])
            if not options.json:
                print(f"round {seed}  {name:15}  {rates[name][-1]:>10,.0f} messages per CPU second")
        assert len(counts) == 1, f"the routes did different work: {counts}"
    summary = {
        name: {
            "messages_per_cpu_second": round(statistics.median(rates[name])),
            "ratio": round(statistics.median(ratios[name]), 2),
            "lowest": round(min(ratios[name]), 2),
            "highest": round(max(ratios[name]), 2),
        }
        for name in routes
    }
    if options.json:
        print(json.dumps(summary, indent=2))
        return 0
    print("\nflood, 10,000 nodes of degree 5, 25 broadcasts; medians")
    for name, facts in summary.items():
        goal = f"   goal {GOALS[name]:.1f}x" if name in GOALS else ""
        spread = f"({facts['lowest']:.2f}..{facts['highest']:.2f})"
        rate = f"{facts['messages_per_cpu_second']:>10,} messages per CPU second"
        print(f"{name:15} {rate}   {facts['ratio']:.2f}x the loop {spread}{goal}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
