"""What docs/security.md says that members can do: nothing keeps them from it."""

import asyncio
from pathlib import Path

import pytest
from loopback_nodes import Neighbourhood, take

from causalcast.core.message import Publication
from causalcast.runtime.host.arrivals import Arrivals


def test_a_relay_reads_and_without_signatures_changes_what_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a line 1-2-3 node 2 passes on what nodes 1 and 3 say in a group that it is not in."""
    groups = "theirs = [1, 3]\nothers = [2]"
    town = Neighbourhood(tmp_path, 3, overlay='kind = "line"', groups=groups, tls=True)
    read: list[bytes] = []
    receive = Arrivals._receive_in_one_step

    def curious(self: Arrivals, link: object, messages: list[object], size: int = 0) -> int:
        if self._stack.me == 2:
            for _, message, _ in messages:  # type: ignore[misc, has-type]
                publication = getattr(message, "publication", None)
                if isinstance(publication, Publication):
                    read.append(publication.body)
                    publication.body = publication.body.replace(b"secret", b"forged")
        return receive(self, link, messages, size)  # type: ignore[arg-type]

    monkeypatch.setattr(Arrivals, "_receive_in_one_step", curious)

    async def story() -> None:
        async with town.running() as (one, _, three):
            await one.group("theirs").publish(b"a secret")
            assert await take(three.group("theirs"), 1) == [b"a forged"]
        assert any(body.startswith(b"a secret") for body in read)

    asyncio.run(story())
