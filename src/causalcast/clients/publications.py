"""Publications of clients: each key is published once, whoever asks and however often."""

import asyncio
import hashlib
import json
from collections.abc import Mapping

from causalcast.clients.protocol import Publish
from causalcast.core.ids import GroupId, MessageId, message_id
from causalcast.errors import CausalcastError
from causalcast.runtime.host.host import Host
from causalcast.runtime.metadata import said_of
from causalcast.runtime.storage.durable_entry import Keyed


class Publications:
    """The way of clients to the node's publishing, and what is on it."""

    def __init__(self, host: Host, groups: Mapping[str, GroupId]) -> None:
        self.groups = groups  # of the door, now
        self._host = host
        self._keys = host.earlier.memory.keys
        # By client and key, with what is published.
        self._under_way: dict[tuple[str, str], tuple[bytes, asyncio.Future[MessageId]]] = {}

    def publish(
        self, client: str, request: Publish, body: bytes
    ) -> "asyncio.Future[MessageId] | None":
        """What is done when it is durable; None if the key was used for something else."""
        key, digest = request.key, _digest(request, body)
        try:
            # A key may stand for what never reached the disk: that is why the node stops.
            self._host.running.check_open()
        except CausalcastError as error:
            return self._failed(error)
        if key:
            under_way = self._under_way.get((client, key))
            if under_way is not None:
                return under_way[1] if under_way[0] == digest else None
            known = self._keys.find(client, key)
            if known is not None:
                return self._done(known[1]) if known[2] == digest else None
        keyed = Keyed(client, (key, 0, digest)) if key else None
        published = self._begin(request, body, keyed)
        if key and not published.done():
            self._under_way[client, key] = (digest, published)
            published.add_done_callback(lambda _: self._under_way.pop((client, key), None))
        return published

    def has_number(self, published: "asyncio.Future[MessageId]") -> bool:
        """Whether it has its place among the node's publications already."""
        return not isinstance(published, asyncio.Task)

    def is_over(self) -> bool:
        """Whether the node stops: what was refused may be published when it is back."""
        return self._host.running.is_over or self._host.running.is_stopping

    def _begin(
        self, request: Publish, body: bytes, keyed: Keyed | None
    ) -> "asyncio.Future[MessageId]":
        try:
            said = said_of(request.headers, request.content_type)
            published = self._host.publish(self.groups[request.group], body, keyed, said)
        except CausalcastError as error:
            return self._failed(error)
        if isinstance(published, int):
            return self._ready(published)
        return asyncio.ensure_future(published)

    def _failed(self, error: CausalcastError) -> "asyncio.Future[MessageId]":
        failed: asyncio.Future[MessageId] = asyncio.get_running_loop().create_future()
        failed.set_exception(error)
        return failed

    def _done(self, number: int) -> "asyncio.Future[MessageId]":
        return self._ready(message_id(self._host.me, number))

    def _ready(self, message: MessageId) -> "asyncio.Future[MessageId]":
        ready: asyncio.Future[MessageId] = asyncio.get_running_loop().create_future()
        ready.set_result(message)
        return ready


def _digest(request: Publish, body: bytes) -> bytes:
    """What is published, in short."""
    said = b""
    if request.headers or request.content_type:
        said = json.dumps([sorted(request.headers.items()), request.content_type]).encode()
    parts = (request.group.encode(), said, body) if said else (request.group.encode(), body)
    return hashlib.blake2b(b"\0".join(parts), digest_size=8).digest()
