"""nats-py with a recorder, on a client or a JetStream context: the id travels in a header.

recorded = RecordedNats(await nats.connect(), recorder)
await recorded.subscribe("chat", cb=on_message)
await recorded.publish("chat", b"hello")
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from causalcast.recording.recorder import Recorder


class RecordedNats:
    """A client, or a JetStream context, whose publications and handlers are recorded."""

    def __init__(self, client: Any, recorder: Recorder) -> None:
        self.client = client
        self.recorder = recorder

    async def publish(
        self, subject: str, payload: bytes = b"", headers: dict[str, str] | None = None,
        **options: Any,
    ) -> Any:  # fmt: skip
        """As the client's own."""
        sent = self.recorder.publish(subject)
        told = {**(headers or {}), **sent.headers}
        return await self.client.publish(subject, payload, headers=told, **options)

    async def subscribe(
        self, subject: str, cb: Callable[[Any], Awaitable[None]], queue: str = "",
        topics: Sequence[str] = (), **options: Any,
    ) -> Any:  # fmt: skip
        """As the client's own with a callback; a wildcard has its `topics` named beside it."""
        for topic in topics or [subject]:
            self.recorder.subscribed(topic, share=queue or None)

        async def handle(message: Any) -> None:
            with self.recorder.handling(message.headers, message.subject, share=queue or None):
                await cb(message)

        queued = {"queue": queue} if queue else {}
        return await self.client.subscribe(subject, cb=handle, **queued, **options)
