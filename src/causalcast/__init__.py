"""Reliable causal multicast: no subscriber ever sees an effect before its cause."""

from typing import TYPE_CHECKING, Any

from causalcast import version

if TYPE_CHECKING:
    from causalcast.pipeline.any_table import verify
    from causalcast.runtime.node import Node, open  # noqa: A004
    from causalcast.runtime.sync_node import SyncGroup, SyncNode, open_sync

__version__ = version.VERSION
__all__ = ["Node", "SyncGroup", "SyncNode", "__version__", "open", "open_sync", "verify"]


def __getattr__(name: str) -> Any:
    """Load things only when somebody asks for them, so that importing the package is cheap."""
    if name in ("Node", "open"):
        from causalcast.runtime import node

        return getattr(node, name)
    if name in ("SyncGroup", "SyncNode", "open_sync"):
        from causalcast.runtime import sync_node

        return getattr(sync_node, name)
    if name == "verify":
        from causalcast.pipeline import any_table

        return any_table.verify
    raise AttributeError(f"module 'causalcast' has no attribute {name!r}")
