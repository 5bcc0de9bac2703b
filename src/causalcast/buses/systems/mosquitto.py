"""Mosquitto: one broker, or three that are bridged, spoken to in MQTT 5."""

import shutil
import subprocess
import time
from importlib.metadata import version as version_of
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from causalcast.buses.ports import free_ports, wait_for_port
from causalcast.buses.system import Client, Handler, Servers, System
from causalcast.buses.threads import now
from causalcast.recording.paho_client import RecordedMqtt

TOPICS = ("bus/access", "bus/posts")
BRIDGED, ONE = "three bridged brokers, QoS 0", "one broker, QoS 1"


def server_path() -> str:
    """Debian keeps it where only administrators look."""
    return shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin") or ""


def lacking() -> str | None:
    """Why Mosquitto cannot be run."""
    if find_spec("paho") is None:
        return "paho-mqtt is not installed (pip install paho-mqtt)"
    if not server_path():
        return "mosquitto is not installed (apt install mosquitto)"
    return None


def version() -> str:
    """Of broker and client."""
    said = subprocess.run([server_path(), "-h"], capture_output=True, text=True, check=False)
    return f"{said.stdout.splitlines()[0]}, paho-mqtt {version_of('paho-mqtt')}"


class MosquittoServers(Servers):
    """A line of brokers, or one; in the line the first bridge may be slow."""

    def start(self) -> list[dict[str, Any]]:
        self._count = self.processes if self.setup == BRIDGED else 1
        self._ports = free_ports(self._count)
        for number in range(self._count):
            self._write_config(number)
        for number in range(self._count):
            self._start(number)
        if self.setup == BRIDGED:
            time.sleep(2)  # the bridges connect by themselves, and nobody tells when
            return [{"port": port} for port in self._ports]
        slow = self.through_slow_link(self._ports[0])
        return [{"port": slow if me == 0 else self._ports[0]} for me in range(self.processes)]

    def _config(self, number: int) -> Path:
        return self.folder / f"mosquitto-{number}.conf"

    def _write_config(self, number: int) -> None:
        lines = [f"listener {self._ports[number]} 127.0.0.1", "allow_anonymous true",
                 "max_queued_messages 0"]  # fmt: skip
        if number:
            before = self._ports[number - 1]
            before = self.through_slow_link(before) if number == 1 else before
            lines += [f"connection bridge-{number}", f"address 127.0.0.1:{before}",
                      "topic bus/# both 0", "bridge_protocol_version mqttv50",
                      "restart_timeout 1", f"remote_clientid bridge-{number}"]  # fmt: skip
        self._config(number).write_text("\n".join(lines) + "\n")

    def _start(self, number: int) -> None:
        self.run(f"mosquitto-{number}", [server_path(), "-c", str(self._config(number))])
        wait_for_port(self._ports[number])

    def restart(self) -> bool:
        self.end("mosquitto-0")
        self._start(0)
        return True


class MosquittoClient(Client):
    """paho-mqtt; a thread of its own calls back."""

    topics = TOPICS

    async def open(self, handle: Handler) -> None:
        import paho.mqtt.client as mqtt

        self._qos = 0 if self.task.setup == BRIDGED else 1
        self._client = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2,
            client_id=f"p{self.task.me}",
            protocol=mqtt.MQTTv5,
        )
        self._client.reconnect_delay_set(1, 1)
        self._recorded = RecordedMqtt(self._client, self.recorder)
        self._recorded.on_message(lambda client, data, message: now(handle(message.topic)))
        for topic in TOPICS:
            self.recorder.subscribed(topic)
        # Subscribed on every connection: after a restart the broker knows nobody.
        self._client.on_connect = lambda client, *_: client.subscribe([
            (topic, self._qos) for topic in TOPICS
        ])  # fmt: skip
        self._client.connect("127.0.0.1", self.task.reach["port"])
        self._client.loop_start()
        while not self._client.is_connected():
            time.sleep(0.02)
        time.sleep(0.3)  # the subscriptions reach the broker, and over bridges the others

    async def publish(self, topic: str, payload: bytes) -> None:
        self._recorded.publish(topic, payload, self._qos)

    async def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    async def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


SYSTEM = System(
    name="Mosquitto",
    setups={
        BRIDGED: "a line of three brokers, a process at each, QoS 0",
        ONE: "one broker, QoS 1",
    },
    servers=MosquittoServers,
    client=MosquittoClient,
    lacking=lacking,
    version=version,
    settings="MQTT 5, no limit of queued messages",
    order="per publisher, topic and QoS; bridges keep it per bridge",
)
