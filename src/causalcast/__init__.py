"""Reliable causal multicast: no subscriber ever sees an effect before its cause."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from causalcast import version
from causalcast.errors import MissingDependency

if TYPE_CHECKING:
    from causalcast.pipeline.report_runs import report
    from causalcast.pipeline.verify import verify
    from causalcast.runtime.node import Node
    from causalcast.runtime.operating.opening import open, open_sync  # noqa: A004
    from causalcast.runtime.sync_node import SyncGroup, SyncNode
    from causalcast.simulator.runner import simulate

__version__ = version.VERSION
__all__ = [
    "Node",
    "SyncGroup",
    "SyncNode",
    "__version__",
    "open",
    "open_sync",
    "report",
    "simulate",
    "verify",
]

_MODULES = {
    "Node": "runtime.node",
    "open": "runtime.operating.opening",
    "SyncGroup": "runtime.sync_node",
    "SyncNode": "runtime.sync_node",
    "open_sync": "runtime.operating.opening",
    "report": "pipeline.report_runs",
    "simulate": "simulator.runner",
    "verify": "pipeline.verify",
}


def __dir__() -> list[str]:
    """All public names, also those that nobody has asked for yet."""
    return sorted({*globals(), *__all__})


_OF_TOOLS = ("matplotlib", "numpy", "pyarrow")


def __getattr__(name: str) -> Any:
    """Load things only when somebody asks for them, so that importing the package is cheap."""
    if name not in _MODULES:
        raise AttributeError(f"module 'causalcast' has no attribute {name!r}")
    try:
        return getattr(import_module(f"causalcast.{_MODULES[name]}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in _OF_TOOLS:
            raise MissingDependency(
                f"causalcast.{name} needs {error.name}: pip install 'causalcast[tools]'"
            ) from None
        raise
