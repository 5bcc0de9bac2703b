"""What is asked again, and what must not be: one publication is one message, or none."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
from websockets.protocol import State

from causalcast.clients.client_position import ClientPosition
from causalcast.clients.protocol import Publish
from causalcast.clients.publications import Publications
from causalcast.clients.requests import Requests
from causalcast.clients.subscriptions import Subscriptions
from causalcast.core.ids import GroupId, message_id
from causalcast.errors import NodeError, Unanswered
from causalcast.runtime.host.running import Running
from causalcast.runtime.storage.publication_keys import PublicationKeys


class Socket:
    """Takes what it is sent."""

    state = State.OPEN

    def __init__(self) -> None:
        self.sent: list[Any] = []

    async def send(self, frame: Any) -> None:
        self.sent.append(frame)


def test_who_handled_something_between_two_connections_goes_on_acknowledging() -> None:
    async def story() -> None:
        requests, position, socket = Requests(), ClientPosition(), Socket()
        subscriptions = Subscriptions(requests, position)
        subscriptions.tell_handled(message_id(cast(Any, 1), 1))
        await asyncio.sleep(0)
        requests.begin(cast(Any, socket), 1)
        await subscriptions.read_again()
        await requests.send_again()
        subscriptions.tell_handled(message_id(cast(Any, 1), 2))
        for _ in range(3):
            await asyncio.sleep(0)
        assert [json.loads(frame) for frame in socket.sent] == [{"do": "ack", "messages": ["1.2"]}]

    asyncio.run(story())


def test_what_was_given_up_is_not_asked_for_at_the_next_node() -> None:
    async def story() -> None:
        requests, first, second = Requests(), Socket(), Socket()
        requests.begin(cast(Any, first), 1)
        await requests.send_again()
        publishing = asyncio.create_task(requests.publish("all", b"x", "", None))
        await asyncio.sleep(0)
        assert len(first.sent) == 1
        requests.end()
        requests.begin(cast(Any, second), 2)
        await requests.send_again()
        assert second.sent == []
        with pytest.raises(Unanswered):
            await publishing

    asyncio.run(story())


def test_a_key_is_not_answered_by_a_node_whose_disk_failed() -> None:
    async def story() -> None:
        me, running, keys = 3, Running(asyncio.get_running_loop()), PublicationKeys()

        def publish(group: Any, body: bytes, keyed: Any, said: Any) -> int:
            running.check_open()
            keyed.key = ("k", 5, keyed.key[2])
            keys.add(keyed.client, keyed.key)
            return int(message_id(cast(Any, me), 5))

        host = SimpleNamespace(
            me=me,
            running=running,
            earlier=SimpleNamespace(memory=SimpleNamespace(keys=keys)),
            blueprint=SimpleNamespace(groups=SimpleNamespace(id_of=lambda name: GroupId(0))),
            publish=publish,
        )
        publications = Publications(cast(Any, host), {"all": GroupId(0)})
        request = Publish(id=1, group="all", key="k", text="x")
        for _ in range(2):  # again: it is the same message
            published = publications.publish("me", request, b"x")
            assert published is not None
            assert await published == message_id(cast(Any, me), 5)
        running.end(NodeError("the disk is full"))
        published = publications.publish("me", request, b"x")
        assert published is not None
        with pytest.raises(NodeError, match="full"):
            await published

    asyncio.run(story())
