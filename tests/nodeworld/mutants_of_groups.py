"""Bugs of readers with names and of groups that are made, to be planted one at a time: worlds whose
applications use them find each."""

from causalcast.core.made_groups import MadeGroups
from causalcast.runtime.host.acknowledgements import Acknowledgements
from causalcast.runtime.host.group_directory import GroupDirectory
from causalcast.runtime.host.inbox import Inbox
from causalcast.runtime.host.readers import Readers
from causalcast.swarm.mutant import Mutant, Patch, Rewritten


def bug(name: str, mechanism: str, *patches: Patch | Rewritten) -> Mutant:
    return Mutant(name, mechanism, ["any"], patches)


def nothing(self: Readers) -> None:
    """Whatever the earlier life had."""


MUTANTS = [
    bug(
        "reader_acknowledges_for_another",
        "what one reader has handled is handled for nobody else",
        Rewritten(
            Acknowledgements, "add_for", "self._by_readers.setdefault(named.of.bit, [])",
            "self._by_readers.setdefault(named.of.bit << 1, []).append(message)\n"
            "    self._by_readers.setdefault(named.of.bit, [])",
        ),
    ),
    bug(
        "readers_are_not_restored",
        "readers go on in the next life with what they had not acknowledged",
        Patch(Readers, "restore", nothing),
    ),
    bug(
        "reader_takes_it_away",
        "what one reader takes is still there for the others",
        Rewritten(
            Inbox, "_taken", "elif not waiting.owed & ~bit or 2 * self._in_memory",
            "elif True or 2 * self._in_memory",
        ),
        Rewritten(Inbox, "_add_for_readers", "waiting = one = Waiting(", "one = Waiting("),
    ),
    bug(
        "removed_group_lives_on",
        "a group that was removed is there no longer, at any node",
        Rewritten(MadeGroups, "_remove", "del self._names[group]", "pass"),
    ),
    bug(
        "removed_members_stay",
        "who was in a group that was removed is in it no more",
        Rewritten(GroupDirectory, "_end", "self._state.later(self._forget, group)", "pass"),
    ),
]  # fmt: skip
