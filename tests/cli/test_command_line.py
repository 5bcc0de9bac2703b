"""The command itself: what it loads, what it says of what is missing, and what shells are told."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from causalcast.cli.commands import COMMANDS
from causalcast.cli.main import main
from causalcast.shipped import samples

HEAVY = ("asyncio", "cryptography", "matplotlib", "msgspec", "numba", "numpy", "pandas", "pyarrow")
# A plain install, and one with the extra `tools`, as far as imports can tell.
WITHOUT_TOOLS = ("pyarrow", "numpy", "matplotlib", "pandas", "pyspark", "numba")
WITHOUT_SPARK = ("pandas", "pyspark", "numba", "py4j")


def run_without(missing: tuple[str, ...], *arguments: str) -> "subprocess.CompletedProcess[str]":
    """The command in a process in which some packages are not installed."""
    script = f"""
import sys
from importlib.machinery import PathFinder
class Installed:
    @staticmethod
    def find_spec(name, path=None, target=None):
        missing = name.partition(".")[0] in {missing!r}
        return None if missing else PathFinder.find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(PathFinder)] = Installed
from causalcast.cli.main import main
sys.exit(main({list(arguments)!r}))
"""
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )


def test_asking_for_the_version_loads_next_to_nothing() -> None:
    script = """
import sys
from causalcast.cli.main import main
try:
    main(["--version"])
except SystemExit:
    print([name for name in sys.modules if name.partition(".")[0] in sys.argv[1:]])
"""
    done = subprocess.run(
        [sys.executable, "-c", script, *HEAVY], capture_output=True, text=True, check=True
    )
    version, loaded = done.stdout.splitlines()
    assert version.startswith("causalcast ") and version.endswith(("(compiled)", "(interpreted)"))
    assert loaded == "[]"


def test_help_lists_every_command_by_purpose(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    said = capsys.readouterr().out
    assert [line for line in said.splitlines() if line.endswith(":") and line[0] != " "] == [
        "simulate:",
        "run:",
        "judge:",
        "operate:",
    ]
    for command in COMMANDS.values():
        assert f"  {command.name} " in said and command.line in said


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert f"usage: causalcast {name}" in capsys.readouterr().out


def test_a_mistyped_command_is_answered_with_those_like_it() -> None:
    done = run_without((), "simulat")
    assert done.returncode == 2
    wrong = subprocess.run(
        [sys.executable, "-m", "causalcast", "simulat"], capture_output=True, text=True, check=False
    )
    assert wrong.stderr == "causalcast: there is no command 'simulat'; did you mean simulate?\n"


@pytest.mark.parametrize("name", [c.name for c in COMMANDS.values() if c.needs])
def test_what_is_missing_is_told_before_anything_begins(name: str) -> None:
    done = run_without(WITHOUT_TOOLS, name, "no-such-thing", "--out", "nowhere")
    assert done.returncode == 2
    extra = COMMANDS[name].needs
    assert f"`causalcast {name}` needs " in done.stderr
    assert f"pip install 'causalcast[{extra}]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("name", [c.name for c in COMMANDS.values() if not c.needs])
def test_a_plain_install_has_all_commands_of_nodes(name: str) -> None:
    done = run_without(WITHOUT_TOOLS, name, "--help")
    assert done.returncode == 0, done.stderr


def test_without_spark_small_runs_are_simulated_judged_measured_and_reported(
    tmp_path: Path,
) -> None:
    run, report = str(tmp_path / "run"), str(tmp_path / "report.html")
    done = run_without(WITHOUT_SPARK, "simulate", "revoke_then_post", "--out", run)
    assert done.returncode == 0, done.stderr
    for arguments in (["verify", run, "--local"], ["verify", run]):
        done = run_without(WITHOUT_SPARK, *arguments)
        assert done.returncode == 0 and "verdict: ok" in done.stdout, done.stderr
    assert "Spark is not installed" in done.stderr  # and was not asked for
    measured = run_without(WITHOUT_SPARK, "metrics", run, "--json")
    assert json.loads(measured.stdout)["runs"][0]["deliveries"] == 6
    by_node = run_without(WITHOUT_SPARK, "metrics", run, "--by", "node", "--json")
    assert [row["node"] for row in json.loads(by_node.stdout)["runs"][0]["by_node"]] == [0, 1, 2]
    done = run_without(WITHOUT_SPARK, "report", run, "--out", report)
    assert done.returncode == 0, done.stderr
    assert "Everything that counts holds" in Path(report).read_text()


def test_without_spark_lines_of_others_are_watched(tmp_path: Path) -> None:
    (tmp_path / "lines").mkdir()
    line = {"node": "ada", "pos": 0, "kind": "publish", "message": "hello"}
    (tmp_path / "lines" / "ada.jsonl").write_text(json.dumps(line) + "\n")
    watched = run_without(WITHOUT_SPARK, "watch", str(tmp_path / "lines"), "--until-idle", "0.1")
    assert watched.returncode == 0, watched.stderr
    assert "verdict ok" in watched.stdout
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{}")
    refused = run_without(WITHOUT_SPARK, "watch", str(tmp_path / "run"))
    assert refused.returncode == 2 and "pip install 'causalcast[spark]'" in refused.stderr


def test_spark_that_was_asked_for_and_is_not_there(tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    assert main(["simulate", "revoke_then_post", "--out", run]) == 0
    done = run_without(WITHOUT_SPARK, "verify", run, "--master", "local[1]")
    assert done.returncode == 2
    assert "pip install 'causalcast[spark]'" in done.stderr


def test_scenarios_and_examples_are_found_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenarios", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["scenarios"]
    assert "revoke_then_post" in said and all(said.values())
    assert len(set(said.values())) == len(said), "two scenarios say the same of themselves"
    assert main(["examples", "my_protocol"]) == 0
    assert "SPEC = ProtocolSpec(" in capsys.readouterr().out
    assert main(["scenarios", "revoke_then_pots"]) == 2
    assert "did you mean revoke_then_post?" in capsys.readouterr().err
    assert {path.stem for path in samples("scenarios")} == set(said)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("causalcast sim", {"simulate"}),
        ("causalcast verify --lo", {"--local"}),
        ("causalcast completion f", {"fish"}),
    ],
)
def test_shells_are_told_what_could_follow(line: str, expected: set[str], tmp_path: Path) -> None:
    answer = tmp_path / "answer"
    environment = {
        **os.environ,
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "COMP_TYPE": "9",
    }
    subprocess.run([sys.executable, "-m", "causalcast"], env=environment, check=False)
    assert {word.strip() for word in answer.read_text().split("\x0b")} == expected


def test_the_lines_for_a_shell(capsys: pytest.CaptureFixture[str]) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert main(["completion", shell]) == 0
        assert "causalcast" in capsys.readouterr().out
