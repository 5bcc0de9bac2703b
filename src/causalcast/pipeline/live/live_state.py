"""What a watch remembers, on disk: the check of every run, under the number of its last batch.

A batch counts when `done` names it. After a kill Spark repeats the batch that it had not finished;
states from within that batch are passed over, so nothing is counted twice and nothing is left out.
"""

import hashlib
import os
import pickle
from collections.abc import Iterable, Iterator
from pathlib import Path

from causalcast.errors import TraceError
from causalcast.pipeline.live.live_check import LiveCheck

STATES_KEPT = 2  # per run: the last one, and the one before it in case its batch is repeated


class LiveState:
    """The folder of a watch's state."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.done = self._read_done()

    def save(self, batch: int, runs: Iterable[tuple[str, LiveCheck]]) -> None:
        """Keep the checks that `batch` changed; then, at once for all of them, the batch counts."""
        for run, check in runs:
            folder = self._folder_of(run)
            folder.mkdir(exist_ok=True)
            content = pickle.dumps((run, check), pickle.HIGHEST_PROTOCOL)
            _write(folder / f"{batch:012d}.state", content)
            for old in sorted(folder.glob("[0-9]*.state"))[:-STATES_KEPT]:
                old.unlink()
        _write(self.folder / "done", str(batch).encode())
        self.done = batch

    def load(self, run: str) -> LiveCheck | None:
        """The check of a run as it was after the last batch that counts."""
        found = self._load(self._folder_of(run))
        return None if found is None else found[1]

    def all(self) -> Iterator[tuple[str, LiveCheck]]:
        """Every run, with its check."""
        for folder in sorted(path for path in self.folder.iterdir() if path.is_dir()):
            found = self._load(folder)
            if found is not None:
                yield found

    def _load(self, folder: Path) -> tuple[str, LiveCheck] | None:
        saved = [path for path in folder.glob("[0-9]*.state") if int(path.stem) <= self.done]
        if not saved:
            return None
        found: tuple[str, LiveCheck] = pickle.loads(max(saved).read_bytes())
        return found

    def _folder_of(self, run: str) -> Path:
        return self.folder / hashlib.blake2b(run.encode(), digest_size=8).hexdigest()

    def _read_done(self) -> int:
        try:
            return int((self.folder / "done").read_text())
        except FileNotFoundError:
            return -1
        except ValueError:
            raise TraceError(f"{self.folder}: damaged; remove the state of the watch") from None


def _write(path: Path, content: bytes) -> None:
    hidden = path.with_name(f".{path.name}.{os.getpid()}")
    hidden.write_bytes(content)
    hidden.rename(path)
