"""Bugs of doors and clients, to be planted one at a time: worlds with clients find each of them.

The first was shipped. `tests/unit/clients/test_retries.py` tells it, and two more that were shipped
and are seldom found: once in some hundred worlds.
"""

from typing import Any

from causalcast.clients.admission import Admission
from causalcast.clients.kept_log import KeptLog
from causalcast.clients.publications import Publications
from causalcast.clients.remote_group import RemoteGroup
from causalcast.clients.session import Session
from causalcast.clients.subscriptions import Subscriptions
from causalcast.runtime.storage.publication_keys import PublicationKeys
from causalcast.swarm.mutant import Mutant, Patch, Rewritten


def bug(name: str, mechanism: str, *patches: Patch | Rewritten) -> Mutant:
    return Mutant(name, mechanism, ["any"], patches)


async def at_once(self: Admission, past: Any) -> None:
    """Whatever the client has seen."""


MUTANTS = [
    bug(
        "acknowledgements_cease",
        "who handles a message between two connections tells later nodes what it handles",
        Rewritten(Subscriptions, "read_again", "self._handled.clear()", "pass"),
    ),
    bug(
        "past_ignored",
        "a node waits until it has what a client has seen elsewhere",
        Patch(Admission, "wait_for_past", at_once),
    ),
    bug(
        "acknowledged_when_it_came",
        "the position of a client is behind what it handled, not behind what arrived",
        Rewritten(
            RemoteGroup, "arrived", "is_new, is_handled =",
            "note(self._subscriptions.position.seen, self.name, message)\n    is_new, is_handled =",
        ),
    ),
    bug(
        "key_forgotten",
        "a retry with its key is no second message",
        Rewritten(PublicationKeys, "add", "keys[key[0]] = key", "pass"),
        Rewritten(Publications, "publish", "if under_way is not None:", "if False:"),
    ),
    bug(
        "gap_not_noticed",
        "who lacks what is not kept is told",
        Rewritten(KeptLog, "missing", "if seen.get(origin, 0) < number:", "if False:"),
    ),
    bug(
        "sent_once",
        "what was sent over a lost connection and not acknowledged comes again",
        Rewritten(
            Session, "_subscribe", "seen[group] = dict(request.seen[group])",
            "seen[group] = dict(log.delivered.get(group, {}))",
        ),
    ),
]  # fmt: skip
# Where clients make groups and remove them.
WITH_GROUPS = [
    bug(
        "one_refusal_for_all",
        "a group that was removed ends the reading of that group alone",
        Rewritten(
            Subscriptions, "_on_reading_again", "isinstance(error, Gap | GroupRefused)",
            "isinstance(error, Gap)",
        ),
    ),
    bug(
        "removed_group_lives_on_at_doors",
        "a group that was removed is no group of a door",
        Rewritten(KeptLog, "_on_group", "self.groups.pop(name, None)", "pass"),
    ),
    bug(
        "removed_messages_stay",
        "what a removed group had is kept for nobody",
        Rewritten(KeptLog, "_on_group", "self._forget_group(name)", "pass"),
    ),
]  # fmt: skip
