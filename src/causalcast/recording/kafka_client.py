"""Kafka's clients with a recorder: confluent-kafka, kafka-python and aiokafka; the id is a header.

    recorded = RecordedKafka(recorder, group="billing")
    producer.produce("orders", b"…", headers=recorded.headers("orders"))      # confluent-kafka
    producer.send("orders", b"…", headers=recorded.headers("orders"))         # the two others
    for message in consumer:
        with recorded.handling(message):
            ...

The members of a consumer group share its messages: each goes to one of them.
"""

from typing import Any

from causalcast.recording.recorder import HEADER, Handling, Recorder


class RecordedKafka:
    """Publications and deliveries of one process, whichever client it uses."""

    def __init__(self, recorder: Recorder, group: str | None = None) -> None:
        self.recorder = recorder
        self.group = group

    def headers(
        self, topic: str, headers: list[tuple[str, bytes]] | None = None, key: str | None = None
    ) -> list[tuple[str, bytes]]:
        """Record a publication; the headers to produce it with. With a key, order is per key."""
        sent = self.recorder.publish(topic, key)
        return [*(headers or []), (HEADER, sent.id.encode())]

    def subscribed(self, *topics: str) -> None:
        """To be called before the consumer subscribes."""
        for topic in topics:
            self.recorder.subscribed(topic, share=self.group)

    def handling(self, message: Any) -> Handling:
        """A record of any of the clients, to be used in `with`."""
        headers = message.headers() if callable(message.headers) else message.headers
        topic = message.topic() if callable(message.topic) else message.topic
        return self.recorder.handling(dict(headers or ()), topic, share=self.group)
