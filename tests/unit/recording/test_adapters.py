"""Adapters with clients that only pass messages on: ids travel, answers are known, shares named.

`tests/integration/test_buses.py` has the real clients at real servers. No Kafka can be installed by
a package manager here, so its clients' records are imitated.
"""

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from causalcast.recording.aio_pika_client import RecordedPika
from causalcast.recording.kafka_client import RecordedKafka
from causalcast.recording.nats_client import RecordedNats
from causalcast.recording.recorder import HEADER, Recorder
from causalcast.recording.redis_client import RecordedRedis
from causalcast.recording.zenoh_session import RecordedZenoh


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder("p0", tmp_path / "log.jsonl")


def story(recorder: Recorder) -> list[str]:
    """Each row as "kind topic message", and what else it says."""
    told = []
    for line in recorder.path.read_text().splitlines():
        row = json.loads(line)
        words = [row["kind"], row["group"], row.get("message", "")]
        words += [f"{key}={row[key]}" for key in ("share", "attempt", "key") if key in row]
        words += [f"after {cause}" for cause in row.get("causes", [])]
        told.append(" ".join(filter(None, words)))
    return told


class Nats:
    """A client that calls the callbacks of a subject when something is published."""

    def __init__(self) -> None:
        self.callbacks: dict[str, Any] = {}
        self.options: list[dict[str, Any]] = []

    async def subscribe(self, subject: str, cb: Any, **options: Any) -> None:
        self.callbacks[subject] = cb
        self.options.append(options)

    async def publish(self, subject: str, payload: bytes, headers: Any, **_: Any) -> None:
        for pattern, callback in self.callbacks.items():
            if pattern in (subject, "a.*"):
                await callback(SimpleNamespace(subject=subject, headers=headers, data=payload))


def test_nats(recorder: Recorder) -> None:
    client = Nats()
    recorded = RecordedNats(client, recorder)

    async def answer(message: Any) -> None:
        if message.headers.get("other") == "kept":
            await recorded.publish("a.y")

    async def main() -> None:
        await recorded.subscribe("a.*", answer, topics=["a.x", "a.y"])
        await recorded.publish("a.x", b"hello", headers={"other": "kept"})
        await recorded.subscribe("jobs", answer, queue="workers")

    asyncio.run(main())
    assert story(recorder) == [
        "join a.x", "join a.y", "publish a.x p0-2", "deliver a.x p0-2",
        "publish a.y p0-4 after p0-2", "deliver a.y p0-4", "join jobs share=workers",
    ]  # fmt: skip
    assert client.options == [{}, {"queue": "workers"}]


def test_redis_carries_the_id_in_front_of_the_data(recorder: Recorder) -> None:
    sent: list[tuple[str, bytes]] = []
    client = SimpleNamespace(publish=lambda channel, data: sent.append((channel, data)))
    recorded = RecordedRedis(client, recorder)
    recorded.subscribed("chat")
    recorded.publish("chat", b"two\nlines")
    message = {"channel": b"chat", "data": sent[0][1]}
    with recorded.handling(message) as data:
        assert data == b"two\nlines"
        recorded.publish("chat", b"")
    assert story(recorder) == [
        "join chat", "publish chat p0-1", "deliver chat p0-1", "publish chat p0-3 after p0-1"
    ]  # fmt: skip


def test_rabbitmq_tells_attempts(recorder: Recorder) -> None:
    recorded = RecordedPika(recorder)
    sent: list[Any] = []

    class Exchange:
        async def publish(self, message: Any, routing_key: str) -> None:
            sent.append(message)

    async def main() -> None:
        message = SimpleNamespace(headers={"mine": 1}, routing_key="chat")
        await recorded.publish(Exchange(), message, "chat")
        assert sent[0].headers == {"mine": 1, HEADER: "p0-0"}

        async def nothing(_: Any) -> None:
            pass

        handle = recorded.handler(nothing, share="workers")
        await handle(sent[0])
        sent[0].headers["x-delivery-count"] = 1
        await handle(sent[0])

    asyncio.run(main())
    assert story(recorder)[1:] == [
        "deliver chat p0-0 share=workers", "deliver chat p0-0 share=workers attempt=2"
    ]  # fmt: skip


def test_zenoh_uses_the_attachment(recorder: Recorder) -> None:
    subscribers: list[Any] = []

    @dataclass
    class Session:
        attached: list[bytes] = field(default_factory=list)

        def put(self, key: str, payload: bytes, attachment: bytes) -> None:
            carried = SimpleNamespace(to_bytes=lambda: attachment)
            for subscriber in subscribers:
                subscriber(SimpleNamespace(key_expr=key, attachment=carried))

        def declare_subscriber(self, key: str, handle: Any) -> None:
            subscribers.append(handle)

    recorded = RecordedZenoh(Session(), recorder)
    recorded.subscribe("chat", lambda sample: None)
    recorded.put("chat", b"")
    subscribers[0](SimpleNamespace(key_expr="chat", attachment=None))
    assert story(recorder) == [
        "join chat", "publish chat p0-1", "deliver chat p0-1", "deliver chat unknown to p0, 3"
    ]  # fmt: skip


class ConfluentMessage:
    """confluent-kafka: everything is a method."""

    def __init__(self, topic: str, headers: Any) -> None:
        self._topic, self._headers = topic, headers

    def topic(self) -> str:
        return self._topic

    def headers(self) -> Any:
        return self._headers


@pytest.mark.parametrize("client", ["confluent-kafka", "kafka-python and aiokafka"])
def test_kafka(recorder: Recorder, client: str) -> None:
    recorded = RecordedKafka(recorder, group="billing")
    recorded.subscribed("orders")
    headers = recorded.headers("orders", [("mine", b"1")], key="ada")
    assert headers == [("mine", b"1"), (HEADER, b"p0-1")]
    message: Any = SimpleNamespace(topic="orders", headers=headers)
    if client == "confluent-kafka":
        message = ConfluentMessage("orders", headers)
    with recorded.handling(message):
        recorded.headers("bills")
    with recorded.handling(SimpleNamespace(topic="orders", headers=None)):
        pass
    assert story(recorder) == [
        "join orders share=billing", "publish orders p0-1 key=ada",
        "deliver orders p0-1 share=billing", "publish bills p0-3 after p0-1",
        "deliver orders unknown to p0, 4 share=billing",
    ]  # fmt: skip
