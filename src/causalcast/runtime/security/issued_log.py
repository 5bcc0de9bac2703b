"""What an authority gave out and which tokens were used: one line of JSON each, in `issued.jsonl`.

A line counts when it is on disk, whole, with its end. What a full disk or a crash tore had not
counted: nobody was told of it. So it is cut off, and the lines before it are as good as before.
"""

import contextlib
import fcntl
import json
import logging
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from causalcast.errors import ConfigError, NodeError

log = logging.getLogger(__name__)

_BEGINNING: Final = b'{"at"'  # of every line


class IssuedLog:
    """The file. Two may write at once, so whoever reads in order to write is alone meanwhile."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody else reads or writes meanwhile; a torn end is cut off first."""
        descriptor = self._open()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            self._cut_torn_end(descriptor)
            yield
        finally:
            os.close(descriptor)

    def append(self, line: dict[str, Any]) -> None:
        """One more line, durable; NodeError, and none, if it cannot be written."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        data = json.dumps({"at": at, **line}).encode() + b"\n"
        descriptor = self._open()
        try:
            size = os.fstat(descriptor).st_size
            try:
                while data:
                    data = data[os.write(descriptor, data) :]
                os.fsync(descriptor)
            except OSError as error:
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, size)
                raise NodeError(f"{self._path}: cannot be written ({error.strerror})") from None
        finally:
            os.close(descriptor)

    def lines(self, all_of_them: bool = True) -> list[dict[str, Any]]:
        """What stands there, oldest first.

        ConfigError for damage; with `all_of_them` false what can be read is all that is returned,
        for those who must not be kept from revoking.
        """
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ConfigError(f"{self._path}: {error.strerror}") from None
        found = []
        for number, line in enumerate(
            data.split(b"\n")[:-1], 1
        ):  # what follows the last end is torn
            read = _read(line)
            if read is not None:
                found.append(read)
            elif all_of_them:
                raise ConfigError(
                    f"{self._path}: line {number} is damaged, so nobody knows which tokens were "
                    "used; restore the file from a copy, or remove the line and revoke all tokens"
                )
            else:
                log.warning("%s: line %d is damaged and passed over", self._path, number)
        return found

    def _open(self) -> int:
        try:
            return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            raise NodeError(f"{self._path}: cannot be written ({error.strerror})") from None

    def _cut_torn_end(self, descriptor: int) -> None:
        data = self._path.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            log.warning("%s: %d torn bytes are cut off", self._path, len(data) - whole)
            os.ftruncate(descriptor, whole)
            os.fsync(descriptor)


def _read(line: bytes) -> dict[str, Any] | None:
    """The line, or what was written behind a torn one; None if it cannot be read."""
    for start in (0, max(0, line.rfind(_BEGINNING))):
        try:
            found = json.loads(line[start:])
        except ValueError:
            continue
        if isinstance(found, dict) and _is_known(found):
            return found
    return None


def _is_known(line: dict[str, Any]) -> bool:
    if "serial" in line:
        ids, until = line.get("ids"), line.get("until")
        is_range = isinstance(ids, list) and len(ids) == 2 and all(type(one) is int for one in ids)
        return is_range and type(line["serial"]) is int and type(until) is int and "for" in line
    if "used" in line:
        return type(line["used"]) is int and type(line.get("node")) is int
    return type(line.get("revoked")) is int
