"""The version, alone in a file so that the build can read it without importing anything."""

VERSION = "0.1.0"


def build_kind() -> str:
    """Whether the modules that are made for it are compiled: `compiled` or `interpreted`."""
    from importlib.util import find_spec

    found = find_spec("causalcast.core.outbox")
    assert found is not None
    return "interpreted" if (found.origin or "").endswith(".py") else "compiled"
