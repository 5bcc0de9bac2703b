"""Chaos at the door: processes of nodes are killed and frozen, connections are cut, clients move.

Three nodes with storage, on a line, and clients in Python, in JavaScript (under Node, and as pages
in Chromium) and over HTTP that publish to two groups and read both. One blow after the other falls:
SIGKILL of a node, which comes back, SIGSTOP and SIGCONT, or a connection of a client that breaks.
Publishing and reading go on meanwhile.

At the end every client must have handled every publication that any client was told of, once.
`verify` judges the logs of the clients, as processes of a run: no effect before its cause.
"""

import argparse
import asyncio
import collections
import contextlib
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Protocol

from door_chaos_browser import Browser, ChromiumClient

import causalcast.clients
from causalcast import RemoteGroups, RemoteNode, connect, verify
from causalcast.limits import limits_of, set_to
from causalcast.recording import Recorder
from causalcast.recording.recorder import HEADER
from causalcast.runtime.operating.local_cluster import ClusterPlan, LocalCluster, free_addresses
from causalcast.trace.foreign_log import import_log

GROUPS = ("acl", "posts")
PROMISE = "no_creation,no_duplication,validity,agreement,fifo_order,causal_order"
BLOWS = {"kill": 5, "cut": 4, "freeze": 1}  # how often, of ten
PATIENCE = 180.0  # seconds for the last of them to have everything, on a busy machine
ALIVE = 1.0  # seconds: a node that is silent for twice as long is given up
# No client gives a publication up: nodes come back. What was given up may come out of order.
STAY = 600.0
LIMITS = {
    "clients.connect.stay": STAY,
    "clients.connect.longest_pause": 0.3,
    "clients.dialling.alive_every": ALIVE,
    "clients.dialling.open_within": 6.0,
}
TIMES = {"stay": STAY * 1000, "alive": ALIVE * 1000, "openWithin": 6000}  # the same in JavaScript
JAVASCRIPT = Path(__file__).with_suffix("").with_name("door_chaos_client.mjs")


class Client(Protocol):
    """Somebody who publishes and reads until it is enough."""

    name: str

    async def start(self, urls: list[str], log: Path) -> None: ...

    def cut(self) -> None: ...

    def stop_publishing(self) -> None: ...

    def far(self) -> dict[str, Any]: ...

    async def close(self) -> None: ...


class PythonClient:
    """`causalcast.connect`, in this process."""

    def __init__(self, name: str, chance: random.Random) -> None:
        self.name = name
        self.node: RemoteNode
        self._chance = chance
        self._far: dict[str, Any] = {"published": 0, "sure": 0, "handled": 0, "failure": ""}
        self._enough = False
        self._log: Recorder
        self._living: asyncio.Task[None]

    async def start(self, urls: list[str], log: Path) -> None:
        """Connect and begin."""
        self._log = Recorder(self.name, log)
        for group in GROUPS:
            self._log.subscribed(group)
        self.node = await connect(urls, name=self.name).__aenter__()
        self._living = asyncio.create_task(self._live())

    async def _live(self) -> None:
        try:
            async with self.node.together(*GROUPS, since="kept") as both:
                await asyncio.gather(self._read(both), self._publish())
        except Exception as error:
            self._far["failure"] = repr(error)

    async def _publish(self) -> None:
        while not self._enough:
            group = self._chance.choice(GROUPS)
            sent = self._log.publish(group)
            self._far["published"] += 1
            await self.node.group(group).publish(sent.id.encode())
            self._far["sure"] += 1
            await asyncio.sleep(self._chance.random() * 0.1)

    async def _read(self, both: RemoteGroups) -> None:
        async for message in both:
            self._log.delivered({HEADER: message.payload.decode()}, message.group)
            self._far["handled"] += 1
            await message.ack()

    def cut(self) -> None:
        """Break the connection."""
        self.node.cut()

    def stop_publishing(self) -> None:
        """It is enough."""
        self._enough = True

    def far(self) -> dict[str, Any]:
        """What it has done, and how often it had to connect again."""
        return {**self._far, "again": self.node.reconnections}

    async def close(self) -> None:
        """Hang up."""
        self._living.cancel()
        await asyncio.gather(self._living, return_exceptions=True)
        await self.node.close()
        self._log.close()


class JavaScriptClient:
    """`causalcast.js`, in a process of Node."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._far: dict[str, Any] = {"published": 0, "sure": 0, "handled": 0, "failure": ""}
        self._process: asyncio.subprocess.Process
        self._hearing: asyncio.Task[None]

    async def start(self, urls: list[str], log: Path) -> None:
        """Start the process."""
        script = Path(causalcast.clients.__file__).parent / "causalcast.js"
        module = (
            log.parent.parent / f"{self.name}.mjs"
        )  # Node takes a .js file for another kind of module
        shutil.copy(script, module)
        self._process = await asyncio.create_subprocess_exec(
            *("node", "--no-warnings", "--experimental-websocket", JAVASCRIPT, module, self.name),
            *(log, json.dumps(TIMES), *urls),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._hearing = asyncio.create_task(self._hear())

    async def _hear(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            self._far = json.loads(line)
        self._far["failure"] = self._far["failure"] or "its process ended"

    def cut(self) -> None:
        """Break the connection."""
        self._say(b"cut\n")

    def stop_publishing(self) -> None:
        """It is enough."""
        self._say(b"enough\n")

    def far(self) -> dict[str, Any]:
        """What it has done, as it said last."""
        return self._far

    async def close(self) -> None:
        """End the process."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        await self._hearing

    def _say(self, word: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(word)


class HttpClient:
    """POST and server-sent events, without anything of the package: at another node each time."""

    def __init__(self, name: str, chance: random.Random) -> None:
        self.name = name
        self._chance = chance
        self._far: dict[str, Any] = {"published": 0, "sure": 0, "handled": 0, "failure": ""}
        self._far["again"] = -1
        self._enough = False
        self._last = ""  # the id of the last event
        self._past = ""  # of the last answer
        self._stream: asyncio.StreamWriter | None = None
        self._urls: list[str]
        self._log: Recorder
        self._living: asyncio.Task[None]

    async def start(self, urls: list[str], log: Path) -> None:
        """Begin."""
        self._urls = urls
        self._log = Recorder(self.name, log)
        for group in GROUPS:
            self._log.subscribed(group)
        self._living = asyncio.create_task(self._live())

    async def _live(self) -> None:
        try:
            await asyncio.gather(self._read(), self._publish())
        except Exception as error:
            self._far["failure"] = repr(error)

    async def _publish(self) -> None:
        while not self._enough:
            group = self._chance.choice(GROUPS)
            sent = self._log.publish(group)
            self._far["published"] += 1
            words = {"do": "publish", "id": 1, "group": group, "key": sent.id, "text": sent.id}
            url = self._chance.choice(self._urls)  # the one that knows the key
            while not await self._post(url, json.dumps(words).encode()):
                await asyncio.sleep(0.1)
            self._far["sure"] += 1
            await asyncio.sleep(self._chance.random() * 0.1)

    async def _post(self, url: str, body: bytes) -> bool:
        """Whether it is published; if there was no answer, nobody knows."""
        past = f"Causalcast-Past: {self._past}\r\n" if self._past else ""
        seen = f"&past={self._last}" if self._last else ""
        head = f"POST /v1/ask?name={self.name}{seen} HTTP/1.1\r\nHost: {url}\r\n{past}"
        head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        with contextlib.suppress(OSError, EOFError, TimeoutError):
            async with asyncio.timeout(6.0):
                reader, writer = await asyncio.open_connection(*url.split(":"))
                try:
                    writer.write(head.encode() + body)
                    answer = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                finally:
                    writer.transport.abort()
            status = answer[0].split()[1]
            if status == "200":
                self._past = next(
                    line.split(": ")[1] for line in answer if line.startswith("Causalcast-Past")
                )
                return True
            if status != "503":
                raise RuntimeError(f"{url}: {answer[0]}")
        return False

    async def _read(self) -> None:
        groups = "&".join(f"group={group}" for group in GROUPS)
        while True:
            url = self._chance.choice(self._urls)
            last = f"Last-Event-ID: {self._last}\r\n" if self._last else ""
            past = f"&past={self._past}" if self._past else ""
            target = f"/v1/messages?since=kept&name={self.name}&{groups}{past}"
            head = f"GET {target} HTTP/1.1\r\nHost: {url}\r\n{last}\r\n"
            with contextlib.suppress(OSError, EOFError, TimeoutError):
                async with asyncio.timeout(6.0):
                    reader, self._stream = await asyncio.open_connection(*url.split(":"))
                    self._stream.write(head.encode())
                    answer = await reader.readuntil(b"\r\n\r\n")
                status = answer.split()[1]
                if status == b"200":
                    await self._take_events(reader)
                elif status != b"503":
                    raise RuntimeError(f"{url}: {answer!r}")
            self.cut()
            await asyncio.sleep(0.1)

    async def _take_events(self, reader: asyncio.StreamReader) -> None:
        self._far["again"] += 1
        while True:
            async with asyncio.timeout(4 * ALIVE):  # the others publish all the time
                lines = (await reader.readuntil(b"\n\n")).decode().splitlines()
            event = dict(line.split(": ", 1) for line in lines if ": " in line)
            if event.get("event") == "message":
                message = json.loads(event["data"])
                self._log.delivered({HEADER: message["text"]}, message["group"])
                self._far["handled"] += 1
            self._last = event.get("id", self._last)

    def cut(self) -> None:
        """Break the stream."""
        if self._stream is not None:
            self._stream.transport.abort()

    def stop_publishing(self) -> None:
        """It is enough."""
        self._enough = True

    def far(self) -> dict[str, Any]:
        """What it has done."""
        return self._far

    async def close(self) -> None:
        """Hang up."""
        self._living.cancel()
        await asyncio.gather(self._living, return_exceptions=True)
        self.cut()
        self._log.close()


class Chaos:
    """The cluster, the clients, and what befalls them."""

    def __init__(
        self,
        folder: Path,
        seed: int,
        python: int,
        javascript: int,
        http: int,
        chromium: int,
    ) -> None:
        self.folder = folder
        self._chance = random.Random(seed)
        groups = {group: [1, 2, 3] for group in GROUPS}
        plan = ClusterPlan(3, overlay="line", groups=groups, tls=False, clients=True)
        plan.trace_level = "deliveries"
        self._cluster = LocalCluster(folder / "cluster", plan)
        self._clients: list[Client] = [
            PythonClient(f"python-{number}", random.Random(seed + number))
            for number in range(python)
        ]
        self._clients += [JavaScriptClient(f"node-{number}") for number in range(javascript)]
        self._clients += [
            HttpClient(f"http-{number}", random.Random(seed + 100 + number))
            for number in range(http)
        ]
        self._browser = Browser(folder / "site") if chromium else None
        if self._browser is not None:
            self._clients += [
                ChromiumClient(f"chromium-{number}", self._browser, TIMES)
                for number in range(chromium)
            ]
        doors = {*self._cluster.addresses.values(), *map(self._cluster.door_of, (1, 2, 3))}
        free = [one for one in free_addresses(9) if not any(one in door for door in doors)]
        self._http = free[:3]
        for node, address in zip(self._cluster.ids, self._http, strict=True):
            with self._cluster.config_of(node).open("a") as config:
                config.write(f'http = "{address}"\n')
                if self._browser is not None:
                    config.write(f'origins = ["{self._browser.origin}"]\n')
        self.blows: collections.Counter[str] = collections.Counter()
        self._started: list[Client] = []

    async def run(self, blows: list[str]) -> dict[str, Any]:
        """All of it; what the judge says, and how much there was."""
        began = time.monotonic()
        (self.folder / "logs").mkdir(parents=True)
        try:
            await asyncio.to_thread(self._cluster.start_all)
            urls = [self._cluster.door_of(node) for node in self._cluster.ids]
            for number, client in enumerate(self._clients):
                turned = urls[number % 3 :] + urls[: number % 3]
                if isinstance(client, HttpClient):
                    turned = self._http
                await client.start(turned, self.folder / "logs" / f"{client.name}.jsonl")
                self._started.append(client)
            for blow in blows:
                await asyncio.sleep(self._chance.random() * 0.6)
                await self._strike(blow)
                self._check_alive()
            await self._settle()
            far = [client.far() for client in self._clients]
        finally:
            for client in self._clients:
                if client in self._started:
                    await client.close()
            if self._browser is not None:
                await self._browser.close()
            for node in self._cluster.ids:
                if self._cluster.is_running(node):
                    self._cluster.kill(node)
        verdict = verify(import_log(self.folder / "logs"), promise=PROMISE)
        return {
            "fine": verdict.is_fine,
            "blows": dict(self.blows),
            "clients": len(self._clients),
            "published": sum(one["published"] for one in far),
            "handled": sum(one["handled"] for one in far),
            "connected_again": sum(one.get("again", 0) for one in far),
            "seconds": round(time.monotonic() - began, 1),
            "verdict": verdict.to_json(),
        }

    async def _strike(self, blow: str) -> None:
        self.blows[blow] += 1
        cluster = self._cluster
        node = self._chance.choice([2, *cluster.ids])  # the middle one parts the others
        if blow == "cut":
            self._chance.choice(self._clients).cut()
        elif blow == "kill":
            cluster.kill(node)
            await asyncio.sleep(self._chance.random() * 0.5)
            await asyncio.to_thread(cluster.come_back, node)
        else:
            cluster.pause(node)
            await asyncio.sleep(self._chance.choice((0.5, 3 * ALIVE)))
            cluster.resume(node)

    async def _settle(self) -> None:
        for client in self._clients:
            client.stop_publishing()
        deadline = time.monotonic() + PATIENCE
        while True:
            self._check_alive()
            far = [client.far() for client in self._clients]
            published = sum(one["published"] for one in far)
            has_answers = all(one["sure"] == one["published"] for one in far)
            if has_answers and all(one["handled"] >= published for one in far):
                break
            if time.monotonic() > deadline:
                raise SystemExit(f"after {PATIENCE:g} s something is missing: {far}")
            await asyncio.sleep(0.1)
        await asyncio.sleep(0.5)  # what comes twice comes now

    def _check_alive(self) -> None:
        for client in self._clients:
            if client.far()["failure"]:
                raise SystemExit(f"{client.name}: {client.far()['failure']}")


def drawn(count: int, seed: int) -> list[str]:
    """Blows in a random order."""
    chance = random.Random(seed)
    return chance.choices(list(BLOWS), list(BLOWS.values()), k=count)


def play(
    folder: Path,
    seed: int,
    python: int,
    javascript: int,
    blows: list[str],
    http: int = 0,
    chromium: int = 0,
) -> dict[str, Any]:
    """One run in `folder`, which must not be there."""
    limits_of("clients")
    with set_to(LIMITS):
        return asyncio.run(Chaos(folder, seed, python, javascript, http, chromium).run(blows))


def main() -> int:
    """Let all blows fall, and print what became of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blows", type=int, default=100)
    parser.add_argument("--python", type=int, default=4, help="clients in Python")
    parser.add_argument("--javascript", type=int, default=3, help="clients under Node")
    parser.add_argument("--http", type=int, default=2, help="clients over HTTP")
    parser.add_argument("--chromium", type=int, default=0, help="clients that are pages there")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a new folder for logs, instead of a passing one")
    given = parser.parse_args()
    if given.javascript and shutil.which("node") is None:
        parser.error("there is no `node` here; --javascript 0 goes without")
    with tempfile.TemporaryDirectory() as passing:
        folder = given.keep or Path(passing) / "chaos"
        blows = drawn(given.blows, given.seed)
        found = play(
            folder,
            given.seed,
            given.python,
            given.javascript,
            blows,
            given.http,
            given.chromium,
        )
    print(json.dumps(found, indent=2))
    return 0 if found["fine"] else 1


if __name__ == "__main__":
    sys.exit(main())
