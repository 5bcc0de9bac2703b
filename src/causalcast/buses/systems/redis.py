"""Redis pub/sub: one server, as publish and subscribe are meant to be used."""

import contextlib
import shutil
import subprocess
import threading
import time
from importlib.metadata import version as version_of
from importlib.util import find_spec
from typing import Any

from causalcast.buses.ports import free_ports, wait_for_port
from causalcast.buses.system import Client, Handler, Servers, System
from causalcast.buses.threads import now
from causalcast.recording.redis_client import RecordedRedis

TOPICS = ("bus.access", "bus.posts")
TWO, ONE = "a connection per channel", "one connection"


def lacking() -> str | None:
    """Why Redis cannot be run."""
    if find_spec("redis") is None:
        return "redis-py is not installed (pip install redis)"
    if shutil.which("redis-server") is None:
        return "redis-server is not installed (apt install redis-server)"
    return None


def version() -> str:
    """Of server and client."""
    said = subprocess.run(
        ["redis-server", "--version"], capture_output=True, text=True, check=False
    )
    number = next((w[2:] for w in said.stdout.split() if w.startswith("v=")), "?")
    return f"redis-server {number}, redis-py {version_of('redis')}"


class RedisServers(Servers):
    """One server; the first process may be further away from it."""

    def start(self) -> list[dict[str, Any]]:
        (self._port,) = free_ports(1)
        self._start()
        slow = self.through_slow_link(self._port)
        return [{"port": slow if me == 0 else self._port} for me in range(self.processes)]

    def _start(self) -> None:
        command = ["redis-server", "--port", str(self._port), "--bind", "127.0.0.1"]
        self.run("redis", [*command, "--save", "", "--appendonly", "no"])
        wait_for_port(self._port)

    def restart(self) -> bool:
        self.end("redis")
        self._start()
        return True


class RedisClient(Client):
    """redis-py; a thread listens."""

    topics = TOPICS

    async def open(self, handle: Handler) -> None:
        import redis

        self._redis = redis.Redis(port=self.task.reach["port"])
        self._recorded = RecordedRedis(self._redis, self.recorder)
        self._closing = False
        self._recorded.subscribed(*TOPICS)
        apart = self.task.setup == TWO
        for channels in [(topic,) for topic in TOPICS] if apart else [TOPICS]:
            listener = self._redis.pubsub(ignore_subscribe_messages=True)
            listener.subscribe(*channels)
            threading.Thread(target=self._listen, args=(listener, handle), daemon=True).start()

    def _listen(self, listener: Any, handle: Handler) -> None:
        while not self._closing:
            with contextlib.suppress(OSError, self._redis_error()):
                message = listener.get_message(timeout=0.2)
                if message is not None:
                    with self._recorded.handling(message):
                        now(handle(message["channel"].decode()))
                continue
            time.sleep(0.1)  # the server is away

    def _redis_error(self) -> Any:
        import redis

        return redis.ConnectionError

    async def publish(self, topic: str, payload: bytes) -> None:
        with contextlib.suppress(self._redis_error()):  # nobody gets it; redis keeps nothing
            self._recorded.publish(topic, payload)

    async def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    async def close(self) -> None:
        self._closing = True


SYSTEM = System(
    name="Redis",
    setups={
        TWO: "a connection and a thread per channel",
        ONE: "both channels on one connection",
    },
    servers=RedisServers,
    client=RedisClient,
    lacking=lacking,
    version=version,
    settings="one server, nothing kept on disk",
    order="at most once, in the order in which the server gets messages",
)
