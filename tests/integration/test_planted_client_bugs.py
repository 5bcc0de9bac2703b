"""Bugs planted at the door and in the client: the tests of clients notice each of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import test_clients as stories

from causalcast.clients.kept_log import KeptLog
from causalcast.clients.protocol import Position, note
from causalcast.clients.remote_group import RemoteGroup
from causalcast.core.ids import MessageId
from causalcast.runtime.storage.publication_keys import PublicationKeys, StoredKey

Plant = Callable[[pytest.MonkeyPatch], None]


def past_ignored(patch: pytest.MonkeyPatch) -> None:
    async def at_once(self: KeptLog, past: Position) -> None:
        """Whatever the client has seen."""

    patch.setattr(KeptLog, "wait_for", at_once)


def acknowledged_when_it_came(patch: pytest.MonkeyPatch) -> None:
    before = RemoteGroup.arrived

    def arrived(self: RemoteGroup, message: MessageId, *what: Any) -> None:
        before(self, message, *what)
        note(self._subscriptions.position.seen, self.name, message)

    patch.setattr(RemoteGroup, "arrived", arrived)


def key_forgotten(patch: pytest.MonkeyPatch) -> None:
    def find(self: PublicationKeys, client: str, key: str) -> StoredKey | None:
        return None

    patch.setattr(PublicationKeys, "find", find)


def gap_not_noticed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KeptLog, "missing", lambda self, group, seen: "")


def in_memory(story: Callable[[Path, str], None]) -> Callable[[Path], None]:
    return lambda folder: story(folder, "durable = false")


def after_a_crash(folder: Path) -> None:
    stories.test_keys_outlive_a_crash_and_a_compaction(folder, False)


@pytest.mark.parametrize(
    ("plant", "story"),
    [
        (past_ignored, stories.test_a_node_waits_until_it_has_what_a_client_has_seen),
        (
            acknowledged_when_it_came,
            in_memory(stories.test_what_was_not_acknowledged_comes_again_at_another_node),
        ),
        (key_forgotten, stories.test_a_retry_with_its_key_is_no_second_message),
        (key_forgotten, after_a_crash),
        (gap_not_noticed, stories.test_who_lacks_what_is_not_kept_is_told_and_begins_anew),
    ],
)
def test_it_is_noticed(
    plant: Plant,
    story: Callable[[Path], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        story(tmp_path)
