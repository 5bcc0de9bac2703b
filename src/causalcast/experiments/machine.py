"""One machine of an experiment: all its nodes, each a process.

    python -m causalcast.experiments.machine FOLDER NAME

The processes are forked from one that has loaded everything: a hundred of them start in seconds
and share the memory of what they loaded. They end when this one ends or its input is closed.
"""

import gc
import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Final

from causalcast.errors import CausalcastError
from causalcast.experiments.broadcaster import run_broadcaster
from causalcast.experiments.experiment import Experiment
from causalcast.experiments.plan import Plan
from causalcast.registry import find_protocol
from causalcast.runtime.observing.node_logging import set_up_logging

# A contact takes in one newcomer after the other, and those who wait for it ask again and again:
# so many may look for their place at a time.
NEWCOMERS: Final = 12
PATIENCE: Final = 10.0  # seconds; then others get their chance


class TheirInput:
    """The end of a pipe that is the standard input of all nodes: closing it stops them."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def close(self, *_: object) -> None:
        """Close it, once."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def close_with_ours(self) -> None:
        """Close it when our own input is closed: whoever started us has gone."""
        while os.read(0, 4096):
            pass
        self.close()


def run_machine(folder: Path, name: str) -> int:
    """Run all nodes of a machine until they have ended; how many of them failed."""
    plan = Plan.read(folder)
    find_protocol(plan.protocol)  # loaded once, before the forks
    gc.freeze()  # what was loaded stays where it is, in pages that all share
    for_them, ours = os.pipe()
    newcomers: list[int] = []
    for node in plan.nodes_on(name):
        newcomers = _fewer(newcomers, Experiment(folder))
        if os.fork() == 0:
            os.dup2(for_them, 0)
            os.close(ours)
            os._exit(_be_node(plan, folder, node))
        newcomers.append(node)
    os.close(for_them)
    their_input = TheirInput(ours)
    signal.signal(signal.SIGTERM, their_input.close)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever started us
    threading.Thread(target=their_input.close_with_ours, daemon=True).start()  # no forks after it
    return sum(os.wait()[1] != 0 for _ in plan.nodes_on(name))


def _fewer(newcomers: list[int], experiment: Experiment) -> list[int]:
    """Wait until there is room for one more; those that still look for their place."""
    begun = time.monotonic()
    while len(newcomers) >= NEWCOMERS and time.monotonic() < begun + PATIENCE:
        time.sleep(0.02)
        newcomers = [node for node in newcomers if not experiment.takes_part(node)]
    return newcomers[1 - NEWCOMERS :]


def _be_node(plan: Plan, folder: Path, node: int) -> int:
    """In the child: the process of a node, with a log of its own; its exit code."""
    place = folder / f"node-{node}"
    with (place / "node.log").open("ab") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    set_up_logging()
    try:
        run_broadcaster(place / "node.toml", node in plan.broadcasters)
    except CausalcastError as error:
        print(f"causalcast: {error}", file=sys.stderr, flush=True)
        return 1
    except BaseException:  # the child must end here, whatever happened, and not become a parent
        logging.getLogger(__name__).exception("node %s stops", node)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(1 if run_machine(Path(sys.argv[1]), sys.argv[2]) else 0)
