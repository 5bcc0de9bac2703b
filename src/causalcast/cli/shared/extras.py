"""What commands need beside the plain install, and how to get it; asked before any work begins."""

import importlib.util

from causalcast.errors import MissingDependency

# The packages by which we notice whether an extra of pyproject.toml is installed.
PACKAGES = {
    "tools": ("pyarrow", "numpy", "matplotlib"),
    "spark": ("pyarrow", "numpy", "matplotlib", "pandas", "pyspark"),
}


def missing(extra: str) -> list[str]:
    """The packages of an extra that are not installed."""
    return [name for name in PACKAGES[extra] if importlib.util.find_spec(name) is None]


def require(extra: str, for_what: str, otherwise: str = "") -> None:
    """Refuse to begin without an extra, and say what to type instead."""
    lacking = missing(extra)
    if lacking:
        raise MissingDependency(
            f"{for_what} needs {', '.join(lacking)}: pip install 'causalcast[{extra}]'{otherwise}"
        )
