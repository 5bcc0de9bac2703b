"""aio-pika with a recorder, for RabbitMQ: the id travels in a header.

    recorded = RecordedPika(recorder)
    recorder.subscribed("chat")
    await queue.consume(recorded.handler(on_message))
    await recorded.publish(exchange, aio_pika.Message(b"hello"), routing_key="chat")

The topic is the routing key. A message that a quorum queue repeats tells its attempt.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from causalcast.recording.recorder import Recorder


class RecordedPika:
    """Publications and handlers of one process."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    async def publish(self, exchange: Any, message: Any, routing_key: str, **options: Any) -> Any:
        """As the exchange's own."""
        sent = self.recorder.publish(routing_key)
        message.headers = {**(message.headers or {}), **sent.headers}
        return await exchange.publish(message, routing_key=routing_key, **options)

    def handler(
        self, callback: Callable[[Any], Awaitable[None]], share: str | None = None
    ) -> Callable[[Any], Awaitable[None]]:
        """A callback for `consume`; `share` if several processes consume from the queue."""

        async def handle(message: Any) -> None:
            headers = message.headers or {}
            before = headers.get("x-delivery-count")
            attempt = None if before is None else int(before) + 1
            with self.recorder.handling(headers, message.routing_key, share, attempt):
                await callback(message)

        return handle
