"""eclipse-zenoh with a recorder: the id travels as the attachment of a put.

recorded = RecordedZenoh(zenoh.open(zenoh.Config()), recorder)
recorded.subscribe("chat", on_sample)
recorded.put("chat", b"hello")
"""

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

from causalcast.recording.recorder import HEADER, Recorder


class RecordedZenoh:
    """A session whose puts and subscribers are recorded."""

    def __init__(self, session: Any, recorder: Recorder) -> None:
        self.session = session
        self.recorder = recorder
        self._one_step = Lock()  # two threads send in the order in which they are recorded

    def put(self, key: str, payload: bytes, **options: Any) -> None:
        """As the session's own; the attachment is taken."""
        with self._one_step:
            sent = self.recorder.publish(key)
            self.session.put(key, payload, attachment=sent.id.encode(), **options)

    def subscribe(
        self, key: str, callback: Callable[[Any], None], topics: Sequence[str] = (), **options: Any
    ) -> Any:
        """A subscriber with a callback; a wildcard has its `topics` named beside it."""
        for topic in topics or [key]:
            self.recorder.subscribed(topic)

        def handle(sample: Any) -> None:
            attachment = sample.attachment
            headers = {} if attachment is None else {HEADER: attachment.to_bytes()}
            with self.recorder.handling(headers, str(sample.key_expr)):
                callback(sample)

        return self.session.declare_subscriber(key, handle, **options)
