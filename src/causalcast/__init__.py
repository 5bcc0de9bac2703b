"""Reliable causal multicast: no subscriber ever sees an effect before its cause."""

from typing import TYPE_CHECKING, Any

from causalcast import version

if TYPE_CHECKING:
    from causalcast.runtime.node import Node, open  # noqa: A004

__version__ = version.VERSION
__all__ = ["Node", "__version__", "open"]


def __getattr__(name: str) -> Any:
    """Load the runtime only when somebody asks for it, so that importing the package is cheap."""
    if name in ("Node", "open"):
        from causalcast.runtime import node

        return getattr(node, name)
    raise AttributeError(f"module 'causalcast' has no attribute {name!r}")
