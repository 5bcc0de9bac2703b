"""`causalcast keys`: what it makes, what it says, and what it refuses in one line."""

import json
from pathlib import Path

import pytest

from causalcast.cli.main import main
from causalcast.runtime.security.identity import Identity
from causalcast.runtime.security.join_token import read_token


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    assert main(["keys", "init", str(tmp_path / "authority"), "--cluster", "demo"]) == 0
    return tmp_path / "authority"


def test_a_node_is_named_rotated_and_revoked(
    authority: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where, out = str(authority), str(tmp_path / "one")
    assert main(["keys", "node", where, "--id", "3", "--out", out]) == 0
    first = Identity.read(tmp_path / "one").passport
    assert (first.cluster, first.ids()) == ("demo", "3")
    assert main(["keys", "rotate", where, "--identity", out]) == 0
    second = Identity.read(tmp_path / "one").passport
    assert second.serial != first.serial and second.ids() == "3"
    capsys.readouterr()
    assert main(["keys", "list", where, "--json"]) == 0
    states = {line["serial"]: line["state"] for line in json.loads(capsys.readouterr().out)}
    assert states == {first.serial: "revoked", second.serial: "valid"}
    assert main(["keys", "revoke", where, "--id", "3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {"revoked": [second.serial], "list": 2}


def test_a_token_is_printed_alone(authority: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["keys", "token", str(authority), "--id", "5-7", "--minutes", "1"]) == 0
    token = capsys.readouterr().out.strip()
    assert read_token(token, Path()).passport.ids() == "5-7"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["init", "AUTHORITY", "--cluster", "x"], "there is an authority already"),
        (["init", "new", "--cluster", "x" * 65], "expected 1 to 64 characters"),
        (["node", "nowhere", "--id", "1", "--out", "x"], "no such file"),
        (["node", "AUTHORITY", "--id", "x", "--out", "x"], "expected a node id such as 3"),
        (["token", "AUTHORITY", "--id", "9-3"], "the smaller one first"),
        (["revoke", "AUTHORITY", "--id", "9"], "nothing of node 9 is there to be revoked"),
        (["rotate", "AUTHORITY", "--identity", "nowhere"], "no such file"),
        (["enrol", "nowhere", "--token", "x", "--out", "x"], "expected host:port"),
        (["enrol", "127.0.0.1:1", "--token", "x", "--out", "x"], "this is no token"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(
    authority: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    capsys.readouterr()
    given = [word.replace("AUTHORITY", str(authority)) for word in arguments]
    assert main(["keys", *given]) == 2
    said = capsys.readouterr().err
    assert told in said and said.count("\n") == 1


def test_an_authority_that_others_can_read_is_refused(
    authority: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (authority / "authority.key").chmod(0o640)
    assert main(["keys", "token", str(authority)]) == 2
    assert "others can read this key" in capsys.readouterr().err
