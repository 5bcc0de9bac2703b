"""Random foreign logs with rows left out, judged by kernels, judge and the definition alone.

    python benchmarks/partial_logs.py --logs 20000

Prints every disagreement, and how much there was to see. None may be printed.
"""

import argparse
import time
from collections import Counter

from causalcast.testing.partial_logs import check_seed


def main() -> int:
    """Check so many logs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=100_000, help="the first seed")
    options = parser.parse_args()
    seen: Counter[str] = Counter()
    wrong = 0
    started = time.perf_counter()
    for seed in range(options.first, options.first + options.logs):
        said, of_log = check_seed(seed)
        for text in said:
            print(text)
        wrong += bool(said)
        seen += of_log
    print(f"{options.logs:,} logs, {wrong:,} with disagreements,"
          f" {time.perf_counter() - started:.0f} s")  # fmt: skip
    for name, count in seen.most_common():
        print(f"  {name}: {count:,}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
