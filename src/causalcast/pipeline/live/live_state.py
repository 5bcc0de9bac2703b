"""What a watch remembers, on disk: the check of every run, under the number of its last batch.

A batch counts when `done` names it. After a kill Spark repeats the batch that it had not finished;
states from within that batch are passed over, so nothing is counted twice and nothing is left out.

The folder lies inside a run by default, and runs are exchanged: whatever stands in it is data. A
file may name the classes of checks, and nothing else that could be called.
"""

import hashlib
import io
import os
import pickle
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from causalcast.errors import TraceError
from causalcast.pipeline.check.checks.finding import Finding
from causalcast.pipeline.live import arrival_check, live_check, live_foreign
from causalcast.pipeline.live.live_check import LiveCheck

STATES_KEPT = 2  # per run: the last one, and the one before it in case its batch is repeated
_DAMAGED: Final = "damaged; remove the state of the watch"


def _classes_of(*modules: Any) -> list[type]:
    return [
        found
        for module in modules
        for found in vars(module).values()
        if isinstance(found, type) and found.__module__ == module.__name__
    ]


_ALLOWED: Final = {
    (one.__module__, one.__qualname__): one
    for one in (
        *_classes_of(live_check, live_foreign, arrival_check),
        *(Finding, OrderedDict, deque, set, frozenset),
    )
}


_CHECKS: Final = (LiveCheck, live_foreign.LiveForeignCheck)


class _Writer(pickle.Pickler):
    """Arrays of whole numbers go as bytes, so that reading needs nothing of numpy's."""

    def persistent_id(self, obj: Any) -> bytes | None:
        return obj.astype(np.int64).tobytes() if type(obj) is np.ndarray else None


class _Reader(pickle.Unpickler):
    """Makes checks, and refuses to look up anything else."""

    def find_class(self, module: str, name: str) -> Any:
        found = _ALLOWED.get((module, name))
        if found is None:
            raise pickle.UnpicklingError(f"{module}.{name} is no part of a check")
        return found

    def persistent_load(self, pid: Any) -> Any:
        return np.frombuffer(pid, np.int64).copy()


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
            content = io.BytesIO()
            _Writer(content, pickle.HIGHEST_PROTOCOL).dump((run, check))
            _write(folder / f"{batch:012d}.state", content.getvalue())
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
        try:
            with max(saved).open("rb") as file:
                run, check = _Reader(file).load()
            if not isinstance(run, str) or type(check) not in _CHECKS:
                raise pickle.UnpicklingError("no check of a run")
        except Exception as error:  # whatever a hostile or torn file leads to
            raise TraceError(f"{max(saved)}: {_DAMAGED} ({error})") from None
        return run, check

    def _folder_of(self, run: str) -> Path:
        return self.folder / hashlib.blake2b(run.encode(), digest_size=8).hexdigest()

    def _read_done(self) -> int:
        try:
            return int((self.folder / "done").read_text())
        except FileNotFoundError:
            return -1
        except ValueError:
            raise TraceError(f"{self.folder}: {_DAMAGED}") from None


def _write(path: Path, content: bytes) -> None:
    hidden = path.with_name(f".{path.name}.{os.getpid()}")
    hidden.write_bytes(content)
    hidden.rename(path)
