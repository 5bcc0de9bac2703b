"""Compiles what is below the worlds, the simulator and the steps of real nodes, when asked to.

An ordinary install is pure Python. `CAUSALCAST_COMPILE=1` (see `make compile`) compiles the modules
listed here from the same sources; they behave the same and run several times as fast.
"""

import os
from pathlib import Path

from setuptools import setup

COMPILED_PACKAGES = ("core", "parts", "detectors", "overlays", "protocols", "simulator")
FURTHER_MODULES = (
    "trace/recorder.py",  # what a simulation calls for every row it writes
    # What a real node calls for every message.
    "runtime/held_steps.py",
    "runtime/host.py",
    "runtime/inbox.py",
    "runtime/links/outlet.py",
    "runtime/received_message.py",
    "runtime/security/admission.py",
    "runtime/security/rights.py",
    "runtime/stepping_host.py",
    "runtime/storage/journal.py",
    "wire/framing.py",
    "wire/runs.py",
)
# These read files and build tables; nothing is gained, and they lean on untyped libraries.
INTERPRETED = (
    "simulator/scenario.py",
    "simulator/runner.py",
    "simulator/directed_run.py",
    "simulator/run_result.py",
    "simulator/saved_graph.py",
)


def modules_to_compile() -> list[str]:
    """The paths of all modules that mypyc is to compile."""
    root = Path("src/causalcast")
    return [str(root / module) for module in FURTHER_MODULES] + [
        str(path)
        for package in COMPILED_PACKAGES
        for path in sorted((root / package).glob("*.py"))
        if path.name != "__init__.py" and str(path.relative_to(root)) not in INTERPRETED
    ]


if os.environ.get("CAUSALCAST_COMPILE") == "1":
    from mypyc.build import mypycify

    level = os.environ.get("CAUSALCAST_OPTIMIZE", "3")  # of the C compiler; 0 is soon done
    setup(
        ext_modules=mypycify(
            modules_to_compile(),
            opt_level=level,
            debug_level="0",
            # One file of a hundred megabytes lets the compiler inline across modules. Where it is
            # not to optimize anything, a file per module takes it a third of the time.
            multi_file=level == "0",
        )
    )
else:
    setup()
