"""All figures that say how fast this is, in one table, beside those that were committed last.

`make bench`. Each figure comes from a benchmark beside this file, in CPU time: on a machine that
others use too, rates of the wall clock say how busy they were. `--keep` writes the figures to
`results/`, with the machine and the commit; what is committed there is what the next run is
compared with. What got worse by more than a tenth is marked, and then the exit code is 1.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results"
COMPILED = HERE.parent / "build" / "compiled"
WORSE = 0.1


@dataclass
class Figure:
    """One number, and which way is better."""

    name: str
    unit: str
    value: float
    more_is_better: bool = False

    def worse_than(self, before: float) -> float:
        """By which part of `before` this is worse; below 0 it is better."""
        change = (self.value - before) / before
        return -change if self.more_is_better else change


def flood(rounds: int) -> list[Figure]:
    """The simulator beside the plain loop."""
    found = _json_printed("run.py", "--rounds", str(rounds), "--json")
    return [
        Figure(f"flood on 10,000 nodes, {build}", "x the plain loop", facts["ratio"], True)
        for build, facts in found.items()
        if build != "reference loop"
    ]


def default_nodes(rounds: int) -> list[Figure]:
    """Nodes as `causalcast up` makes them, and with something left out."""
    found = _json_written("default_node.py", "--rounds", str(rounds))
    return [
        Figure(f"a node: {variant}, {build}", "CPU µs per delivery", _median(results, "cpu_us"))
        for variant, by_build in found.items()
        for build, results in by_build.items()
    ]


def durable(rounds: int) -> list[Figure]:
    """What a durable record costs with 256 publishers, beside a raw log."""
    found = _json_written(
        "runtime.py", "--only", "durable", "--publishers", "256", "--rounds", str(rounds)
    )
    (by_system,) = found.values()
    raw = by_system.pop("raw log")
    by_system.pop("JetStream", None)
    return [
        Figure(
            f"a durable record of 256 publishers, {name}",
            "x the CPU of a raw log",
            statistics.median(
                one["cpu_us"] / other["cpu_us"] for one, other in zip(results, raw, strict=True)
            ),
        )
        for name, results in by_system.items()
    ]


PARTS = {"flood": flood, "nodes": default_nodes, "durable": durable}


def _median(results: list[dict[str, float]], key: str) -> float:
    return statistics.median(result[key] for result in results)


def _json_printed(script: str, *arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(HERE / script), *arguments], stdout=subprocess.PIPE, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _json_written(script: str, *arguments: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rounds.json"
        command = [sys.executable, str(HERE / script), *arguments, "--json", str(path)]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        found: dict[str, Any] = json.loads(path.read_text())
    return found


def last_kept(folder: Path) -> dict[str, Any] | None:
    """What was kept last; names begin with the time."""
    kept = sorted(folder.glob("*.json"))
    if not kept:
        return None
    found: dict[str, Any] = json.loads(kept[-1].read_text())
    return found


def lines_of(figures: list[Figure], before: dict[str, Any] | None) -> tuple[list[str], bool]:
    """The table, and whether something got worse."""
    kept = {} if before is None else {one["name"]: one["value"] for one in before["figures"]}
    width = max(len(figure.name) for figure in figures)
    lines, is_worse = [], False
    for figure in figures:
        line = f"{figure.name:{width}}  {figure.value:>8.2f}"
        was = kept.get(figure.name)
        if was is not None:
            worse = figure.worse_than(was)
            line += f"  {was:>8.2f}  {'+' if worse < 0 else '-'}{abs(worse):>4.0%}"
            if worse > WORSE:
                line += "  WORSE"
                is_worse = True
        else:
            line += f"  {'':8}  {'':5}"
        lines.append(f"{line}  {figure.unit}")
    return lines, is_worse


def keep(figures: list[Figure], folder: Path) -> Path:
    """Write them down, with what they depend on."""
    now = datetime.now(UTC)
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], stdout=subprocess.PIPE, text=True, check=False
    ).stdout.strip()
    facts = {
        "at": now.isoformat(timespec="seconds"),
        "commit": commit,
        "compiled": (COMPILED / "causalcast").is_dir(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}",
        "python": platform.python_version(),
        "load": round(os.getloadavg()[2], 1),  # of the last quarter of an hour: who else was there
        "figures": [asdict(figure) for figure in figures],
    }
    folder.mkdir(exist_ok=True)
    path = folder / f"{now:%Y%m%dT%H%M%SZ}.json"
    path.write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n")
    return path


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--keep", action="store_true", help="write the figures to results/")
    options = parser.parse_args()
    before = last_kept(RESULTS)
    figures = [figure for part in options.only for figure in PARTS[part](options.rounds)]
    lines, is_worse = lines_of(figures, before)
    if before is not None:
        print(f"now, and on {before['at'][:10]} at {before['commit']} ({before['machine']}, ")
        print(f"Python {before['python']}, load {before['load']})\n")
    print("\n".join(lines))
    if options.keep:
        print(f"\nkept in {keep(figures, RESULTS)}")
    return 1 if is_worse else 0


if __name__ == "__main__":
    sys.exit(main())
