"""Spark judges a cluster while it is being broken: `causalcast watch` beside it, in a process.

What it says while the cluster runs is held against the verdict at the end: a violation that is
only seen by one of them is wrong in either case.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

CATCHES_UP_WITHIN: Final = 120.0  # seconds after the end of a cluster
LOOKS_EVERY: Final = 0.5
ENDS_WITHIN: Final = 30.0
TOLD: Final = 5  # violations that are told one by one


class LiveJudge:
    """A `watch` over the logs of a cluster's nodes."""

    def __init__(self, nodes: Path, told: Path, overdue: float) -> None:
        self._told = told
        with told.open("wb") as out, told.with_suffix(".log").open("wb") as errors:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "causalcast", "watch", str(nodes), "--json"),
                    *("--state", str(told.with_suffix(".state")), "--overdue", str(overdue)),
                ],
                stdout=out,
                stderr=errors,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                start_new_session=True,
            )

    def end(self, deliveries: int) -> tuple[int, list[str]]:
        """Wait until it has seen so many deliveries. How many it saw, and what is wrong."""
        deadline = time.monotonic() + CATCHES_UP_WITHIN
        while self._seen() < deliveries and time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            time.sleep(LOOKS_EVERY)
        violations = self._violations()
        wrong = [f"watch: {line}" for line in violations[:TOLD]]
        if len(violations) > TOLD:
            wrong.append(f"watch: and {len(violations) - TOLD} more")
        if self._process.poll() is not None:
            wrong.append(f"watch ended by itself: {self._last_words()}")
        elif self._seen() < deliveries:
            wrong.append(f"watch saw {self._seen()} of {deliveries} deliveries")
        self.stop()
        return self._seen(), wrong

    def stop(self) -> None:
        """End the process."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(ENDS_WITHIN)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def _lines(self) -> list[dict[str, Any]]:
        lines = []
        for line in self._told.read_text().splitlines():
            with contextlib.suppress(json.JSONDecodeError):  # it is being written
                lines.append(json.loads(line))
        return lines

    def _seen(self) -> int:
        return max((line.get("deliveries", 0) for line in self._lines()), default=0)

    def _violations(self) -> list[str]:
        return [
            f"{line['violation']} ({line['kind']}) of {line['message']} at node {line['node']}"
            for line in self._lines()
            if "violation" in line
        ]

    def _last_words(self) -> str:
        lines = self._told.with_suffix(".log").read_text(errors="replace").splitlines()
        return lines[-1] if lines else "it said nothing"
