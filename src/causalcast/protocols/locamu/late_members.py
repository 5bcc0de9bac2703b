"""Where messages of a group lead: to its founders, and to those who joined by a message's epoch.

A node that wants to join says so to everybody; the group's coordinator, its first founder, admits
it with the next epoch. It is a member when it hears of that. Since a message names its epoch, every
node on its way leads it to the same members.
"""

from causalcast.core.groups import Groups
from causalcast.core.ids import GroupId, NodeId
from causalcast.core.spec import Setup


class LateMembers:
    """Epochs of groups, and the ways to members that joined; sizes go with groups, not nodes."""

    def __init__(self, setup: Setup) -> None:
        self.me = setup.me
        self._groups: Groups = setup.groups
        self._surroundings = setup.topology
        self._founded_by: dict[GroupId, list[NodeId]] = {}  # who within reach leads to founders
        self.epochs: dict[GroupId, int] = {}  # the last one heard of
        self.led: dict[GroupId, dict[NodeId, int]] = {}  # who else leads to members, from when on
        self.joining: dict[GroupId, dict[NodeId, list[NodeId]]] = {}  # the ways to joiners
        self.admitted = dict.fromkeys(setup.groups.groups_of(setup.me))
        self.withdrawn: dict[GroupId, None] = {}  # asked for, and not wanted any more
        self.gone: dict[NodeId, None] = {}  # nodes that never come back; not kept up here

    def __getstate__(self) -> dict[str, object]:
        """For searches that compare states: a cache is no part of the state."""
        return {**self.__dict__, "_founded_by": {}}

    def led_to(self, group: GroupId, epoch: int, within_reach: dict[NodeId, None]) -> list[NodeId]:
        """Those within reach that are members of that epoch, or have one behind them."""
        founders = self._founded_by.get(group)
        if founders is None:
            behind = self._surroundings.behind
            founders = [node for node in within_reach if behind(node, group)]
            self._founded_by[group] = founders
        led = self.led.get(group)
        if led is None or epoch == 0:
            return founders
        return [
            node
            for node in within_reach
            if node in founders or (node in led and led[node] <= epoch)
        ]

    def is_news(self, group: GroupId) -> bool:
        """Whether nobody was told yet that this node is in the group."""
        return group not in self.admitted and not self.is_open(group)

    def is_open(self, group: GroupId) -> bool:
        """Whether this node has asked to join the group, and was not admitted."""
        return self.me in self.joining.get(group, {})

    def asked_for(self) -> list[GroupId]:
        """The groups that this node wants to join, and somebody may admit it to."""
        return [
            group
            for group, joiners in self.joining.items()
            if self.me in joiners
            and group not in self.withdrawn
            and self.coordinator(group) not in self.gone
        ]

    def wish(self, group: GroupId, wanted: bool) -> None:
        """While it waits to be admitted, the node changes its mind about joining."""
        if wanted:
            self.withdrawn.pop(group, None)
        else:
            self.withdrawn[group] = None

    def waiting_for(self, coordinator: NodeId) -> list[GroupId]:
        """The groups that this node wants to join, and this coordinator is to admit it to."""
        return [
            group
            for group in self.joining
            if self.is_open(group)
            and group not in self.withdrawn
            and self.coordinator(group) == coordinator
        ]

    def refusal(self, group: GroupId, suspected: dict[NodeId, None]) -> str:
        """Why this node cannot join a group now; empty if it can."""
        coordinator = self.coordinator(group)
        if group in self.admitted:
            return ""
        if coordinator in self.gone:
            return f"node {coordinator}, which admits its new members, was declared gone"
        if coordinator in suspected:
            return f"node {coordinator}, which admits its new members, seems to be down"
        return ""

    def coordinator(self, group: GroupId) -> NodeId:
        """Who admits new members."""
        return min(self._groups.members_of(group) or self._surroundings.everybody())

    def remember_joiner(self, group: GroupId, joiner: NodeId, way: list[NodeId]) -> None:
        """Somebody wants to join; these nodes within reach lie on the way to it."""
        self.joining.setdefault(group, {})[joiner] = way

    def epoch_to_admit(self, group: GroupId) -> int:
        """The epoch in which to admit the next member; 0 if that is not for this node to do."""
        return self.epochs.get(group, 0) + 1 if self.coordinator(group) == self.me else 0

    def admit(self, group: GroupId, joiner: NodeId, epoch: int) -> bool:
        """Messages lead to the joiner from this epoch on; True if that makes this node a member."""
        self.epochs[group] = epoch
        led = self.led.setdefault(group, {})
        way = self.joining.get(group, {}).pop(joiner, None)
        for node in way or []:
            led.setdefault(node, epoch)
        if joiner != self.me:
            return False
        is_wanted = way is not None and group not in self.withdrawn  # nobody joins unasked
        self.admitted[group] = None
        self.withdrawn.pop(group, None)
        return is_wanted

    def restore(
        self,
        epochs: dict[GroupId, int],
        led: dict[GroupId, dict[NodeId, int]],
        joining: dict[GroupId, dict[NodeId, list[NodeId]]],
        admitted: list[GroupId],
    ) -> None:
        """What a snapshot says."""
        self.epochs = epochs
        self.led = led
        self.joining = joining
        # Founders always are; a group may have been added since the snapshot.
        self.admitted = dict.fromkeys([*self._groups.groups_of(self.me), *admitted])
