"""One timed run of `scenarios/flood_10k.toml` in the simulator. Prints one JSON object."""

import json
import sys
import time
from pathlib import Path

import pyarrow.compute as pc

from causalcast.core import outbox
from causalcast.simulator.scenario_run import ScenarioRun
from causalcast.simulator.scenarios.scenario import Scenario

SCENARIO = Path(__file__).parent.parent / "scenarios" / "flood_10k.toml"


def main() -> None:
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    level = sys.argv[2] if len(sys.argv) > 2 else "deliveries"
    started = time.process_time()
    running = ScenarioRun(Scenario.read(SCENARIO, seed=seed), level)
    built = time.process_time()
    running.run()
    seconds = time.process_time() - built
    facts = {
        "messages": running.simulation.shared.messages_handled,
        "delivered": running.result()
        .events.filter(pc.field("kind").cast("string") == "deliver")
        .num_rows,
        "cpu_seconds": seconds,
        "build_seconds": built - started,
        "compiled": not outbox.__file__.endswith(".py"),
    }
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
