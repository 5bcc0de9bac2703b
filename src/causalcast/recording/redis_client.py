"""redis-py with a recorder, for pub/sub. There are no headers, so the id stands before the data.

    recorded = RecordedRedis(redis.Redis(), recorder)
    recorded.publish("chat", b"hello")              # await it with redis.asyncio
    for message in pubsub.listen():                 # after recorded.subscribed("chat")
        if message["type"] == "message":
            with recorded.handling(message) as data:
                ...

All publishers and subscribers of a channel must be recorded, or none.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from causalcast.recording.recorder import HEADER, Recorder


class RecordedRedis:
    """A client whose publications are recorded; works for redis and redis.asyncio."""

    def __init__(self, client: Any, recorder: Recorder) -> None:
        self.client = client
        self.recorder = recorder
        self._one_step = Lock()  # two threads send in the order in which they are recorded

    def publish(self, channel: str, data: bytes) -> Any:
        """As the client's own; data as bytes."""
        with self._one_step:
            sent = self.recorder.publish(channel)
            return self.client.publish(channel, sent.id.encode() + b"\n" + data)

    def subscribed(self, *channels: str) -> None:
        """To be called before the channels are subscribed to."""
        for channel in channels:
            self.recorder.subscribed(channel)

    @contextmanager
    def handling(self, message: dict[str, Any]) -> Iterator[bytes]:
        """A message of `listen` or `get_message`; its data comes back."""
        text, _, data = message["data"].partition(b"\n")
        channel = message["channel"]
        channel = channel.decode() if isinstance(channel, bytes) else channel
        with self.recorder.handling({HEADER: text}, channel):
            yield data
