"""Prints a hash of the trace of each scenario and seed it is given, one per line.

Run as a program of its own, so that the same lines can be compared between the interpreted and the
compiled package: `python trace_hashes.py PROTOCOL FIRST LAST [SCENARIO …]`.
"""

import hashlib
import sys
from pathlib import Path

import pyarrow as pa

from causalcast.core import outbox
from causalcast.simulator.runner import simulate
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.campaign import Plan, try_seed
from causalcast.trace.run_folder import Run


def trace_hash(run: Run) -> str:
    """A hash of everything a run folder would hold."""
    digest = hashlib.blake2b(run.header.to_json().encode(), digest_size=12)
    for table in (run.nodes, run.groups, run.members, run.events):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table.combine_chunks())
        digest.update(sink.getvalue())
    return digest.hexdigest()


def main() -> None:
    protocol, first, last, *files = sys.argv[1:]
    print("interpreted" if outbox.__file__.endswith(".py") else "compiled")
    for seed in range(int(first), int(last)):
        for by in ("random", "adversary"):
            trial = try_seed(Plan(protocol, by=by), seed, "full")
            assert trial.run is not None
            print(seed, by, trace_hash(trial.run))
    for file in files:
        print(file, trace_hash(simulate(Scenario.read(Path(file)), "full")))


if __name__ == "__main__":
    main()
