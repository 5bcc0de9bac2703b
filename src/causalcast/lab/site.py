"""The files of the page: its own, and for Python inside it the package, Pyodide and a first run."""

import io
import json
import os
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import mypy_extensions

from causalcast.errors import ConfigError
from causalcast.lab.engine import Lab
from causalcast.lab.gallery import gallery
from causalcast.registry import find_protocol
from causalcast.runview.page_files import view_files
from causalcast.shipped import KINDS, PACKAGE, samples
from causalcast.trace.run_header import RunHeader

PAGE: Final = Path(__file__).parent / "page"
PYODIDE: Final = (
    "pyodide.mjs",
    "pyodide.asm.mjs",
    "pyodide.asm.wasm",
    "python_stdlib.zip",
    "pyodide-lock.json",
)
HOW_TO_GET_IT: Final = "`npm pack pyodide` writes such a file"
# What runs in the page: protocols, the simulator, the judge, the engine of the lab.
ROOMS: Final = (
    "core", "datagrams", "detectors", "judge", "lab", "overlays", "parts", "protocols", "runview",
    "simulator", "trace", "wire",
)  # fmt: skip
_YEAR: Final = (1980, 1, 1, 0, 0, 0)  # the same files make the same archive


def page_files() -> dict[str, bytes]:
    """What is served in any case."""
    own = {path.name: path.read_bytes() for path in sorted(PAGE.iterdir()) if path.is_file()}
    return {**view_files(), **own}


def config(engine: str) -> bytes:
    """Says to the page where its engine is: `pyodide`, `process`, or `none`."""
    return json.dumps({"engine": engine}).encode()


def story() -> dict[str, Any]:
    """What the page shows at first: the first entry of the gallery."""
    names = ("scenario", "protocol", "other", "seed", "options", "about")
    entry = gallery()[0]
    return {name: entry[name] for name in names}


def choice_of_run(folder: Path) -> dict[str, Any]:
    """What to choose to see a simulated run again: all of it stands in its `run.json`."""
    path = folder / "run.json"
    try:
        header = RunHeader.from_json(path.read_text(encoding="utf-8"), path)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    if header.scenario is None or header.protocol is None:
        raise ConfigError(f"{folder}: was not simulated; the lab runs scenarios")
    units = {option.name: option.unit for option in find_protocol(header.protocol).options}
    options = {
        name: f"{value}us" if units.get(name) else value for name, value in header.options.items()
    }
    return {
        "scenario": "",
        "text": header.scenario,
        "protocol": header.protocol,
        "other": "",
        "seed": header.seed,
        "options": options,
        "about": f"The run of {folder}.",
    }


def first_run(lab: Lab, choice: dict[str, Any]) -> bytes:
    """A choice, already run: something to look at while Python starts."""
    pictures = []
    for place, protocol in enumerate(filter(None, (choice["protocol"], choice["other"]))):
        question = {**choice, "do": "run", "protocol": protocol}
        if place > 0:
            question["options"] = {}
        picture = json.loads(lab.ask(json.dumps(question)))
        if "error" in picture:
            raise ConfigError(picture["error"])
        pictures.append(picture)
    return json.dumps({"choice": choice, "pictures": pictures}, separators=(",", ":")).encode()


def package_archive() -> bytes:
    """The sources that run in the page, with scenarios and examples, as a zip."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(_sources()):
            entry = zipfile.ZipInfo(name, _YEAR)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return packed.getvalue()


def _sources() -> Iterator[tuple[str, bytes]]:
    yield "mypy_extensions.py", Path(str(mypy_extensions.__file__)).read_bytes()
    modules = [path for path in PACKAGE.glob("*.py") if path.name != "__main__.py"]
    for room in ROOMS:
        modules += (PACKAGE / room).rglob("*.py")
    for path in [*modules, PACKAGE / "lab" / "gallery.toml"]:
        yield f"causalcast/{path.relative_to(PACKAGE).as_posix()}", path.read_bytes()
    for kind in KINDS:
        for path in samples(kind):
            yield f"causalcast/samples/{kind}/{path.name}", path.read_bytes()


def pyodide_files(place: Path) -> dict[str, bytes]:
    """The files of Pyodide, from a folder or from the archive that npm makes."""
    if place.is_dir():
        folders = [place, place / "package", place / "node_modules" / "pyodide"]
        for folder in folders:
            if (folder / PYODIDE[0]).is_file():
                found = {name: _read(folder / name) for name in PYODIDE}
                break
        else:
            raise ConfigError(f"{place}: no {PYODIDE[0]} in it; {HOW_TO_GET_IT}")
    elif place.is_file():
        found = _from_archive(place)
    else:
        raise ConfigError(f"{place}: no such file or folder; {HOW_TO_GET_IT}")
    return {f"pyodide/{name}": data for name, data in found.items()}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; {HOW_TO_GET_IT}") from None


def _from_archive(path: Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(path) as archive:
            for name in PYODIDE:
                member = archive.extractfile(f"package/{name}")
                assert member is not None
                found[name] = member.read()
    except (tarfile.TarError, KeyError, OSError, AssertionError) as error:
        raise ConfigError(f"{path}: not an archive of Pyodide ({error}); {HOW_TO_GET_IT}") from None
    return found


def kept_pyodide() -> Path | None:
    """Where somebody put it once and for all."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    kept = cache / "causalcast" / "pyodide"
    return kept if kept.is_dir() else None


def site(pyodide: Path | None, choice: dict[str, Any] | None = None) -> dict[str, bytes]:
    """The whole page with Python inside it: needs no engine elsewhere, and no network.

    Without Pyodide it shows the chosen run, and says what it lacks for others.
    """
    lab = Lab()
    try:
        files = {**page_files(), "first.json": first_run(lab, choice or story())}
        files["catalogue.json"] = lab.ask(json.dumps({"do": "catalogue"})).encode()
    finally:
        lab.close()
    if pyodide is None:
        return {**files, "config.json": config("none")}
    packed = {"config.json": config("pyodide"), "causalcast.zip": package_archive()}
    return {**files, **pyodide_files(pyodide), **packed}


def export(files: dict[str, bytes], folder: Path) -> None:
    """Write all files into a folder that is new or empty."""
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"{folder}: is not empty; remove it or choose another --export")
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
