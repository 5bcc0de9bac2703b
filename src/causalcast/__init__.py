"""Reliable causal multicast: no subscriber ever sees an effect before its cause."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from causalcast import version
from causalcast.errors import MissingDependency

if TYPE_CHECKING:
    from causalcast.any_node import AnyGroup, AnyMessage, AnyNode, AnyReceipt
    from causalcast.clients.connect import RemoteNode, connect
    from causalcast.clients.connect_sync import (
        SyncRemoteGroup,
        SyncRemoteMessage,
        SyncRemoteNode,
        connect_sync,
    )
    from causalcast.clients.remote_group import (
        RemoteGroup,
        RemoteGroups,
        RemoteMessage,
        RemoteReceipt,
    )
    from causalcast.pipeline.report_runs import report
    from causalcast.pipeline.verify import verify
    from causalcast.runtime.node import Group, Node, Receipt
    from causalcast.runtime.operating.opening import open, open_sync  # noqa: A004
    from causalcast.runtime.reader import Reader
    from causalcast.runtime.received_message import ReceivedMessage
    from causalcast.runtime.sync_node import (
        SyncGroup,
        SyncMessage,
        SyncNode,
        SyncReader,
        SyncReceipt,
    )
    from causalcast.simulator.runner import simulate
    from causalcast.typed_groups import TypedGroup, TypedMessage, TypedReader
    from causalcast.typed_sync_groups import SyncTypedGroup, SyncTypedMessage, SyncTypedReader

__version__ = version.VERSION
__all__ = [
    "AnyGroup",
    "AnyMessage",
    "AnyNode",
    "AnyReader",
    "AnyReceipt",
    "Group",
    "Node",
    "Reader",
    "Receipt",
    "ReceivedMessage",
    "RemoteGroup",
    "RemoteGroups",
    "RemoteMessage",
    "RemoteNode",
    "RemoteReceipt",
    "SyncGroup",
    "SyncMessage",
    "SyncNode",
    "SyncReader",
    "SyncReceipt",
    "SyncRemoteGroup",
    "SyncRemoteMessage",
    "SyncRemoteNode",
    "SyncTypedGroup",
    "SyncTypedMessage",
    "SyncTypedReader",
    "TypedGroup",
    "TypedMessage",
    "TypedReader",
    "__version__",
    "connect",
    "connect_sync",
    "open",
    "open_sync",
    "report",
    "simulate",
    "verify",
]

_MODULES = {
    "AnyGroup": "any_node",
    "AnyMessage": "any_node",
    "AnyNode": "any_node",
    "AnyReader": "any_node",
    "AnyReceipt": "any_node",
    "Group": "runtime.node",
    "Node": "runtime.node",
    "Reader": "runtime.reader",
    "Receipt": "runtime.node",
    "ReceivedMessage": "runtime.received_message",
    "RemoteGroup": "clients.remote_group",
    "RemoteGroups": "clients.remote_group",
    "RemoteMessage": "clients.remote_group",
    "RemoteNode": "clients.connect",
    "RemoteReceipt": "clients.remote_group",
    "SyncGroup": "runtime.sync_node",
    "SyncMessage": "runtime.sync_node",
    "SyncNode": "runtime.sync_node",
    "SyncReader": "runtime.sync_node",
    "SyncReceipt": "runtime.sync_node",
    "SyncRemoteGroup": "clients.connect_sync",
    "SyncRemoteMessage": "clients.connect_sync",
    "SyncRemoteNode": "clients.connect_sync",
    "SyncTypedGroup": "typed_sync_groups",
    "SyncTypedMessage": "typed_sync_groups",
    "SyncTypedReader": "typed_sync_groups",
    "TypedGroup": "typed_groups",
    "TypedMessage": "typed_groups",
    "TypedReader": "typed_groups",
    "connect": "clients.connect",
    "connect_sync": "clients.connect_sync",
    "open": "runtime.operating.opening",
    "open_sync": "runtime.operating.opening",
    "report": "pipeline.report_runs",
    "simulate": "simulator.runner",
    "verify": "pipeline.verify",
}


def __dir__() -> list[str]:
    """All public names, also those that nobody has asked for yet."""
    return sorted({*globals(), *__all__})


_OF_TOOLS = ("matplotlib", "numpy", "pyarrow")


def _loaded(name: str) -> Any:
    """Load things only when somebody asks for them, so that importing the package is cheap."""
    if name not in _MODULES:
        raise AttributeError(f"module 'causalcast' has no attribute {name!r}")
    try:
        return getattr(import_module(f"causalcast.{_MODULES[name]}"), name)
    except ModuleNotFoundError as error:
        lacking = (error.name or "").partition(".")[0]
        if lacking == "websockets":
            raise MissingDependency(
                f"causalcast.{name} needs {error.name}: pip install 'causalcast[clients]'"
            ) from None
        if lacking in _OF_TOOLS:
            raise MissingDependency(
                f"causalcast.{name} needs {error.name}: pip install 'causalcast[tools]'"
            ) from None
        raise


# Type checkers see the imports above: to them a misspelt name is one that does not exist.
if not TYPE_CHECKING:
    __getattr__ = _loaded
