"""P coroutines publish 128 bytes each and await that they are durable, for a given time.

`causalcast`: a node of its own, nobody else. `raw log`: the same bytes in groups of P, written and
synced in a plain loop: the floor. `JetStream`: a stream on disk that syncs each write, one
connection. Prints records, seconds and CPU seconds of this process as JSON.
"""

import asyncio
import json
import os
import resource
import struct
import sys
import time
import zlib
from pathlib import Path

BODY = bytes(range(128))
HEAD = struct.Struct(">II")
CONFIG = """
[node]
id = 1
listen = "127.0.0.1:{port}"
[protocol]
name = "vector_clock_broadcast"
[groups]
bench = []
[storage]
path = "journal"
[security]
tls = false
"""


class Measured:
    """Records, seconds and CPU seconds of what happens inside `with`."""

    def __enter__(self) -> "Measured":
        self._started, self._cpu = time.monotonic(), _cpu_seconds()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.monotonic() - self._started
        self.cpu_seconds = _cpu_seconds() - self._cpu


Result = tuple[int, Measured]  # records, and what they took


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def raw_log(publishers: int, seconds: float, folder: Path) -> Result:
    """Write and sync one group after the other."""
    record = HEAD.pack(len(BODY), zlib.crc32(BODY)) + BODY
    fd = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    until = time.monotonic() + seconds
    records = 0
    with Measured() as measured:
        while time.monotonic() < until:
            group = []
            for _ in range(publishers):
                group.append(HEAD.pack(len(BODY), zlib.crc32(BODY)) + BODY)
            os.write(fd, b"".join(group))
            os.fdatasync(fd)
            records += publishers
    os.close(fd)
    assert len(record) * records == (folder / "log").stat().st_size
    return records, measured


async def in_turns(publish, publishers: int, seconds: float) -> Result:
    """Each coroutine awaits its record before the next."""
    until = time.monotonic() + seconds
    records = 0

    async def one() -> None:
        nonlocal records
        while time.monotonic() < until:
            await publish()
            records += 1

    with Measured() as measured:
        await asyncio.gather(*(one() for _ in range(publishers)))
    return records, measured


async def causalcast(publishers: int, seconds: float, folder: Path, port: int) -> Result:
    from causalcast import Node
    from causalcast.runtime.node_config import NodeConfig

    async with Node(NodeConfig.parse(CONFIG.format(port=port), folder)) as node:
        group = node.group("bench")
        return await in_turns(lambda: group.publish(BODY), publishers, seconds)


async def jetstream(publishers: int, seconds: float, port: int) -> Result:
    import nats

    client = await nats.connect(f"nats://127.0.0.1:{port}")
    stream = client.jetstream(timeout=60)
    await stream.add_stream(name="bench", subjects=["bench"])
    done = await in_turns(lambda: stream.publish("bench", BODY), publishers, seconds)
    await client.close()
    return done


def main() -> None:
    work = json.loads(sys.argv[1])
    publishers, seconds, folder = work["publishers"], work["seconds"], Path(work["folder"])
    if work["system"] == "raw log":
        records, measured = raw_log(publishers, seconds, folder)
    elif work["system"] == "JetStream":
        records, measured = asyncio.run(jetstream(publishers, seconds, work["port"]))
    else:
        records, measured = asyncio.run(causalcast(publishers, seconds, folder, work["port"]))
    facts = {
        "records": records,
        "seconds": measured.seconds,
        "cpu_seconds": measured.cpu_seconds,
    }
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
