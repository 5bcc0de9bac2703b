"""Finds protocols, overlays and detectors: by name, as an installed plug-in, or in a file.

Our own are found by walking `causalcast.protocols`, `.overlays` and `.detectors`; others by the
entry points of the groups of the same names; a path that ends in `.py` is loaded as it is. In each
case the module has a constant `SPEC`.
"""

import difflib
import importlib
import importlib.metadata
import importlib.util
import pkgutil
import sys
from pathlib import Path
from types import ModuleType

from causalcast.core.spec import DetectorSpec, LayerSpec, OverlaySpec, ProtocolSpec
from causalcast.errors import ConfigError


def find_protocol(name: str) -> ProtocolSpec:
    """The SPEC of a protocol, by name or by the path of its file."""
    spec = _find("protocols", name)
    assert isinstance(spec, ProtocolSpec)
    return spec


def find_overlay(name: str) -> OverlaySpec:
    """The SPEC of an overlay."""
    spec = _find("overlays", name)
    assert isinstance(spec, OverlaySpec)
    return spec


def find_detector(name: str) -> DetectorSpec:
    """The SPEC of a failure detector."""
    spec = _find("detectors", name)
    assert isinstance(spec, DetectorSpec)
    return spec


def protocol_names() -> list[str]:
    """The names of all protocols that can be found without a path."""
    return _names("protocols")


def overlay_names() -> list[str]:
    """The names of all overlays."""
    return _names("overlays")


def detector_names() -> list[str]:
    """The names of all failure detectors."""
    return _names("detectors")


_EXPECTED: dict[str, type[LayerSpec]] = {
    "protocols": ProtocolSpec,
    "overlays": OverlaySpec,
    "detectors": DetectorSpec,
}


def _find(kind: str, name: str) -> LayerSpec:
    if name.endswith(".py"):
        module, where = _load_file(Path(name)), name
    elif name in _own_names(kind):
        module, where = importlib.import_module(f"causalcast.{kind}.{name}"), name
    elif name in _plugins(kind):
        loaded = _plugins(kind)[name].load()
        if isinstance(loaded, _EXPECTED[kind]):
            return loaded
        module, where = loaded, f"plug-in {name}"
    else:
        known = _names(kind)
        close = difflib.get_close_matches(name, known, 1)
        hint = f"; did you mean {close[0]}?" if close else f" (known: {', '.join(known)})"
        raise ConfigError(f"no {kind[:-1]} {name!r}{hint}")
    spec = getattr(module, "SPEC", None)
    if not isinstance(spec, _EXPECTED[kind]):
        expected = _EXPECTED[kind].__name__
        raise ConfigError(f"{where}: expected a module with SPEC = {expected}(...)")
    return spec


def _names(kind: str) -> list[str]:
    return sorted({*_own_names(kind), *_plugins(kind)})


def _own_names(kind: str) -> list[str]:
    package = importlib.import_module(f"causalcast.{kind}")
    return [module.name for module in pkgutil.iter_modules(package.__path__)]


def _plugins(kind: str) -> dict[str, importlib.metadata.EntryPoint]:
    found = importlib.metadata.entry_points(group=f"causalcast.{kind}")
    return {entry.name: entry for entry in found}


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ConfigError(f"{path}: no such file")
    status = path.stat()
    identity = f"{path.resolve()}/{status.st_mtime_ns}/{status.st_size}"
    name = f"causalcast_file_{path.stem}"
    known = sys.modules.get(name)
    if known is not None and getattr(known, "_loaded_from", "") == identity:
        return known  # the same classes each time, also for those who compare or patch them
    source = importlib.util.spec_from_file_location(name, path)
    assert source is not None and source.loader is not None
    module = importlib.util.module_from_spec(source)
    sys.modules[name] = module
    try:
        source.loader.exec_module(module)
    except Exception as error:
        line = _line_in(path, error)
        raise ConfigError(f"{path}{line}: {type(error).__name__}: {error}") from error
    module.__dict__["_loaded_from"] = identity
    return module


def _line_in(path: Path, error: Exception) -> str:
    """`:12` if the error came from line 12 of the file, else nothing."""
    if isinstance(error, SyntaxError):
        return f":{error.lineno}"
    traceback, line = error.__traceback__, ""
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == str(path):
            line = f":{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return line
