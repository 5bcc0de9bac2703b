"""Addresses of others survive a restart, and a file of them that is damaged harms nobody."""

import asyncio
import logging
import random
from pathlib import Path

import pytest

from causalcast.core import NodeId
from causalcast.disk import Disk
from causalcast.nodeworld.disk import SimDisk
from causalcast.runtime.host.remembered_addresses import FILE, RememberedAddresses
from causalcast.runtime.host.running import Running
from causalcast.runtime.links.address_book import Address, AddressBook

ONE, TWO = NodeId(1), NodeId(2)
NAME = "causalcast.runtime.host.remembered_addresses"


def remembered(folder: Path, book: AddressBook, disk: Disk | None = None) -> RememberedAddresses:
    loop = asyncio.new_event_loop()
    try:
        return RememberedAddresses(disk or Disk(), folder, book, Running(loop))
    finally:
        loop.close()


def test_what_was_written_is_heard_again(tmp_path: Path) -> None:
    before, after = AddressBook({}), AddressBook({})
    before.learn(ONE, Address("127.0.0.1", 7401))
    before.hear(TWO, Address("::1", 7402))
    remembered(tmp_path, before).write()
    remembered(tmp_path, after).read()
    assert after.find(ONE) == Address("127.0.0.1", 7401)
    assert after.find(TWO) == Address("::1", 7402)
    after.hear(ONE, Address("127.0.0.1", 9))  # it was only hearsay
    assert after.find(ONE) == Address("127.0.0.1", 9)


def test_a_power_cut_leaves_the_old_file_or_the_new_one() -> None:
    folder = Path("/world")
    for seed in range(40):
        disk = SimDisk(random.Random(seed), 0.01)
        disk.make_folder(folder)
        book = AddressBook({})
        kept = remembered(folder, book, disk)
        for port in (1, 2):
            book.learn(ONE, Address("127.0.0.1", port))
            kept.write()
            disk.sync_folder(folder)
        book.learn(ONE, Address("127.0.0.1", 3))
        kept.write()
        disk.cut_power()
        again = AddressBook({})
        remembered(folder, again, disk).read()
        assert again.find(ONE) in (Address("127.0.0.1", 2), Address("127.0.0.1", 3))


@pytest.mark.parametrize(
    "damaged",
    [b"", b"{", b"[]", b'{"1": 7}', b'{"one": "a:1"}', b'{"1": "nowhere"}', b"[" * 100_000],
)
def test_a_damaged_file_is_left_out_and_told(
    tmp_path: Path, damaged: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE).write_bytes(damaged)
    book = AddressBook({})
    with caplog.at_level(logging.WARNING, NAME):
        remembered(tmp_path, book).read()
    assert book.all() == {}
    assert "cannot be read" in caplog.text


def test_a_disk_that_fails_is_told_and_the_node_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    book = AddressBook({})
    kept = remembered(tmp_path / "missing", book)
    book.learn(ONE, Address("127.0.0.1", 7401))
    with caplog.at_level(logging.WARNING, NAME):
        kept.write()
    assert "cannot be written" in caplog.text


def test_only_news_count_as_changes() -> None:
    book = AddressBook({})
    book.hear(ONE, Address("127.0.0.1", 1))
    book.hear(ONE, Address("127.0.0.1", 1))
    assert book.changes == 1
    book.learn(ONE, Address("127.0.0.1", 1))
    assert book.changes == 1
    book.learn(ONE, Address("127.0.0.1", 2))
    assert book.changes == 2
