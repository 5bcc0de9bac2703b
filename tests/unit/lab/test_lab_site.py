"""The page with Python inside it: what it consists of, and that this is enough to run."""

import io
import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from causalcast.cli.main import main
from causalcast.errors import ConfigError
from causalcast.lab.engine import Lab
from causalcast.lab.site import (
    PYODIDE,
    choice_of_run,
    export,
    first_run,
    package_archive,
    page_files,
    pyodide_files,
)
from causalcast.simulator.runner import simulate
from causalcast.trace.run_header import RunHeader

ENGINE = """
import sys
sys.path[:] = [sys.argv[1], *[path for path in sys.path if "site-packages" not in path]]
from causalcast.lab.engine import Lab
lab = Lab()
print(lab.ask('{"do": "run", "scenario": "revoke_then_post", "protocol": "naive_flood"}'))
print(lab.ask('{"do": "catalogue"}'))
lab.close()
print([name for name in ("msgspec", "pyarrow", "numpy") if name in sys.modules])
"""


@pytest.fixture
def pyodide(tmp_path: Path) -> Path:
    folder = tmp_path / "pyodide"
    folder.mkdir()
    for name in PYODIDE:
        (folder / name).write_bytes(name.encode())
    return folder


def test_what_is_packed_runs_by_itself_with_the_standard_library_alone(tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(package_archive())) as archive:
        archive.extractall(tmp_path / "lab")
    done = subprocess.run(
        [sys.executable, "-I", "-c", ENGINE, str(tmp_path / "lab")],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    run, catalogue, loaded = done.stdout.splitlines()
    assert json.loads(run)["verdict"]["broken"] == ["causal_order"]
    assert len(json.loads(catalogue)["gallery"]) > 20
    assert loaded == "[]"


def test_the_same_sources_make_the_same_archive() -> None:
    assert package_archive() == package_archive()


def test_the_page_names_only_files_of_its_own() -> None:
    files = page_files()
    text = b"".join(files.values()).decode()
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in text
    for name in ("style.css", "main.js"):
        assert name in files["index.html"].decode() and name in files


def test_pyodide_comes_from_a_folder_or_from_the_archive_of_npm(
    pyodide: Path, tmp_path: Path
) -> None:
    packed = tmp_path / "pyodide.tgz"
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(pyodide, "package")
    assert pyodide_files(pyodide) == pyodide_files(packed)
    (tmp_path / "node_modules").mkdir()
    pyodide.rename(tmp_path / "node_modules" / "pyodide")
    assert pyodide_files(tmp_path) == pyodide_files(packed)
    for wrong in (tmp_path / "nowhere", tmp_path / "node_modules", Path(__file__)):
        with pytest.raises(ConfigError, match="npm pack pyodide"):
            pyodide_files(wrong)


def test_the_page_is_written_whole_and_nothing_is_written_over(
    pyodide: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "site"
    assert main(["lab", "--export", str(out), "--pyodide", str(pyodide)]) == 0
    assert json.loads((out / "config.json").read_text()) == {"engine": "pyodide"}
    first = json.loads((out / "first.json").read_text())
    assert [p["verdict"]["word"] for p in first["pictures"]] == ["violated", "ok"]
    assert len(json.loads((out / "catalogue.json").read_text())["gallery"]) > 20
    assert (out / "pyodide" / "pyodide.mjs").is_file() and (out / "causalcast.zip").is_file()
    assert main(["lab", "--export", str(out), "--pyodide", str(pyodide)]) == 2
    assert "is not empty" in capsys.readouterr().err
    with pytest.raises(ConfigError):
        export({}, out)


def test_a_simulated_run_is_seen_again(tmp_path: Path) -> None:
    run = simulate(
        "revoke_then_post",
        protocol="psync",
        seed=9,
        options={"repeat_after": "7ms"},
        out=tmp_path / "a",
    )
    choice = choice_of_run(tmp_path / "a")
    lab = Lab()
    (picture,) = json.loads(first_run(lab, choice))["pictures"]
    lab.close()
    assert (picture["protocol"], picture["seed"]) == ("psync", 9)
    delivered = [row for row in run.events.to_pylist() if row["kind"] == "deliver"]
    told = sorted((e[1], e[0]) for e in picture["events"] if e[2] == "deliver")
    assert told == sorted((row["node"], row["at_us"]) for row in delivered)
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "run.json").write_text(RunHeader("x", "real").to_json())
    with pytest.raises(ConfigError, match="was not simulated"):
        choice_of_run(tmp_path / "real")
    with pytest.raises(ConfigError, match="No such file"):
        choice_of_run(tmp_path / "nowhere")


def test_python_in_the_page_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert main(["lab", "--export", str(tmp_path / "site")]) == 2
    assert "npm pack pyodide" in capsys.readouterr().err
