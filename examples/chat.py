"""A chat of three people: real sockets, real journals, one node for each person.

    python examples/chat.py          they talk by themselves, in one process, and it ends
    python examples/chat.py Ada      you are Ada; be Bob and Cleo in other terminals

Whoever sees a question may answer at once, and the answer may overtake the question on its way to
a third. However the copies travel, nobody is shown an answer before its question. Leave with Ctrl-D
or Ctrl-C and come back later: what was said meanwhile is shown then.
"""

import asyncio
import contextlib
import socket
import sys
import tempfile
import threading
from pathlib import Path

import causalcast
from causalcast.errors import CausalcastError, NodeError

PEOPLE = {1: "Ada", 2: "Bob", 3: "Cleo"}
FIRST_PORT = 7471  # of those who sit at terminals; they have to know one another's
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


# They talk by themselves


async def play() -> None:
    """Start everybody, let them talk, and print what each of them saw."""
    ports = dict(zip(PEOPLE, free_ports(len(PEOPLE)), strict=True))
    with tempfile.TemporaryDirectory() as folder:
        configs = [write_config(Path(folder), node, ports) for node in PEOPLE]
        async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
            talks = [tasks.create_task(talk(config)) for config in configs]
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


# You talk


def sit_down(name: str) -> None:
    """Be one of them: what you type is published, what others say is printed."""
    me = {person: node for node, person in PEOPLE.items()}[name]
    ports = {node: FIRST_PORT + node - 1 for node in PEOPLE}
    config = write_config(Path("chat"), me, ports)
    with causalcast.open_sync(config) as node, node.group("chat") as chat:
        others = " and ".join(person for person in PEOPLE.values() if person != name)
        print(f"you are {name}. Type a line; {others} see it as soon as they are there.")
        reader = threading.Thread(target=show, args=(chat, me), daemon=True)
        reader.start()
        with contextlib.suppress(KeyboardInterrupt):
            for line in sys.stdin:
                if line.strip():
                    chat.publish(line.strip().encode())
        print("bye; what is said meanwhile waits for you")


def show(chat: "causalcast.SyncGroup", me: int) -> None:
    """Print what others say until the node is closed."""
    with contextlib.suppress(NodeError):
        for message in chat:
            if message.origin != me:
                print(f"{PEOPLE[message.origin]}: {message.payload.decode()}", flush=True)
            message.ack()


# What both need


def write_config(folder: Path, node: int, ports: dict[int, int]) -> Path:
    """A folder and a TOML file for one node; a journal that is there already is kept."""
    addresses = {node: f"127.0.0.1:{port}" for node, port in ports.items()}
    peers = ", ".join(f'{node} = "{address}"' for node, address in addresses.items())
    name = PEOPLE[node]
    config = folder / name / "node.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(TOML.format(id=node, name=name, listen=addresses[node], peers=peers))
    return config


def free_ports(count: int) -> list[int]:
    """Ports on loopback that nobody uses now."""
    with contextlib.ExitStack() as opened:
        sockets = [opened.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


if __name__ == "__main__":
    names = sys.argv[1:]
    if not names:
        asyncio.run(play())
    elif names[0] in PEOPLE.values():
        try:
            sit_down(names[0])
        except CausalcastError as error:
            sys.exit(f"chat: {error}")
    else:
        sys.exit(f"chat: nobody is called {names[0]}; be {', '.join(PEOPLE.values())}")
