"""`causalcast scenarios` and `causalcast examples`: what came with the package, by name."""

import argparse
import ast
import json
from pathlib import Path
from typing import Any

from causalcast.errors import ConfigError
from causalcast.shipped import sample, samples, scenario_file

SCENARIO_HELP = "a TOML file, or a name that `causalcast scenarios` lists"


def add_to(subparsers: Any) -> None:
    """Declare both commands."""
    for kind, use in (
        ("scenarios", "causalcast simulate NAME --out RUN"),
        ("examples", "causalcast examples NAME > NAME.py"),
    ):
        parser = subparsers.add_parser(
            kind,
            description=f"List the {kind} that came with the package, or print one of them.",
            epilog=f"then: {use}",
        )
        parser.add_argument("name", nargs="?", metavar="NAME", help="print this one")
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.set_defaults(run=run, kind=kind)


def run(options: argparse.Namespace) -> int:
    """List them, or print one."""
    if options.name is not None:
        print(sample(options.kind, options.name).read_text(encoding="utf-8"), end="")
        return 0
    lines = {path.stem: first_sentence(path) for path in samples(options.kind)}
    if options.json:
        print(json.dumps({options.kind: lines}, indent=2, ensure_ascii=False))
        return 0
    width = max(map(len, lines)) + 2
    for name, line in lines.items():
        print(f"{name:{width}}{line}")
    return 0


def scenario_path(text: str) -> Path:
    """The type of an argument that is a TOML file, or the name of a scenario of the package."""
    try:
        return scenario_file(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def first_sentence(path: Path) -> str:
    """What a file says of itself first."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        said = ast.get_docstring(ast.parse(text)) or ""
    else:
        lines = text.splitlines()
        comment = next((n for n, line in enumerate(lines) if not line.startswith("#")), len(lines))
        said = "\n".join(line.lstrip("# ") for line in lines[:comment])
    paragraph = " ".join(said.partition("\n\n")[0].split())
    return paragraph.partition(". ")[0].rstrip(".:")
