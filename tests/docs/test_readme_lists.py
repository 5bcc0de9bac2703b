"""What the README says is there is there, and what is there stands in the README."""

import re

import pytest
from doc_blocks import ROOT

from causalcast.cli.commands import COMMANDS, COMMANDS_BY_PURPOSE
from causalcast.registry import detector_names, overlay_names, protocol_names

README = (ROOT / "README.md").read_text()
TABLE = README[README.index("## What is there") : README.index("## Where to read on")]


def words_of(row: str) -> set[str]:
    """The words in code quotes in the first column after the row's title."""
    line = next(line for line in TABLE.splitlines() if line.startswith(f"| {row} |"))
    there_now = line.split(" | ")[1]
    return {word for quoted in re.findall(r"`([^`]+)`", there_now) for word in quoted.split()}


@pytest.mark.parametrize(
    ("row", "names"),
    [
        ("protocols", protocol_names()),
        ("overlays", overlay_names()),
        ("detectors", detector_names()),
    ],
)
def test_what_is_registered_is_listed(row: str, names: list[str]) -> None:
    assert set(names) <= words_of(row)


def test_no_protocol_or_detector_is_listed_that_is_not_registered() -> None:
    assert words_of("protocols") - {"compare"} == set(protocol_names())
    assert words_of("detectors") == set(detector_names())


@pytest.mark.parametrize(
    ("row", "purposes"),
    [("simulation", ["simulate"]), ("real nodes", ["run", "operate"]), ("verification", ["judge"])],
)
def test_every_command_is_listed_by_its_purpose(row: str, purposes: list[str]) -> None:
    listed = words_of(row) & set(COMMANDS)
    commands = {one.name for purpose in purposes for one in COMMANDS_BY_PURPOSE[purpose]}
    assert listed == commands
