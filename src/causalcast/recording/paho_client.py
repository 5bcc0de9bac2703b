"""paho-mqtt with a recorder: the id travels in a user property, which MQTT 5 has.

client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
recorded = RecordedMqtt(client, recorder)
recorded.on_message(on_message)
recorder.subscribed("chat"); client.subscribe("chat")
recorded.publish("chat", b"hello")
"""

from collections.abc import Callable
from threading import Lock
from typing import Any

from causalcast.recording.recorder import Recorder


class RecordedMqtt:
    """A client whose publications and handlers are recorded."""

    def __init__(self, client: Any, recorder: Recorder) -> None:
        self.client = client
        self.recorder = recorder
        self._one_step = Lock()  # two threads send in the order in which they are recorded

    def publish(
        self, topic: str, payload: bytes = b"", qos: int = 0, retain: bool = False,
        properties: Any = None,
    ) -> Any:  # fmt: skip
        """As the client's own."""
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        properties = properties or Properties(PacketTypes.PUBLISH)
        with self._one_step:
            sent = self.recorder.publish(topic)
            properties.UserProperty = list(sent.headers.items())
            return self.client.publish(topic, payload, qos, retain, properties)

    def on_message(self, callback: Callable[[Any, Any, Any], None]) -> None:
        """Sets the client's callback."""

        def handle(client: Any, userdata: Any, message: Any) -> None:
            found = getattr(message.properties, "UserProperty", None)
            with self.recorder.handling(dict(found or ()), message.topic):
                callback(client, userdata, message)

        self.client.on_message = handle
