"""Who may publish to which group, and who may be a member of it.

    [rights.alerts]
    publish = [1, 2]       # "*" unless it is said
    subscribe = [1, 2, 3]

All nodes of a cluster have the same rights; they compare them in their greetings.
"""

from collections.abc import Sequence
from typing import Any, Final

from causalcast.core.groups import Groups
from causalcast.core.ids import GroupId, NodeId
from causalcast.errors import ConfigError
from causalcast.toml_table import Table

EVERYBODY: Final = "*"


class Rights:
    """What is not said is allowed to everybody."""

    def __init__(self) -> None:
        self._publishers: dict[GroupId, frozenset[NodeId]] = {}
        self._subscribers: dict[GroupId, frozenset[NodeId]] = {}

    @staticmethod
    def read(table: Table, groups: Groups) -> "Rights":
        """From the tables `[rights.GROUP]`."""
        rights = Rights()
        for name in groups.names:
            inner = table.table(name)
            group = groups.id_of(name)
            for key, holders in (
                ("publish", rights._publishers),
                ("subscribe", rights._subscribers),
            ):
                given = inner.anything(key, EVERYBODY)
                if given == EVERYBODY:
                    continue
                if not isinstance(given, list) or not all(type(node) is int for node in given):
                    raise inner.wrong(key, given, "'*' or a list of node ids")
                holders[group] = frozenset(NodeId(node) for node in given)
            inner.finish()
        table.finish()
        return rights

    def check_members(self, groups: Groups, where: str) -> None:
        """ConfigError for a founding member that may not be one."""
        for group in self._subscribers:
            for node in groups.members_of(group):
                if not self.may_subscribe(node, group):
                    name = groups.names[group]
                    raise ConfigError(
                        f"{where}: groups.{name} has node {node}, "
                        f"and rights.{name}.subscribe has not"
                    )

    def limits_members(self) -> bool:
        """Whether there is a group that not everybody may be a member of."""
        return bool(self._subscribers)

    def limits_publishers(self) -> bool:
        """Whether there is a group that not everybody may publish to."""
        return bool(self._publishers)

    def may_publish(self, node: NodeId, group: GroupId) -> bool:
        """Whether others take from `node` what it publishes to `group`."""
        allowed = self._publishers.get(group)
        return allowed is None or node in allowed

    def may_subscribe(self, node: NodeId, group: GroupId) -> bool:
        """Whether `node` may be a member of `group`."""
        allowed = self._subscribers.get(group)
        return allowed is None or node in allowed

    def facts(self, names: Sequence[str]) -> dict[str, Any]:
        """What nodes compare; empty where everybody may everything."""
        return {
            kind: {names[group]: sorted(nodes) for group, nodes in sorted(holders.items())}
            for kind, holders in (("publish", self._publishers), ("subscribe", self._subscribers))
            if holders
        }
