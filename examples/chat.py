"""Chat over three nodes: real sockets, real journals, one process, and it ends by itself.

    python examples/chat.py

Ada asks, and whoever sees the question answers at once. However the copies travel, nobody is shown
an answer before its question.
"""

import asyncio
import socket
import tempfile
from pathlib import Path

import causalcast

PEOPLE = {1: "Ada", 2: "Bob", 3: "Cleo"}
TOML = """
[node]
id = {id}
name = "{name}"
listen = "{listen}"
[cluster]
name = "chat"
peers = {{ {peers} }}
[protocol]
name = "vector_clock_broadcast"
[groups]
chat = "*"
[security]
tls = false  # all of them are in this process; elsewhere see `causalcast keys`
"""


async def main() -> None:
    """Start everybody, let them talk, and print what each of them saw."""
    with tempfile.TemporaryDirectory() as folder:
        async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
            talks = [tasks.create_task(talk(config)) for config in write_configs(Path(folder))]
    for name, talk_of in zip(PEOPLE.values(), talks, strict=True):
        print(f"{name} saw: {', '.join(talk_of.result())}")


async def talk(config: Path) -> list[str]:
    """One person: ask or answer, and read until everybody has spoken."""
    seen: list[str] = []
    async with causalcast.open(config) as node, node.group("chat") as chat:
        if node.id == 1:
            await chat.publish(b"Ada: tea or coffee?")
        async for message in chat:
            seen.append(message.payload.decode())
            if message.origin == 1 and node.id != 1:
                await chat.publish(f"{PEOPLE[node.id]}: tea".encode())
            await message.ack()
            if len(seen) == len(PEOPLE):
                break
        await asyncio.sleep(1)  # let slower neighbours fetch what they still lack
    return seen


def write_configs(folder: Path) -> list[Path]:
    """A folder and a TOML file for each node, on loopback ports that are free now."""
    with socket.socket() as one, socket.socket() as two, socket.socket() as three:
        sockets = dict(zip(PEOPLE, (one, two, three), strict=True))
        for opened in sockets.values():
            opened.bind(("127.0.0.1", 0))
        addresses = {node: f"127.0.0.1:{s.getsockname()[1]}" for node, s in sockets.items()}
    peers = ", ".join(f'{node} = "{address}"' for node, address in addresses.items())
    configs = []
    for node, name in PEOPLE.items():
        config = folder / name / "node.toml"
        config.parent.mkdir()
        config.write_text(TOML.format(id=node, name=name, listen=addresses[node], peers=peers))
        configs.append(config)
    return configs


if __name__ == "__main__":
    asyncio.run(main())
