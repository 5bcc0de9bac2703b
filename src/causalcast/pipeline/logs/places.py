"""Where runs lie: a path of this machine, or a URI that Spark reads (`s3a://`, `hdfs://`, …)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from causalcast.errors import ConfigError
from causalcast.trace.run_folder import event_files, read_header

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


@dataclass(frozen=True)
class RemoteFolder:
    """A folder that only Spark can look into; as a URI it may hold wildcards."""

    uri: str

    @property
    def name(self) -> str:
        """What people call it: the last part."""
        return self.uri.rstrip("/").rpartition("/")[2]

    def __str__(self) -> str:
        return self.uri

    def beside(self, name: str) -> "RemoteFolder":
        """Another name in the same folder."""
        return RemoteFolder(f"{self.uri.rstrip('/').rpartition('/')[0]}/{name}")

    def __truediv__(self, name: str) -> "RemoteFolder":
        return RemoteFolder(f"{self.uri.rstrip('/')}/{name}")


Place = Path | RemoteFolder


def place_of(text: str) -> Place:
    """A path, also if it is written as a `file://` URI; any other URI is for Spark."""
    if text.startswith("file:"):
        parts = urlsplit(text)
        if parts.netloc not in ("", "localhost"):
            raise ConfigError(f"{text}: a file of another host; expected file:///PATH")
        return Path(unquote(parts.path))
    return RemoteFolder(text) if _URI.match(text) else Path(text)


@dataclass(frozen=True)
class RunAtHand:
    """A run whose header and small tables are on this machine; its events may be elsewhere."""

    place: Place
    folder: Path
    files: tuple[str, ...]
    """The event files: paths, or URIs that Spark reads."""
    size: int = 0
    """How many bytes those of a remote run have."""

    @property
    def is_remote(self) -> bool:
        """Whether only Spark can read its events."""
        return isinstance(self.place, RemoteFolder)

    @staticmethod
    def here(folder: Path) -> "RunAtHand":
        """A run of this machine."""
        files = tuple(str(path.resolve()) for path in event_files(folder))
        return RunAtHand(folder, folder, files)


def at_hand(runs: Sequence[Path | RunAtHand]) -> list[RunAtHand]:
    """Runs of which some are only named by their folders."""
    return [RunAtHand.here(run) if isinstance(run, Path) else run for run in runs]


def runs_under(places: Sequence[Place]) -> list[Place]:
    """Replaces each folder that holds runs by those runs, in the order of their names.

    A path of this machine that is no run and holds none is an error; others are left to Spark.
    """
    found: list[Place] = []
    for place in places:
        if isinstance(place, RemoteFolder) or (place / "run.json").exists():
            found.append(place)
        else:
            found += sorted(path.parent for path in place.glob("*/run.json")) or [place]
    for place in found:
        if isinstance(place, Path):
            read_header(place)
            event_files(place)
    return found


def is_little(places: Sequence[Place], most: int) -> bool:
    """Whether the runs at these places are here and have few bytes of events together."""
    here = [place for place in places if isinstance(place, Path)]
    size = sum(path.stat().st_size for folder in here for path in event_files(folder))
    return len(here) == len(places) and size <= most
