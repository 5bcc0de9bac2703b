"""What a call of the recorder costs: `python benchmarks/message_recorder.py`.

Against one `write` of a line of the same length, which nothing that survives a kill can do without.
"""

import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from causalcast.recording.recorder import Recorder

CALLS = 20_000
ROUNDS = 7


def microseconds(work: Callable[[], object]) -> float:
    """Of one call in CPU time, the median of some rounds: neighbours do not count."""
    took = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        for _ in range(CALLS):
            work()
        took.append((time.process_time() - begin) / CALLS * 1e6)
    return median(took)


def main() -> None:
    """Measure each call and the floor."""
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder("p0", Path(folder) / "log.jsonl")
        headers = recorder.publish("chat").headers
        line = (Path(folder) / "log.jsonl").read_bytes()
        floor = os.open(Path(folder) / "floor", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

        def handling() -> None:
            with recorder.handling(headers, "chat"):
                pass

        told = {
            "one write of a line": microseconds(lambda: os.write(floor, line)),
            "publish": microseconds(lambda: recorder.publish("chat")),
            "handling": microseconds(handling),
            "delivered": microseconds(lambda: recorder.delivered(headers, "chat")),
        }
        os.close(floor)
    print(json.dumps({name: round(us, 2) for name, us in told.items()}, indent=1))


if __name__ == "__main__":
    main()
