"""Says which requirements of the README's commands have no wheel for some machine or Python.

    python scripts/check_wheels.py              every pair below; exit code 1 if anything lacks one
    python scripts/check_wheels.py --python 3.13 --machine aarch64

`make demo`, `make test`, `make lint` and `make compile` install what stands in pyproject.toml for
their extras, in the versions of constraints.txt. A requirement without a wheel is built on the
user's machine, which needs a compiler that may not be there. pip is asked which versions have a
wheel for each pair of machine and Python; nothing is downloaded.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

ROOT = Path(__file__).parent.parent
EXTRAS = ("spark", "connect", "dev")  # what the targets of the Makefile install
OTHERS = ("bench", "fuzz", "fast")  # what they do not: some of it has few wheels
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
MACHINES = ("x86_64", "aarch64")
OLDEST_GLIBC, NEWEST_GLIBC = 5, 28  # glibc 2.28 is on every Linux since 2019
# No wheel is published of these, and none is needed: the sdist is pure Python.
PURE_SDISTS = ("pyspark",)
ANYWHERE = ("any", "3.11")  # for wheels of pure Python
NOTHING = "No matching distribution found"


def main() -> int:
    """Ask for every pair, tell what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", choices=PYTHONS, action="append")
    parser.add_argument("--machine", choices=MACHINES, action="append")
    options = parser.parse_args()
    wanted = {name: pin for name, pin in packages().items() if name not in PURE_SDISTS}
    with ThreadPoolExecutor(2 * (os.cpu_count() or 1)) as pool:  # pip mostly waits for answers
        pure = set(lacking_none(pool, wanted, *ANYWHERE))
        native = {name: pin for name, pin in wanted.items() if name not in pure}
        failed = 0
        for machine, python in product(options.machine or MACHINES, options.python or PYTHONS):
            lacking = sorted(set(native) - set(lacking_none(pool, native, machine, python)))
            told = f"no wheel of {', '.join(lacking)}" if lacking else "all wheels"
            print(f"{machine:8} Python {python}: {told}", flush=True)
            failed += bool(lacking)
    print(
        f"{len(wanted)} packages, {len(pure)} of them pure Python;"
        f" built from a pure sdist: {', '.join(PURE_SDISTS)}"
    )
    return 1 if failed else 0


def packages() -> dict[str, str]:
    """What the targets install, with the version of constraints.txt where there is one."""
    pins = dict(
        line.lower().replace("_", "-").split("==")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line
    )
    required = direct_requirements(EXTRAS)
    only_others = direct_requirements(OTHERS) - required
    return {
        **dict.fromkeys(required, ""),
        **{name: pin for name, pin in pins.items() if name not in only_others},
    }


def direct_requirements(of_extras: tuple[str, ...]) -> set[str]:
    """The names that pyproject.toml lists for the package itself and for these extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found: set[str] = set()
    waiting = [*project["dependencies"], *(f"causalcast[{name}]" for name in of_extras)]
    while waiting:
        requirement = waiting.pop(0)
        name = re.split(r"[\[<>=!;~ ]", requirement, maxsplit=1)[0].lower().replace("_", "-")
        if name == "causalcast":
            for extra in requirement.partition("[")[2].partition("]")[0].split(","):
                waiting += project["optional-dependencies"][extra.strip()]
        else:
            found.add(name)
    return found


def lacking_none(
    pool: ThreadPoolExecutor, wanted: dict[str, str], machine: str, python: str
) -> list[str]:
    """Those that have a wheel there."""
    found = pool.map(lambda name: has_wheel(name, wanted[name], machine, python), wanted)
    return [name for name, has in zip(wanted, found, strict=True) if has]


def has_wheel(name: str, pin: str, machine: str, python: str) -> bool:
    """Whether pip finds a wheel of this version (of any, without a pin)."""
    if machine == "any":
        target = ["--platform", "any", "--implementation", "py", "--abi", "none"]
    else:
        tags = [f"manylinux_2_{minor}_{machine}" for minor in range(OLDEST_GLIBC, NEWEST_GLIBC + 1)]
        tags += [f"{year}_{machine}" for year in ("manylinux1", "manylinux2010", "manylinux2014")]
        target = [word for tag in tags for word in ("--platform", tag)]
        target += ["--implementation", "cp"]
    command = [sys.executable, "-m", "pip", "index", "versions", name, "--json", *target]
    command += ["--python-version", python, "--only-binary", ":all:", "--disable-pip-version-check"]
    if re.search("[a-z]", pin):  # of some packages there is nothing else
        command.append("--pre")
    for attempt in range(3):  # a registry may be out of reach for a moment
        time.sleep(5 * attempt)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            versions = json.loads(done.stdout)["versions"]
            return pin in versions if pin else bool(versions)
        # pip says so, too, if nobody answered it; most packages have no wheel for any machine.
        if NOTHING in done.stderr and (machine == "any" or attempt == 2):
            return False
    raise SystemExit(f"pip index versions {name}: {done.stderr.strip()}")


if __name__ == "__main__":
    sys.exit(main())
