"""Says which modules are compiled, and builds them side by side.

`build_backend.py` decides whether a wheel is compiled. What is listed here is compiled by mypyc
from the same sources that are interpreted elsewhere; it behaves the same and runs several times as
fast.
"""

import hashlib
import os
import re
import shutil
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

COMPILED_PACKAGES = (
    "core",
    "parts",
    "datagrams",
    "detectors",
    "overlays",
    "protocols",
    "simulator",
)
FURTHER_MODULES = (
    "limits.py",  # read for every message
    "trace/recorder.py",  # what a simulation calls for every row it writes
    "trace/log_rows.py",  # and a real node
    # What a real node calls for every message.
    "runtime/host/acknowledgements.py",
    "runtime/host/acquaintances.py",
    "runtime/host/arrivals.py",
    "runtime/host/back_pressure.py",
    "runtime/host/effects.py",
    "runtime/host/held_steps.py",
    "runtime/host/host.py",
    "runtime/host/inbox.py",
    "runtime/host/link_listener.py",
    "runtime/host/observed.py",
    "runtime/host/parts.py",
    "runtime/host/publishing.py",
    "runtime/host/rows.py",
    "runtime/host/running.py",
    "runtime/host/sending.py",
    "runtime/host/step_state.py",
    "runtime/host/steps.py",
    "runtime/host/timers.py",
    "runtime/host/turns.py",
    "runtime/links/outlet.py",
    "runtime/links/traffic.py",
    "runtime/observing/histogram.py",
    "runtime/machine.py",
    "runtime/metadata.py",
    "runtime/received_message.py",
    "runtime/security/admission.py",
    "runtime/security/rights.py",
    "runtime/storage/journal.py",
    "wire/framing.py",
    "wire/runs.py",
)
# These read files and build tables; nothing is gained, and they lean on untyped libraries.
INTERPRETED = (
    "simulator/scenarios/scenario.py",
    "simulator/runner.py",
    "simulator/scenario_run.py",
    "simulator/directed_run.py",
    "simulator/run_result.py",
    "simulator/plain_result.py",
    "simulator/preparing.py",
    "simulator/scenarios/saved_graph.py",
    "simulator/scenarios/graph_table.py",
    "simulator/scenarios/network_table.py",
    "simulator/scenarios/world_table.py",
    "simulator/scenarios/limits_table.py",
)
OBJECTS = Path("build/objects")  # object files of earlier builds, by what they were made from


def readme_for_an_index() -> str:
    """The README with links that also work where only this page is shown, as on a package index."""
    home = tomllib.loads(Path("pyproject.toml").read_text())["project"]["urls"]["Homepage"]
    text = Path("README.md").read_text(encoding="utf-8")
    text = re.sub(r"(!\[[^\]]*\])\((?!https?://)([^)#]+)\)", rf"\1({home}/raw/main/\2)", text)
    return re.sub(
        r"(?<!!)(\[[^\]]*\])\((?!https?://|#)([^)]+)\)", rf"\1({home}/blob/main/\2)", text
    )


DESCRIPTION = {
    "long_description": readme_for_an_index(),
    "long_description_content_type": "text/markdown",
}


def modules_to_compile() -> list[str]:
    """The paths of all modules that mypyc is to compile."""
    root = Path("src/causalcast")
    return [str(root / module) for module in FURTHER_MODULES] + [
        str(path)
        for package in COMPILED_PACKAGES
        for path in sorted((root / package).rglob("*.py"))
        if path.name != "__init__.py" and str(path.relative_to(root)) not in INTERPRETED
    ]


class BuildWithSamples(build_py):
    """Takes scenarios, examples and past failures into the package: they are found by name."""

    def run(self) -> None:
        """Copy them beside the modules."""
        super().run()
        if self.editable_mode:
            return  # it runs from the checkout, where they are anyway
        for place, ending in (
            ("scenarios", ".toml"),
            ("examples", ".py"),
            ("tests/simulation/past_failures", ".toml"),
        ):
            folder = Path(self.build_lib, "causalcast", "samples", Path(place).name)
            folder.mkdir(parents=True, exist_ok=True)
            for path in sorted(Path(place).glob(f"*{ending}")):
                shutil.copyfile(path, folder / path.name)


class BuildSideBySide(build_ext):
    """Compiles every C file by itself, on all cores, unless an earlier build did it already."""

    def build_extensions(self) -> None:
        """Compile all files of all extensions first, then link each extension."""
        headers = hashlib.sha256()
        for path in sorted(Path(self.build_temp, "c").rglob("*.h")):
            headers.update(path.read_bytes())
        self._common = headers.hexdigest()
        jobs = [
            (extension, source) for extension in self.extensions for source in extension.sources
        ]
        # The longest first, so that no core waits for the last file.
        jobs.sort(key=lambda job: -os.path.getsize(job[1]))
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            objects = dict(zip(map(_key, jobs), pool.map(self._object, jobs), strict=True))
            list(pool.map(lambda extension: self._link(extension, objects), self.extensions))

    def _object(self, job: tuple[Extension, str]) -> str:
        extension, source = job
        made_from = hashlib.sha256(Path(source).read_bytes())
        made_from.update(self._common.encode())
        flags = [self.compiler.compiler_so, extension.extra_compile_args, extension.include_dirs]
        made_from.update(repr([sys.version, self.compiler.include_dirs, *flags]).encode())
        kept = OBJECTS / f"{made_from.hexdigest()[:32]}.o"
        if not kept.exists():
            (made,) = self.compiler.compile(
                [source],
                output_dir=str(Path(self.build_temp, "o")),
                include_dirs=extension.include_dirs,
                extra_postargs=extension.extra_compile_args,
            )
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(made, kept.with_suffix(f".{os.getpid()}"))
            os.replace(kept.with_suffix(f".{os.getpid()}"), kept)
        return str(kept)

    def _link(self, extension: Extension, objects: dict[tuple[str, str], str]) -> None:
        self.compiler.link_shared_object(
            [objects[extension.name, source] for source in extension.sources],
            self.get_ext_fullpath(extension.name),
            extra_postargs=["-s"],  # names are of no use to anybody, and half of the size
        )


def _key(job: tuple[Extension, str]) -> tuple[str, str]:
    return job[0].name, job[1]


def compiled_package() -> None:
    """Build with everything compiled that is listed above."""
    from mypyc.build import mypycify

    temporary = "build/mypyc"
    setup(
        **DESCRIPTION,
        cmdclass={"build_py": BuildWithSamples, "build_ext": BuildSideBySide},
        options={"build": {"build_temp": temporary}},
        ext_modules=mypycify(
            # What is not compiled may lean on libraries that are not there when this is built.
            ["--follow-imports=silent", *modules_to_compile()],
            # Of the C compiler; 3 takes a tenth longer.
            opt_level=os.environ.get("CAUSALCAST_OPTIMIZE", "2"),
            debug_level="0",
            multi_file=True,
            target_dir=f"{temporary}/c",
        ),
    )


# pip asks for the metadata first; nothing need be compiled for that.
if os.environ.get("CAUSALCAST_COMPILE") == "1" and "bdist_wheel" in sys.argv:
    compiled_package()
else:
    setup(**DESCRIPTION, cmdclass={"build_py": BuildWithSamples})
