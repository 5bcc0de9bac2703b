"""Bugs planted where groups are made at run time: their tests notice each of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import test_clients_make_groups as clients
import test_made_groups as stories

from causalcast.clients.kept_log import KeptLog
from causalcast.core import made_groups
from causalcast.core.ids import GroupId
from causalcast.core.made_groups import Change, MadeGroups, News
from causalcast.core.message import Publication
from causalcast.errors import CausalcastError
from causalcast.runtime.host import compaction
from causalcast.runtime.host.group_directory import GroupDirectory
from causalcast.runtime.host.inbox import Inbox
from causalcast.runtime.security.client_token import ClientPass
from causalcast.runtime.storage.durable_entry import Entry, MadeNames, Memory, encode

Plant = Callable[[pytest.MonkeyPatch], None]


def ids_are_counted(patch: pytest.MonkeyPatch) -> None:
    """Each node numbers groups as it hears of them."""
    given: dict[tuple[int, str, int], int] = {}
    make = MadeGroups._make

    def made(self: MadeGroups, news: News, known: Any, change: Change) -> None:
        numbered = GroupId(made_groups.FIRST_MADE + len(self._names) + id(self) % 1000 * 1000)
        given[id(self), news.name, news.epoch] = numbered
        patch.setattr(made_groups, "id_of_made", lambda name, epoch, salt: numbered)
        make(self, news, known, change)

    patch.setattr(MadeGroups, "_make", made)


def forgotten_in_a_snapshot(patch: pytest.MonkeyPatch) -> None:
    def encoded(entry: Entry) -> bytes:
        return encode(MadeNames([]) if isinstance(entry, MadeNames) else entry)

    patch.setattr(compaction, "encode", encoded)


def not_in_the_journal(patch: pytest.MonkeyPatch) -> None:
    hear = GroupDirectory.hear

    def unkept(self: GroupDirectory, publication: Publication) -> bool:
        hear(self, publication)
        return False

    patch.setattr(GroupDirectory, "hear", unkept)


def a_restart_ignores_removals(patch: pytest.MonkeyPatch) -> None:
    hear = Memory._hear

    def heard(self: Memory, body: bytes) -> None:
        if b"remove " not in body:
            hear(self, body)

    patch.setattr(Memory, "_hear", heard)


def removed_and_still_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Inbox, "forget", lambda self, group: None)


def epochs_do_not_count(patch: pytest.MonkeyPatch) -> None:
    making = MadeGroups.making

    def first(self: MadeGroups, name: str) -> News:
        news = making(self, name)
        return News(news.kind, news.name, 1, news.salt)

    patch.setattr(MadeGroups, "making", first)


def everybody_may(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupDirectory, "takes", lambda self, publication: True)


def the_door_hears_of_no_group(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KeptLog, "_on_group", lambda self, name, group, is_there: None)


def tokens_do_not_count(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClientPass, "may_create", lambda self, group: True)


def no_patience_with_news(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KeptLog, "may_come", lambda self, group: False)


@pytest.mark.parametrize(
    ("plant", "story"),
    [
        (ids_are_counted, stories.test_the_same_name_at_two_nodes_at_once_is_one_group),
        (forgotten_in_a_snapshot, stories.test_a_group_that_is_removed_is_gone_everywhere),
        (not_in_the_journal, stories.test_no_moment_is_bad_for_a_crash),
        (a_restart_ignores_removals, stories.test_a_group_that_is_removed_is_gone_everywhere),
        (removed_and_still_kept, stories.test_a_group_that_is_removed_is_gone_everywhere),
        (epochs_do_not_count, stories.test_a_group_that_is_removed_is_gone_everywhere),
        (everybody_may, stories.test_rights_have_prefixes),
        (
            the_door_hears_of_no_group,
            clients.test_a_client_makes_a_group_that_others_read_elsewhere,
        ),
        (tokens_do_not_count, clients.test_tokens_say_who_may),
        (
            no_patience_with_news,
            clients.test_who_has_seen_a_group_waits_until_its_news_are_there,
        ),
    ],
)
def test_it_is_noticed(
    plant: Plant,
    story: Callable[[Path], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stories, "PATIENCE", 3.0)
    monkeypatch.setattr(clients, "PATIENCE", 3.0)
    plant(monkeypatch)
    problems = (AssertionError, pytest.fail.Exception, TimeoutError, CausalcastError)
    with pytest.raises(problems):
        story(tmp_path)
