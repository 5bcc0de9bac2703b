"""How long `causalcast watch` takes from the appearance of a file to the violation in it.

Fifty nodes deliver a file's worth of messages each second; once a second one node delivers two of
them in the wrong order. The first seconds warm up and are not counted.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from threading import Thread

import pyarrow as pa

from causalcast.testing.draft_run import DraftRun, message_id
from causalcast.trace.run_folder import write_events, write_run
from causalcast.trace.schema import EVENTS, KIND_CODE, KINDS
from causalcast.version import VERSION, build_kind

NODES = 50
PER_SECOND = 20  # publications
WARM_UP = 3


def rows(node: int, first_pos: int, entries: list[tuple[str, int]]) -> pa.Table:
    """Rows of one node as a table of a trace."""
    kinds = pa.array([KIND_CODE[kind] for kind, _ in entries], pa.int32())
    columns = {
        "node": [node] * len(entries),
        "pos": list(range(first_pos, first_pos + len(entries))),
        "at_us": [time.time_ns() // 1000] * len(entries),
        "message": [message for _, message in entries],
        "group": [0] * len(entries),
    }
    arrays = [pa.array(columns.get(f.name, [None] * len(entries)), f.type) for f in EVENTS]
    arrays[EVENTS.names.index("kind")] = pa.DictionaryArray.from_arrays(kinds, pa.array(KINDS))
    return pa.Table.from_arrays(arrays, schema=EVENTS)


class Cluster:
    """Writes one file a second; `appeared` says when the file with each inversion did."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.positions = dict.fromkeys(range(NODES), 0)
        self.published = 0
        self.appeared: dict[int, float] = {}
        draft = DraftRun()
        draft.found(0, *range(NODES))
        write_run(folder, draft.run())

    def second(self, number: int) -> None:
        numbers = list(range(self.published + 1, self.published + PER_SECOND + 1))
        self.published += PER_SECOND
        tables = []
        for node in range(NODES):
            order = numbers if node != 1 else [numbers[1], numbers[0], *numbers[2:]]
            entries = [("deliver", message_id(0, n)) for n in order]
            if node == 0:
                kinds = ("publish", "deliver")
                entries = [(kind, message_id(0, n)) for n in numbers for kind in kinds]
            tables.append(rows(node, self.positions[node], entries))
            self.positions[node] += len(entries)
        name = f"part-{number:05d}.parquet"
        write_events(self.folder / "events" / f".{name}", pa.concat_tables(tables))
        (self.folder / "events" / f".{name}").rename(self.folder / "events" / name)
        self.appeared[message_id(0, numbers[0])] = time.time()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--state-store", action="store_true", help="state in Spark's state store")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    print(f"causalcast {VERSION} ({build_kind()})", file=sys.stderr)
    seen: dict[int, float] = {}
    beats: list[str] = []
    with tempfile.TemporaryDirectory() as kept:
        cluster = Cluster(Path(kept) / "run")
        cluster.second(1)
        command = [sys.executable, "-m", "causalcast", "watch", str(cluster.folder), "--json"]
        if options.state_store:
            program = Path(__file__).with_name("watch_state_store.py")
            command = [sys.executable, str(program), str(cluster.folder)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ, text=True)

        def read() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                told = json.loads(line)
                if told.get("violation") == "causal_order":
                    seen.setdefault(told["cause"], told["at"])
                elif "rows" in told:
                    beats.append(line)

        reader = Thread(target=read, daemon=True)
        reader.start()
        while not seen and process.poll() is None:
            time.sleep(0.1)
        for number in range(2, options.seconds + WARM_UP + 2):
            cluster.second(number)
            time.sleep(1)
        time.sleep(5)
        process.terminate()
        process.wait()
        reader.join()
    causes = list(cluster.appeared)[1 + WARM_UP :]
    missed = [cause for cause in causes if cause not in seen]
    delays = [seen[cause] - cluster.appeared[cause] for cause in causes if cause in seen]
    facts = {
        "violations": len(causes),
        "missed": len(missed),
        "median_seconds": round(statistics.median(delays), 2),
        "lowest": round(min(delays), 2),
        "highest": round(max(delays), 2),
    }
    if options.json:
        print(json.dumps(facts, indent=2))
    else:
        print(
            f"{facts['violations']} violations, {facts['missed']} missed; from file to alarm"
            f" {facts['lowest']:.2f}..{facts['highest']:.2f} s,"
            f" median {facts['median_seconds']:.2f} s (goal 2 s)"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
