"""RabbitMQ: one broker, a topic exchange, queues of the processes."""

import os
import shutil
import socket
import subprocess
from importlib.metadata import version as version_of
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from causalcast.buses.ports import free_ports, wait_for_port
from causalcast.buses.system import Client, Handler, Servers, System
from causalcast.recording.aio_pika_client import RecordedPika

TOPICS = ("bus.access", "bus.posts")
TWO, ONE = "a queue per topic", "one queue per process"
# The script behind Debian's wrapper: the wrapper changes to a user of its own.
PLACES = ("/usr/lib/rabbitmq/bin", "/opt/rabbitmq/sbin")


def script(name: str) -> str:
    """Where one of RabbitMQ's scripts is."""
    for place in PLACES:
        if (Path(place) / name).exists():
            return str(Path(place) / name)
    return shutil.which(name) or ""


def lacking() -> str | None:
    """Why RabbitMQ cannot be run."""
    if find_spec("aio_pika") is None:
        return "aio-pika is not installed (pip install aio-pika)"
    if not script("rabbitmq-server"):
        return "rabbitmq-server is not installed (apt install rabbitmq-server)"
    return None


def version() -> str:
    """Of broker and client."""
    found = sorted(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*"))
    number = found[-1].name.rpartition("-")[2] if found else "?"
    return f"rabbitmq-server {number}, aio-pika {version_of('aio-pika')}"


class RabbitServers(Servers):
    """One broker with a folder, a name and a port mapper of its own."""

    def start(self) -> list[dict[str, Any]]:
        self._port, distribution, mapper = free_ports(3)
        home = self.folder / "rabbitmq"
        home.mkdir(exist_ok=True)
        (home / "plugins").write_text("[].\n")
        self._env = os.environ | {
            "HOME": str(home),
            "RABBITMQ_NODENAME": f"buses-{self._port}@{socket.gethostname().partition('.')[0]}",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self._port),
            "RABBITMQ_DIST_PORT": str(distribution),
            "RABBITMQ_MNESIA_BASE": str(home / "data"),
            "RABBITMQ_LOG_BASE": str(home / "log"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "plugins"),
            "RABBITMQ_CONFIG_FILE": str(home / "none"),
            "ERL_EPMD_PORT": str(mapper),
        }
        self._start()
        slow = self.through_slow_link(self._port)
        return [{"port": slow if me == 0 else self._port} for me in range(self.processes)]

    def _start(self) -> None:
        self.run("rabbitmq", [script("rabbitmq-server")], self._env)
        wait_for_port(self._port)

    def restart(self) -> bool:
        self.end("rabbitmq")
        self._start()
        return True

    def stop(self) -> None:
        super().stop()
        mapper = shutil.which("epmd")
        if mapper:  # Erlang starts it beside the broker and leaves it behind
            subprocess.run([mapper, "-kill"], env=self._env, capture_output=True, check=False)


class RabbitClient(Client):
    """aio-pika; consumers are called in tasks."""

    topics = TOPICS

    async def open(self, handle: Handler) -> None:
        import aio_pika

        self._pika = aio_pika
        url = f"amqp://guest:guest@127.0.0.1:{self.task.reach['port']}/"
        self._connection = await aio_pika.connect_robust(url, reconnect_interval=0.2)
        self._recorded = RecordedPika(self.recorder)
        channel = await self._connection.channel()
        self._exchange = await channel.declare_exchange("bus", "topic")

        async def on_message(message: Any) -> None:
            await handle(message.routing_key)

        for topic in TOPICS:
            self.recorder.subscribed(topic)
        apart = self.task.setup == TWO
        for topics in [(topic,) for topic in TOPICS] if apart else [TOPICS]:
            reader = await self._connection.channel() if apart else channel
            name = f"p{self.task.me}-{'-'.join(topics)}"
            queue = await reader.declare_queue(name, durable=True)
            for topic in topics:
                await queue.bind("bus", topic)
            await queue.consume(self._recorded.handler(on_message), no_ack=True)

    async def publish(self, topic: str, payload: bytes) -> None:
        await self._recorded.publish(self._exchange, self._pika.Message(payload), topic)

    async def close(self) -> None:
        await self._connection.close()


SYSTEM = System(
    name="RabbitMQ",
    setups={
        TWO: "a queue and a channel per topic",
        ONE: "one queue per process, bound to both topics",
    },
    servers=RabbitServers,
    client=RabbitClient,
    lacking=lacking,
    version=version,
    settings="one broker, publisher confirms, messages not persistent, consumers without acks",
    order="per channel, exchange, queue and consumer",
)
