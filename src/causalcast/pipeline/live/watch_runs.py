"""Watches folders until nothing new comes: runs, folders of runs, and the logs of real nodes.

Event files of runs are read by Spark's stream as they are. Logs of real nodes are made into event
files first, by a thread beside it. How that is done is given, for the pipeline knows runs alone.
"""

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from causalcast.errors import ConfigError, MissingDependency, TraceError
from causalcast.pipeline.live.live_watch import Progress, Watch, start

FOLLOW_SECONDS = 0.5


class Follower(Protocol):
    """Makes event files of the logs of nodes that run."""

    def step(self) -> int:
        """Write what is new; how many rows there were."""

    def finish(self) -> None:
        """No more rows will come."""


Follow = Callable[[Path, Path], Follower | None]
"""From a folder and a place for event files: who makes them, or nobody if it has no node logs."""


class WatchedRuns:
    """What is watched in some folders, and how far the watch has come."""

    def __init__(
        self,
        folders: Sequence[Path],
        follow: Follow,
        state: Path | None,
        tell: Callable[[Progress], None],
        overdue_seconds: float,
    ) -> None:
        """`state` is where the watch remembers what it has seen; by default in the first folder."""
        self._folders = folders
        self._state = (state or folders[0] / "watch-state").resolve()
        self._patterns, self._followers = _what_to_watch(folders, follow, self._state)
        try:
            (self._state / "runs").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"--state {self._state}: cannot be written ({error.strerror})"
            ) from None
        self.watch = Watch(self._state / "runs", tell, overdue_seconds)

    def run(
        self,
        spark: Any,
        over: threading.Event,
        until_idle: float | None,
        beat: Callable[[Watch], None],
    ) -> bool:
        """Watch until `over` is set, or until nothing new came for `until_idle` seconds.

        `beat` is called about once a second. True if the watch was not interrupted: then no more
        files will come.
        """
        thread = threading.Thread(target=self._follow, args=(over,), daemon=True)
        thread.start()
        query = start(spark, self._patterns, self.watch, self._state / "checkpoint")
        try:
            while not over.is_set() and not query.awaitTermination(1):
                self.watch.tick()
                beat(self.watch)
                if self._is_idle(query, until_idle):
                    break
        except Exception as error:
            raise _plainly(error) from None
        finally:
            interrupted = over.is_set()
            over.set()
            thread.join()
            query.stop()
        if not interrupted:
            self.watch.finish()
            if next(self.watch.every_run(), None) is None:
                names = ", ".join(map(str, self._folders))
                raise TraceError(
                    f"{names}: nothing came: no run, no node log, no JSON lines (*.jsonl)"
                )
        return not interrupted

    def whole_runs(self) -> list[Path]:
        """The folders of all runs, once no more files will come."""
        for follower in self._followers:
            follower.finish()
        return [Path(run) for run, _ in self.watch.every_run()]

    def _is_idle(self, query: Any, until_idle: float | None) -> bool:
        # Until the first batch is through, Spark is only getting ready.
        is_behind = query.status["isDataAvailable"] and self.watch.quiet_batches == 0
        if query.lastProgress is None or is_behind:
            self.watch.last_news = time.monotonic()
        return until_idle is not None and time.monotonic() - self.watch.last_news > until_idle

    def _follow(self, over: threading.Event) -> None:
        while self._followers:
            for follower in self._followers:
                if follower.step() and self.watch.quiet_batches == 0:
                    self.watch.last_news = time.monotonic()
            if over.wait(FOLLOW_SECONDS):
                return


def _what_to_watch(
    folders: Sequence[Path], follow: Follow, state: Path
) -> tuple[list[str], list[Follower]]:
    """Patterns of event folders, and what makes event files from the logs of real nodes."""
    patterns: list[str] = []
    followers = []
    for number, folder in enumerate(folders):
        if not folder.is_dir():
            raise TraceError(f"{folder}: no such folder")
        if (folder / "run.json").is_file():
            (folder / "events").mkdir(exist_ok=True)
            patterns.append(str(folder.resolve() / "events"))
            continue
        out = state / "followed" / f"{number}-{folder.resolve().name}"
        follower = follow(folder, out)
        if follower is not None:
            followers.append(follower)
            patterns.append(str(out / "events"))
        else:
            patterns.append(str(folder.resolve() / "*" / "events"))
    return patterns, followers


def _plainly(error: Exception) -> Exception:
    """The error of a failed stream in one line; ours, if the check refused its input."""
    text = str(error)
    for line in text.splitlines():
        if "TraceError:" in line:
            return TraceError(line.partition("TraceError:")[2].strip())
    lines = [line for line in text.splitlines() if line.strip()] or [type(error).__name__]
    return MissingDependency(f"the stream failed: {lines[0]}")
