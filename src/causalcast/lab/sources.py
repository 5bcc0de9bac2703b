"""The sources of protocols, to be read and changed in the page, and protocols made of changed ones.

A protocol and the parts it uses are copied into a package of their own, with the changed files in
the place of the shipped ones, and the shipped ones stay as they are.
"""

import hashlib
import importlib
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from causalcast.errors import ConfigError
from causalcast.limits import forget
from causalcast.registry import protocol_names
from causalcast.shipped import PACKAGE, samples

EXAMPLE: Final = "examples/"
_IMPORTED: Final = re.compile(r"^from causalcast\.parts([\w.]*) import (\w+)", re.MULTILINE)
_NAMESPACE: Final = "causalcast_edited_"


def sources_of(protocol: str) -> dict[str, str]:
    """The files of a protocol by their paths, its own first, then the parts that it uses."""
    if protocol.startswith(EXAMPLE):
        found = {f"{EXAMPLE}{path.name}": path for path in samples("examples")}
        if protocol not in found:
            raise ConfigError(f"no example {protocol!r}")
        return {protocol: found[protocol].read_text(encoding="utf-8")}
    if protocol not in protocol_names():
        raise ConfigError(f"no protocol {protocol!r}")
    one = PACKAGE / "protocols" / f"{protocol}.py"
    folder = PACKAGE / "protocols" / protocol
    own = [one] if one.is_file() else sorted(folder.glob("*.py"))
    if not own:
        raise ConfigError(f"{protocol} is a plug-in: its source is not here")
    own.sort(key=lambda path: path.name != "protocol.py")
    files = {_name(path): path.read_text(encoding="utf-8") for path in own}
    for text in list(files.values()):
        _add_parts(text, files)
    return files


def _add_parts(text: str, files: dict[str, str]) -> None:
    for module, name in _IMPORTED.findall(text):
        place = PACKAGE / ("parts" + module.replace(".", "/"))
        for path in (place.with_suffix(".py"), place / f"{name}.py"):
            if path.is_file() and _name(path) not in files:
                files[_name(path)] = path.read_text(encoding="utf-8")
                _add_parts(files[_name(path)], files)


def _name(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def patched(protocol: str, patches: list[list[str]]) -> dict[str, str]:
    """Files with some lines replaced: path, the text that is there, the text in its place."""
    files = sources_of(protocol)
    changed: dict[str, str] = {}
    for path, before, after in patches:
        text = changed.get(path, files.get(path, ""))
        if text.count(before) != 1:
            raise ConfigError(f"{path}: {before!r} stands there {text.count(before)} times, not 1")
        changed[path] = text.replace(before, after)
    return changed


class EditedProtocols:
    """Protocols made of changed files, each found by the path of a file that has its SPEC."""

    def __init__(self) -> None:
        self._folder: Path | None = None

    def path_of(self, protocol: str, changed: dict[str, str]) -> str:
        """What `find_protocol` is to be given for `protocol` with these files in place."""
        files = sources_of(protocol)
        unknown = [path for path in changed if path not in files]
        if unknown:
            raise ConfigError(f"{unknown[0]} is no file of {protocol}")
        files |= changed
        root = self._root()
        identity = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:12]
        if protocol.startswith(EXAMPLE):
            path = root / f"{Path(protocol).stem}_{identity}.py"
            path.write_text(files[protocol], encoding="utf-8")
            return str(path)
        package = _NAMESPACE + identity
        for name, text in files.items():
            path = root / package / name
            path.parent.mkdir(parents=True, exist_ok=True)
            moved = re.sub(r"\bcausalcast\.(parts|protocols)\b", rf"{package}.\1", text)
            moved = re.sub(r'\b(Limit|Span)\((\s*)"', rf'\1(\2"{package}.', moved)
            path.write_text(moved, encoding="utf-8")
        entrance = root / f"{package}_spec.py"
        entrance.write_text(f"from {package}.protocols.{protocol} import SPEC\n")
        _forget_edited()
        importlib.invalidate_caches()
        return str(entrance)

    def close(self) -> None:
        """Remove what was written."""
        if self._folder is not None:
            sys.path.remove(str(self._folder))
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _root(self) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="causalcast-lab-"))
            sys.path.append(str(self._folder))
        return self._folder


def _forget_edited() -> None:
    """Modules of edited protocols, and their limits: one that failed half-way leaves some."""
    for name in list(sys.modules):
        if name.startswith(_NAMESPACE):
            del sys.modules[name]
    forget(_NAMESPACE)
