"""Plays many random schedules of the point-to-point layer.

    python tests/simulation/point_to_point/search.py --seeds 0..10000

Every seed is one schedule of `lossy_world`. A fault that never fired, or a branch of the layer that
never ran, fails the search: it would have shown nothing.
"""

import argparse
import sys
import time
from collections import Counter

from lossy_world import Broken, LossyWorld

MUST_FIRE = (
    "loss", "duplication", "replay", "forgery", "no datagram", "restart", "torn step", "stray",
    "to a dead end", "retransmit", "duplicate", "ack delayed", "ack again", "ack given up",
    "ack of ack came", "hello again", "overtaken", "queue full", "gave up",
    "no acknowledgement came", "no answer came", "it has restarted", "probe", "no room",
)  # fmt: skip


def first_broken(seeds: range, fired: Counter[str] | None = None) -> tuple[int, Broken] | None:
    """The first seed whose schedule breaks a promise, and which one."""
    for seed in seeds:
        world = LossyWorld(seed)
        try:
            world.play()
        except Broken as broken:
            return seed, broken
        if fired is not None:
            fired.update(world.fired)
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", default="0..1000", metavar="A..B", help="A included, B not")
    first, _, last = parser.parse_args().seeds.partition("..")
    seeds = range(int(first), int(last))
    fired: Counter[str] = Counter()
    began = time.monotonic()
    found = first_broken(seeds, fired)
    if found is not None:
        print(f"seed {found[0]}: {found[1]}")
        return 1
    silent = [name for name in MUST_FIRE if not fired[name]]
    print(f"{len(seeds)} schedules in {time.monotonic() - began:.0f} s; every promise held")
    for name, count in sorted(fired.items()):
        print(f"{count:>10,}  {name}")
    if silent:
        print(f"never fired: {', '.join(silent)}")
    return 1 if silent else 0


if __name__ == "__main__":
    sys.exit(main())
