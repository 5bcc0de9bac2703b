"""A trace tells of each message, however many of them travelled, arrived and were kept as one."""

import asyncio
from collections import defaultdict
from pathlib import Path

from loopback_nodes import Neighbourhood, disorder, take, until

from causalcast.trace.gather import gather
from causalcast.trace.node_log import read_log
from causalcast.trace.schema import KINDS

COUNT = 100
SIZE = 40


def test_rows_of_what_travels_together(tmp_path: Path) -> None:
    town = Neighbourhood(tmp_path, 3, overlay='kind = "line"', level="messages")

    async def story() -> None:
        async with town.running() as nodes:
            first, middle, last = nodes
            group = first.group("all")
            await asyncio.gather(*(group.publish(bytes(SIZE)) for _ in range(COUNT)))
            for node in nodes:
                assert len(await take(node.group("all"), COUNT)) == COUNT
            await until(lambda: not last._running().parts.steps.held)
            # What came as one is one entry of the journal, where the publisher has one for each.
            assert first._running().parts.steps.performed > COUNT
            assert middle._running().parts.steps.performed < COUNT / 2
            assert middle._running().parts.arrivals.runs > 0

    asyncio.run(story())
    size_of: dict[tuple[int, int, int], int] = {}  # by sender, receiver and message
    for node in (1, 2, 3):
        kinds_of: dict[int, list[str]] = defaultdict(list)
        rows = read_log(tmp_path / f"node-{node}/trace/node-{node}.nodelog").rows
        for _, code, message, group, peer, payload, metadata, _, _ in rows:
            kind = KINDS[code]
            if message < 0:
                continue
            kinds_of[message].append(kind)
            if kind in ("send", "receive") and payload >= 0 and group == 0:
                assert payload >= SIZE and 0 < metadata < 60
                way = (node, peer) if kind == "send" else (peer, node)
                if kind == "send":
                    size_of[(*way, message)] = payload + metadata
                else:
                    assert size_of.pop((*way, message)) == payload + metadata
        assert len(kinds_of) == COUNT
        for kinds in kinds_of.values():
            kinds = [kind for kind in kinds if kind != "duplicate"]
            assert kinds[0] == ("publish" if node == 1 else "receive")
            assert kinds[1] == "deliver", "it stands behind what brought it, before what is sent on"
            assert kinds.count("deliver") == 1 and ("send" in kinds[2:] or node == 3)
    assert not size_of, "what was sent came"
    assert not disorder(gather([tmp_path], tmp_path / "run"))
