"""What an earlier life of a node left in its storage, and who the node is in this one."""

import logging
from collections.abc import Callable

from causalcast.core.blueprint import Blueprint
from causalcast.errors import CausalcastError, JournalError, NodeError
from causalcast.runtime.lives import ADVICE, MOST_PAST, Life, PastLife
from causalcast.runtime.machine import Entropy, Machine
from causalcast.runtime.node_config import NodeConfig
from causalcast.runtime.storage import durable_entry
from causalcast.runtime.storage.durable_entry import (
    GROUPS,
    Identity,
    Memory,
    Started,
    names_in_words,
)
from causalcast.runtime.storage.journal import JournalFile
from causalcast.trace.node_log import NodeLog

log = logging.getLogger(__name__)


def identity_of(config: NodeConfig, digest: Callable[..., str], groups: int) -> Identity:
    """Whose journal it is that has the first so many groups.

    `digest` is over the protocol's messages and what else records depend on: the order of groups
    numbers them, and what was not signed cannot be delivered as signed.
    """
    names = config.blueprint.groups.names[:groups]
    signed = config.security.sign
    return Identity(
        config.node,
        config.cluster,
        # A life that kept nothing must not be taken for one that had nothing to keep.
        config.blueprint.protocol.name + ("" if config.durable else ", in memory"),
        digest(names, *(["signed"] if signed else [])),
        {GROUPS: names_in_words(names), "signed": "yes" if signed else "no"},
    )


class EarlierLife:
    """The journal file as it was found, what stood in it, and the life that begins with it."""

    def __init__(
        self,
        config: NodeConfig,
        blueprint: Blueprint,
        digest: Callable[..., str],
        machine: Machine,
    ) -> None:
        self.identity = identity_of(config, digest, len(blueprint.groups.names))
        self._digest = digest
        self._config = config
        self._blueprint = blueprint
        folder = config.storage
        if config.always_new and not config.contacts and machine.disk.exists(folder.parent):
            raise NodeError(
                f"{folder.parent}: an earlier life of this node founded the cluster; "
                "to come back it needs a [cluster] contact"
            )
        self.storage = JournalFile(folder / "journal", machine.disk)
        try:
            self.memory = self._read()
        except CausalcastError:
            self.storage.close()
            raise
        if self.storage.cut_bytes:
            log.info("cut %d bytes of a torn tail off the journal", self.storage.cut_bytes)
        self.starts = self.memory.starts + 1
        self.life = Life()  # nobody in particular, if the node keeps nothing
        self.lives: list[PastLife] = []  # this one and those before, the oldest first
        if config.restart() == "resume":
            self._begin_life(machine.entropy)

    def _read(self) -> Memory:
        config, blueprint = self._config, self._blueprint
        memory = Memory(config.node, blueprint.groups)
        try:
            memory.take_in(self.storage.found)
        except JournalError as error:
            raise self.storage.of_another_version(str(error)) from None
        groups = memory.groups_then()
        memory.check_identity(
            identity_of(config, self._digest, groups),
            config.restart(),
            config.storage,
            "new_groups" in blueprint.protocol.offers,
        )
        new = blueprint.groups.names[groups:]
        if new:
            log.info("new groups in this life: %s", names_in_words(new))
        if not config.is_changing():
            memory.check_nodes([*blueprint.topology.neighbours], config.storage)
        self.storage.found = []  # it may be large
        return memory

    def _begin_life(self, entropy: Entropy) -> None:
        memory = self.memory
        incarnation = memory.incarnation or entropy.number()
        past = memory.lives[::-1]
        self.life = Life(incarnation, self.starts, entropy.number(), past, memory.published)
        self.lives = [*memory.lives, PastLife(self.life.life, self.life.began)][-MOST_PAST.value :]

    def has_no_past(self) -> bool:
        """Whether no life before this one did anything: where nodes join, one that was killed in
        its first step has asked nobody to be let in."""
        memory = self.memory
        is_joining = self._config.is_changing() and self._config.restart() == "resume"
        return memory.starts == 0 or (is_joining and not memory.records)

    def last_sequence(self) -> int:
        """The number of the last entry of the journal."""
        return self.storage.next_sequence - 1

    def write_start(self) -> None:
        """Others write down which life this is: it is on disk before anybody hears of it."""
        started = Started(self.starts, self.identity, self.life.incarnation, self.life.life)
        self.storage.append([durable_entry.encode(started)])

    def check_trace(self, trace: NodeLog | None) -> None:
        """Rows follow entries of the journal, so the trace never knows of more than there were."""
        if trace is not None and trace.sequence > self.last_sequence():
            raise NodeError(
                f"{self._config.storage}: the trace in {self._config.trace} knows entry "
                f"{trace.sequence} of the journal, which ends with {self.last_sequence()}; "
                f"{ADVICE} and another [trace] path"
            )
