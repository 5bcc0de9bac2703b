"""Protocols are found by name, as an installed plug-in, and in a file."""

import sys
from pathlib import Path

import pytest

from causalcast.errors import ConfigError
from causalcast.registry import find_protocol, protocol_names

SOURCE = """
from causalcast.core import Multicast, ProtocolSpec
SPEC = ProtocolSpec("theirs", "a plug-in", lambda setup: Multicast(), [], [])
"""


def test_ours_are_found_by_walking_the_package() -> None:
    assert {"naive_flood", "vector_clock_broadcast"} <= set(protocol_names())
    assert all(find_protocol(name).name == name for name in protocol_names())


def test_an_installed_plug_in_is_found_by_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "their_package.py").write_text(SOURCE)
    info = tmp_path / "their_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[causalcast.protocols]\ntheirs = their_package:SPEC\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "theirs" in protocol_names()
    assert find_protocol("theirs").summary == "a plug-in"


def test_a_file_is_loaded_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(SOURCE)
    assert find_protocol(str(path)).name == "theirs"
    assert "causalcast_file_mine" in sys.modules


def test_a_name_nobody_has_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"known: .*naive_flood"):
        find_protocol("quantum_gossip")
