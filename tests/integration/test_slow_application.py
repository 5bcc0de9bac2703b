"""An application that is far behind: what it takes is read once, however it lies on disk."""

import asyncio
from pathlib import Path

import pytest
from loopback_nodes import Neighbourhood, take, until

from causalcast import Node
from causalcast.runtime.storage.journal import JournalFile
from causalcast.runtime.storage.journal_frames import Place

SIZE, COUNT = 20_000, 60
LIMITS = "[limits]\ninbox_bytes = 50000\ncompact_bytes = 200000"


def test_a_body_is_read_about_once_after_a_compaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by the compactions themselves, and after a restart."""
    town = Neighbourhood(tmp_path, 1, level="none", more=LIMITS)
    read_bytes = 0
    compactions = 0
    read, replace = JournalFile.read, JournalFile.replace

    def counting(file: JournalFile, place: Place) -> bytes:
        nonlocal read_bytes
        read_bytes += place.length
        return read(file, place)

    def counted(file: JournalFile, *given: object) -> object:
        nonlocal compactions
        compactions += 1
        return replace(file, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(JournalFile, "read", counting)
    monkeypatch.setattr(JournalFile, "replace", counted)

    def body(number: int) -> bytes:
        return b"%3d" % number * (SIZE // 3)

    async def publish(node: Node) -> None:
        for number in range(COUNT):
            await node.group("all").publish(body(number))
        await until(lambda: compactions > 1)

    async def handle(node: Node) -> None:
        nonlocal read_bytes
        read_bytes = 0
        assert await take(node.group("all"), COUNT) == [body(n) for n in range(COUNT)]

    async def story() -> None:
        async with town.running() as (node,):
            await publish(node)
            assert read_bytes < 4 * compactions * COUNT * SIZE
            await handle(node)
            assert read_bytes < 2 * COUNT * SIZE
            await publish(node)
        async with town.running() as (node,):
            await handle(node)
            assert read_bytes < 2 * COUNT * SIZE

    asyncio.run(story())
