"""Claims that are properties: the tests that decide them, run again where the tests are at hand."""

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

CHECKOUT = Path(__file__).parents[3]
"""The root of a clone, if this package runs from one."""


def tests_at_hand() -> bool:
    """Whether the package runs from a clone that has its tests."""
    return (CHECKOUT / "tests" / "papers").is_dir()


def run_tests(tests: Sequence[str]) -> dict[str, bool]:
    """Whether each of these passes: `FILE::NAME`, all its parameters together, or one of them."""
    wanted = sorted(set(tests))
    if not wanted:
        return {}
    with TemporaryDirectory(prefix="causalcast-tests-") as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += ["-p", "no:xdist", f"--junitxml={report}", *wanted]
        paths = [str(CHECKOUT / "src"), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, check=False)
        outcomes = outcomes_of(report) if report.exists() else {}
    return {test: all(outcomes[test]) for test in wanted if outcomes.get(test)}


def outcomes_of(report: Path) -> dict[str, list[bool]]:
    """By test: whether it passed, with each of its parameters, and each of those by itself.

    Skipped ones say nothing.
    """
    found: dict[str, list[bool]] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        if "skipped" in kinds:
            continue
        file = case.get("classname", "").replace(".", "/") + ".py"
        name = case.get("name", "")
        for told in dict.fromkeys([name.partition("[")[0], name]):
            found.setdefault(f"{file}::{told}", []).append(not kinds & {"failure", "error"})
    return found
