"""Who belongs to which group at the start of a run."""

from typing import final

from causalcast.core.ids import GroupId, NodeId


@final
class Groups:
    """The founding members of every group, and the groups' names."""

    def __init__(self, members: dict[str, list[NodeId]]) -> None:
        self.names: list[str] = list(members)
        self._members = [dict.fromkeys(nodes) for nodes in members.values()]

    def id_of(self, name: str) -> GroupId:
        """The id of the group of that name; raises KeyError where there is none."""
        try:
            return GroupId(self.names.index(name))
        except ValueError:
            raise KeyError(name) from None

    def members_of(self, group: GroupId) -> list[NodeId]:
        """The founding members, in the order they were named."""
        return list(self._members[group])

    def groups_of(self, node: NodeId) -> list[GroupId]:
        """The groups `node` founded."""
        return [GroupId(g) for g, members in enumerate(self._members) if node in members]
