"""Scenarios and examples that came with the package, found by name."""

import difflib
from pathlib import Path

from causalcast.errors import ConfigError

PACKAGE = Path(__file__).parent
KINDS = {"scenarios": ".toml", "examples": ".py", "past_failures": ".toml"}
ELSEWHERE = {"past_failures": "tests/simulation/past_failures"}  # in a checkout


def samples(kind: str) -> list[Path]:
    """The files of a kind: inside the installed package, or in the checkout that it runs from."""
    checkout = PACKAGE.parent.parent / ELSEWHERE.get(kind, kind)
    for folder in (PACKAGE / "samples" / kind, checkout):
        if folder.is_dir():
            return sorted(folder.glob(f"*{KINDS[kind]}"))
    return []


def sample(kind: str, name: str) -> Path:
    """The file of this name, or an error that names those that are there."""
    by_name = {path.stem: path for path in samples(kind)}
    if name in by_name:
        return by_name[name]
    near = difflib.get_close_matches(name, by_name, 3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"`causalcast {kind}` lists them"
    raise ConfigError(f"no {kind[:-1]} is called {name!r}; {hint}")


def scenario_file(name: str | Path) -> Path:
    """The TOML file at this path, or the scenario of this name."""
    path = Path(name)
    if path.suffix == ".toml" or path.exists():
        return path
    return sample("scenarios", str(name))
