"""Algorithm 16 as printed on the largest run it can take in a minute, beside the check.

Its loops are compiled like ours. The run has 200 nodes in one group and doubles its publications
until the published checker needs more than a minute; then both are compared on the last size.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from large_runs import write_large_run

from causalcast.pipeline.check.check_run import check_folder
from causalcast.testing.algorithm_16 import deliveries_of, says_in_order
from causalcast.trace.run_folder import read_run
from causalcast.version import VERSION, build_kind

NODES = 200


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    print(f"causalcast {VERSION} ({build_kind()})", file=sys.stderr)
    publications = 200
    while True:
        with tempfile.TemporaryDirectory() as kept:
            folder = Path(kept) / "run"
            write_large_run(folder, NODES, publications)
            logs = deliveries_of(read_run(folder))
            started = time.perf_counter()
            assert says_in_order(logs)
            theirs = time.perf_counter() - started
            check_folder(folder)  # compiles what is not compiled yet
            started = time.perf_counter()
            assert not check_folder(folder).findings
            ours = time.perf_counter() - started
        facts = {
            "deliveries": NODES * publications,
            "algorithm_16_seconds": round(theirs, 3),
            "check_seconds": round(ours, 3),
            "ratio": round(theirs / ours),
        }
        if not options.json:
            print(
                f"{facts['deliveries']:>9,} deliveries   Algorithm 16 {theirs:8.2f} s"
                f"   check {ours:6.3f} s   {facts['ratio']:>6,}x",
                flush=True,
            )
        if theirs * 4 > options.seconds:  # it grows with the square
            break
        publications *= 2
    if options.json:
        print(json.dumps(facts, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
