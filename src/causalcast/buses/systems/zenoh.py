"""Zenoh: processes as peers that know one another, or as clients of one router."""

import sys
import time
from importlib.metadata import version as version_of
from importlib.util import find_spec
from typing import Any

from causalcast.buses.ports import free_ports, wait_for_port
from causalcast.buses.system import Client, Handler, Servers, System
from causalcast.buses.threads import now
from causalcast.recording.zenoh_session import RecordedZenoh

TOPICS = ("bus/access", "bus/posts")
TWO, ONE, ROUTED = "peers, two subscribers", "peers, one subscriber", "one router, one subscriber"
ROUTER = """
import json, sys, time, zenoh
config = zenoh.Config()
for key, value in json.loads(sys.argv[1]).items():
    config.insert_json5(key, json.dumps(value))
with zenoh.open(config):
    time.sleep(3600)
"""


def lacking() -> str | None:
    """Why Zenoh cannot be run."""
    if find_spec("zenoh") is None:
        return "eclipse-zenoh is not installed (pip install eclipse-zenoh)"
    return None


def version() -> str:
    """Of the library, which is all there is."""
    return f"eclipse-zenoh {version_of('eclipse-zenoh')}"


def settings(mode: str, listen: list[int], connect: list[int]) -> dict[str, Any]:
    """Nobody is found by itself: everybody connects as told."""
    return {
        "mode": mode,
        "listen/endpoints": [f"tcp/127.0.0.1:{port}" for port in listen],
        "connect/endpoints": [f"tcp/127.0.0.1:{port}" for port in connect],
        "scouting/multicast/enabled": False,
        "scouting/gossip/enabled": False,
    }


class ZenohServers(Servers):
    """A router, or only ports for the peers."""

    def start(self) -> list[dict[str, Any]]:
        if self.setup == ROUTED:
            (self._port,) = free_ports(1)
            self._start()
            slow = self.through_slow_link(self._port)
            ports = [slow] + [self._port] * (self.processes - 1)
            return [settings("client", [], [port]) for port in ports]
        listen = free_ports(self.processes)
        reach = []
        for number in range(self.processes):
            connect = listen[:number]
            if number == self.processes - 1:
                connect = [self.through_slow_link(listen[0]), *connect[1:]]
            reach.append(settings("peer", [listen[number]], connect))
        return reach

    def _start(self) -> None:
        import json

        told = json.dumps(settings("router", [self._port], []))
        self.run("router", [sys.executable, "-c", ROUTER, told])
        wait_for_port(self._port)

    def restart(self) -> bool:
        if self.setup != ROUTED:
            return False
        self.end("router")
        self._start()
        return True


class ZenohClient(Client):
    """A session; subscribers are called in threads of Zenoh."""

    topics = TOPICS

    async def open(self, handle: Handler) -> None:
        import json

        import zenoh

        config = zenoh.Config()
        for key, value in self.task.reach.items():
            config.insert_json5(key, json.dumps(value))
        self._session: Any = zenoh.open(config)
        self._recorded = RecordedZenoh(self._session, self.recorder)

        def on_sample(sample: Any) -> None:
            now(handle(str(sample.key_expr)))

        if self.task.setup == TWO:
            self._subscribers = [self._recorded.subscribe(topic, on_sample) for topic in TOPICS]
        else:
            self._subscribers = [self._recorded.subscribe("bus/*", on_sample, topics=TOPICS)]

    async def publish(self, topic: str, payload: bytes) -> None:
        self._recorded.put(topic, payload)

    async def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    async def close(self) -> None:
        self._session.close()


SYSTEM = System(
    name="Zenoh",
    setups={
        TWO: "a mesh of peers, a subscriber per topic",
        ONE: "a mesh of peers, one subscriber with a wildcard",
        ROUTED: "clients of one router, one subscriber with a wildcard",
    },
    servers=ZenohServers,
    client=ZenohClient,
    lacking=lacking,
    version=version,
    settings="no scouting and no gossip: everybody connects as told",
    order="per publisher and key",
)
