"""Which groups there are at this node: those of its file, and those made while the cluster runs."""

import asyncio
from collections.abc import Callable
from typing import final

from causalcast.core.blueprint import Blueprint
from causalcast.core.groups import Groups
from causalcast.core.ids import GroupId, NodeId, origin_of
from causalcast.core.made_groups import FIRST_MADE, MadeGroups, News, decode_news
from causalcast.core.message import Publication
from causalcast.core.outbox import Outbox
from causalcast.core.spec import ProtocolSpec
from causalcast.core.stack import Stack
from causalcast.errors import ConfigError, NodeError
from causalcast.limits import Limit
from causalcast.runtime.host.inbox import Inbox
from causalcast.runtime.host.newcomers import is_about_states
from causalcast.runtime.host.observed import Observed
from causalcast.runtime.host.rows import Rows
from causalcast.runtime.host.step_state import StepState
from causalcast.runtime.metadata import payload_in
from causalcast.runtime.node_trace import JOIN, LEAVE
from causalcast.runtime.security.rights import GroupPatterns

MOST_MADE = Limit(
    "runtime.host.group_directory.most_made",
    100_000,
    least=1,
    most=1 << 22,
    unit="names",
    about="groups made at run time, those that were removed among them",
)
LONGEST_NAME = Limit(
    "runtime.host.group_directory.longest_name",
    200,
    least=1,
    most=4096,
    unit="characters",
    about="the name of a group made at run time",
)

# Hears the name of a group, and whether there is one from now on.
OnGroups = Callable[[str, bool], object]


def check_made_name(name: str) -> None:
    """Raise NodeError unless a group that is made may be called this."""
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME.value:
        raise NodeError(
            f"{name!r} is no name of a group: a text of 1 to {LONGEST_NAME.value} characters"
        )
    if not name.isprintable() or name.endswith("*"):
        raise NodeError(
            f"{name!r} is no name of a group: expected printable characters, and no '*' at the "
            "end, which stands for a prefix"
        )


def check_offers_made(protocol: ProtocolSpec) -> None:
    """Raise NodeError where groups cannot be made."""
    if "made_groups" not in protocol.offers:
        raise NodeError(
            f"{protocol.name} cannot make groups while it runs: not everything reaches every node "
            "in causal order, or nodes come that do not know what was made; list the group in "
            "[groups] of all nodes, or choose a protocol that offers made_groups (`causalcast "
            "protocols`)"
        )


@final
class GroupDirectory:
    """Names and ids of groups. What it learns it learns from publications, in causal order."""

    def __init__(
        self,
        me: NodeId,
        blueprint: Blueprint,
        patterns: GroupPatterns,
        made: MadeGroups,
        stack: Stack,
        inbox: Inbox,
        out: Outbox,
        state: StepState,
        rows: Rows,
        observed: Observed,
    ) -> None:
        self.made = made
        self.listeners: list[OnGroups] = []
        self.on_states: Callable[[NodeId, bytes], None] | None = None  # hears news of states
        self._making: set[str] = set()  # groups that this node makes: it is in them at once
        # Hears of it before anything that is delivered behind it.
        self.at_once: Callable[[str, GroupId, bool], None] | None = None
        self._me = me
        self._founded: Groups = blueprint.groups
        self._protocol = blueprint.protocol
        self._patterns = patterns
        self._stack = stack
        self._inbox = inbox
        self._out = out
        self._state = state
        self._rows = rows
        self._observed = observed
        for name in self._founded.names:
            if made.id_of(name) is not None:
                raise ConfigError(
                    f"groups.{name}: a group of this name was made while the cluster ran; remove "
                    "that one first (`node.remove_group`), or choose another name"
                )

    # Names

    def names(self) -> list[str]:
        """All groups that there are."""
        return [*self._founded.names, *self.made.names()]

    def name_of(self, group: GroupId) -> str:
        """What a group is called; one that was removed has no name any more."""
        if group < FIRST_MADE:
            return self._founded.names[group]
        return self.made.name_of(group) or f"(removed {group})"

    def id_of(self, name: str) -> GroupId:
        """The id of a group; NodeError if there is none."""
        made = self.made.id_of(name)
        if made is not None:
            return made
        try:
            return self._founded.id_of(name)
        except KeyError:
            pass
        known = ", ".join(self._founded.names)
        more = ""
        if len(self.made):
            more = f", and {len(self.made)} that were made (`node.groups()`)"
        raise NodeError(f"no group {name!r} (this cluster has: {known}{more})")

    def is_there(self, group: GroupId) -> bool:
        """Whether it was not removed."""
        return group < FIRST_MADE or self.made.has(group)

    def refusal(self, group: GroupId) -> str:
        """Why nobody can use a group that was made; empty if one can."""
        if not self.made.has(group):
            return "it was removed"
        if self.made.is_contested(group):
            return (
                "its number is also that of another group, which was made elsewhere at the same "
                "time; remove it, and make it under another name"
            )
        return ""

    # Rights

    def may_publish(self, node: NodeId, group: GroupId) -> bool:
        """Whether a node may publish to a group that was made."""
        name = self.made.name_of(group)
        return not name or self._patterns.may_publish(node, name)

    def may_subscribe(self, group: GroupId) -> bool:
        """Whether this node may be a member of a group that was made."""
        return self._patterns.may_subscribe(self._me, self.made.name_of(group))

    # Making and removing

    def news_of_making(self, name: str) -> News | None:
        """What to publish so that there is such a group; None if there is one."""
        check_offers_made(self._protocol)
        check_made_name(name)
        if name in self._founded.names or self.made.id_of(name) is not None:
            return None
        if not self._patterns.may_create(self._me, name):
            raise NodeError(
                f"no right to make {name!r}; list node {self._me} under create in [rights] of its "
                "prefix at all nodes"
            )
        if self.made.known_names() >= MOST_MADE.value:
            raise NodeError(
                f"{MOST_MADE.value} groups were made, those that were removed among them; there "
                "may not be more (`causalcast limits`)"
            )
        self._making.add(name)
        return self.made.making(name)

    def news_of_removing(self, name: str) -> News:
        """What to publish so that there is no such group any more."""
        check_offers_made(self._protocol)
        if name in self._founded.names:
            raise NodeError(f"{name!r} is a group of [groups]: only those that were made go")
        if self.made.id_of(name) is None:
            raise NodeError(f"no group {name!r} that was made")
        if not self._patterns.may_create(self._me, name):
            raise NodeError(f"no right to remove {name!r}; who may create it may remove it")
        return self.made.removing(name)

    # What is delivered

    def takes(self, publication: Publication) -> bool:
        """Whether a delivery to a group that was made may reach the application."""
        group, origin = publication.group, origin_of(publication.id)
        if self.made.is_contested(group):
            self._observed.notes["groups.contested"] += 1
            return False
        if not self.may_publish(origin, group):
            self._observed.notes["groups.without_right"] += 1
            return False
        return True

    def hear(self, publication: Publication) -> bool:
        """News of groups are delivered, in the step that is under way. False if they are refused,
        and need not be kept."""
        body = payload_in(publication.body)
        origin = origin_of(publication.id)
        if is_about_states(body):
            if self.on_states is not None:
                self._state.later(self.on_states, origin, body)
            return False
        news = decode_news(body) if "made_groups" in self._protocol.offers else None
        if news is None or len(news.name) > LONGEST_NAME.value:
            self._observed.notes["groups.nonsense"] += 1
            return False
        if news.name in self._founded.names or not self._patterns.may_create(origin, news.name):
            self._observed.notes["groups.without_right"] += 1
            return False
        if self.made.known_names() >= 2 * MOST_MADE.value:
            self._observed.tell_once("groups_full", origin, "more groups are made than may be")
            return False
        change = self.made.take(news)
        for group in change.removed:
            self._end(group, news.name)
        for group in change.made:
            self._begin(group, news.name, origin)
        for group in change.contested:
            self._observed.tell("group_contested", origin, f"{news.name!r}: {self.refusal(group)}")
        return True

    def _begin(self, group: GroupId, name: str, origin: NodeId) -> None:
        """Who makes a group is in it from its first moment on, as those are whom a prefix names:
        nothing that is published to it passes them by."""
        is_maker = origin == self._me and name in self._making
        self._making.discard(name)
        is_member = is_maker or self._patterns.is_member(self._me, name)
        if is_member and self.may_subscribe(group):
            self._stack.note_joined(group)
            self._out.joins.append(group)
            self._rows.of_step((self._state.at_us, JOIN, -1, group, -1, -1, -1, -1, None))
        self._state.later(self._tell, name, group, True)

    def _end(self, group: GroupId, name: str) -> None:
        if group in self._stack.groups:
            self._stack.groups = {one: None for one in self._stack.groups if one != group}
            self._state.left.append(group)
            self._rows.of_step((self._state.at_us, LEAVE, -1, group, -1, -1, -1, -1, None))
        self._state.later(self._forget, group)
        self._state.later(self._tell, name, group, False)

    def _forget(self, group: GroupId) -> None:
        self._inbox.forget(group)
        self._observed.published_in.pop(group, None)
        self._observed.delivered_in.pop(group, None)

    def _tell(self, name: str, group: GroupId, is_there: bool) -> None:
        if self.at_once is not None:
            self.at_once(name, group, is_there)
        loop = asyncio.get_running_loop()
        for listener in self.listeners:
            loop.call_soon(listener, name, is_there)
