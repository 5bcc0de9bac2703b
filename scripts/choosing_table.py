"""Measures the protocols and writes the table of docs/choosing.md.

    python scripts/choosing_table.py          simulate, measure, write the table
    python scripts/choosing_table.py --check  exit code 1 if the page has another table

Every protocol runs one workload on a tree of 16 nodes, or on a full mesh of as many if it needs
one. The rest of a row is what its SPEC says. The same seed gives the same table.
"""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "src"))

import causalcast  # noqa: E402
from causalcast.core.spec import ProtocolSpec  # noqa: E402
from causalcast.pipeline.report_runs import measure  # noqa: E402
from causalcast.registry import find_protocol, protocol_names  # noqa: E402

PAGE = ROOT / "docs" / "choosing.md"
BEGIN, END = "<!-- measured -->", "<!-- end -->"
WORKLOAD = """
protocol = "vector_clock_broadcast"
until_ms = 4000
seed = 7
[overlay]
kind = "{overlay}"
nodes = 16
[network]
latency_ms = {{kind = "uniform", low = 1, high = 20}}
[[publish]]
at_ms = 200
node = "random"
count = 200
interval_ms = 10
payload_bytes = 32
"""
LINKS = {"any": "any", "fifo": "in order, without loss", "reliable": "without loss"}


def main() -> int:
    """Write the table, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    text = PAGE.read_text()
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    made = f"{before}{BEGIN}\n{table()}\n{END}{after}"
    if options.check:
        return int(made != text)
    PAGE.write_text(made)
    return 0


def table() -> str:
    """All protocols, those that promise causal order first."""
    rows = [
        "| protocol | causal | bytes beside a body, mean (most) | latency ms | redundant copies "
        "| links may be | crashes | groups joined late | overlay |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    specs = [find_protocol(name) for name in protocol_names()]
    specs.sort(key=lambda spec: ("causal_order" not in spec.guarantees, spec.name))
    return "\n".join(rows + [row_of(spec) for spec in specs])


def row_of(spec: ProtocolSpec) -> str:
    """One protocol: measured, and as its SPEC says."""
    overlay = "full_mesh" if spec.needs.overlay == "mesh" else "tree"
    numbers = ["–"] * 3
    if spec.name != "causal_separators":  # it wants zones, which this workload has not
        run = causalcast.simulate(WORKLOAD.format(overlay=overlay), protocol=spec.name)
        assert causalcast.verify(run, promise="promised").is_fine, spec.name
        (found,) = measure(run)
        mean, most = found["metadata_mean_bytes"], found["metadata_max_bytes"]
        numbers = [f"{mean:.1f} ({most})"]
        numbers += [f"{found['latency_mean_ms']:.0f}", f"{found['redundancy']:.2f}"]
    crashes = "comes back with what it had" if spec.restart == "resume" else "comes back as new"
    cells = [f"`{spec.name}`", "yes" if "causal_order" in spec.guarantees else "no", *numbers]
    cells += [LINKS[spec.needs.links], crashes, "yes" if spec.late_members else "no"]
    return "| " + " | ".join([*cells, f"{spec.needs.overlay}, here `{overlay}`"]) + " |"


if __name__ == "__main__":
    sys.exit(main())
