"""Who may publish to which group, and who may be a member of it.

    [rights.alerts]
    publish = [1, 2]       # "*" unless it is said
    subscribe = [1, 2, 3]

    [rights."doc/*"]       # of groups made while the cluster runs
    create = [1]

All nodes of a cluster have the same rights; they compare them in their greetings.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from causalcast.core.groups import Groups
from causalcast.core.ids import GroupId, NodeId
from causalcast.errors import ConfigError
from causalcast.toml_table import Table

EVERYBODY: Final = "*"


class GroupPatterns:
    """What is said of groups that are made while the cluster runs, by prefixes of their names.

    Of all prefixes that fit, the longest counts.
    """

    def __init__(self) -> None:
        self.members: dict[str, frozenset[NodeId] | None] = {}  # by prefix; None: everybody
        self._rights: dict[str, dict[str, frozenset[NodeId] | None]] = {}

    @property
    def limits_publishers(self) -> bool:
        """Whether there is a prefix under which not everybody may publish."""
        return any(rights["publish"] is not None for rights in self._rights.values())

    def read_rights(self, table: Table) -> None:
        """From the tables `[rights."PREFIX*"]`."""
        for name in table.patterns():
            inner = table.table(name)
            self._rights[name[:-1]] = {
                kind: _holders(inner, kind) for kind in ("create", "publish", "subscribe")
            }
            inner.finish()

    def is_member(self, node: NodeId, name: str) -> bool:
        """Whether a node is a member from the moment the group is made."""
        prefix = _longest(self.members, name)
        if prefix is None:
            return False
        members = self.members[prefix]
        return members is None or node in members

    def may_create(self, node: NodeId, name: str) -> bool:
        """Whether a node may make, or remove, a group."""
        return self._may("create", node, name)

    def may_publish(self, node: NodeId, name: str) -> bool:
        """Whether others take what it publishes there."""
        return self._may("publish", node, name)

    def may_subscribe(self, node: NodeId, name: str) -> bool:
        """Whether it may be a member."""
        return self._may("subscribe", node, name)

    def facts(self) -> dict[str, Any]:
        """What nodes compare; empty where nothing is said."""
        found: dict[str, Any] = {}
        for prefix, members in sorted(self.members.items()):
            found[f"{prefix}* members"] = EVERYBODY if members is None else sorted(members)
        for prefix, rights in sorted(self._rights.items()):
            for kind, holders in rights.items():
                if holders is not None:
                    found[f"{prefix}* {kind}"] = sorted(holders)
        return found

    def _may(self, kind: str, node: NodeId, name: str) -> bool:
        prefix = _longest(self._rights, name)
        holders = None if prefix is None else self._rights[prefix][kind]
        return holders is None or node in holders


def _longest(prefixes: Iterable[str], name: str) -> str | None:
    fitting = [prefix for prefix in prefixes if name.startswith(prefix)]
    return max(fitting, key=len, default=None)


def _holders(table: Table, key: str) -> frozenset[NodeId] | None:
    given = table.anything(key, EVERYBODY)
    if given == EVERYBODY:
        return None
    if not isinstance(given, list) or not all(type(node) is int for node in given):
        raise table.wrong(key, given, "'*' or a list of node ids")
    return frozenset(NodeId(node) for node in given)


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
                given = _holders(inner, key)
                if given is not None:
                    holders[group] = given
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
