"""The way of one arriving publication through the code: calls, and how often they change the file.

    python benchmarks/publication_path.py vector_clock_broadcast cbcast locamu
    python benchmarks/publication_path.py cbcast --calls          each call, in its order

Three real nodes in this process, over TCP on loopback, without TLS and without a trace. Node 1
publishes, one publication at a time; `sys.setprofile` sees every call of this package. Counted is
the step in which a node reads the frame and delivers, from `frames_came` on, and of that what is
below the worlds (core, parts and protocols), from `Stack.receive` on. The last publication counts,
for the links are warm then, and the node that has most to do. Nothing is timed, so the figures are
the same on every machine.
"""

import argparse
import asyncio
import contextlib
import socket
import sys
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType

import causalcast
from causalcast.registry import find_protocol

PACKAGE = str(Path(causalcast.__file__).parent)
BELOW_THE_WORLDS = ("core/", "parts/", "protocols/")
PUBLICATIONS = 8
TOML = """
[node]
id = {id}
listen = "{listen}"
[cluster]
name = "path"
peers = {{ {peers} }}
[overlay]
kind = "{overlay}"
[protocol]
name = "{protocol}"
[groups]
all = "*"
[trace]
level = "none"
[security]
tls = false
"""
Call = tuple[int, str, str]  # depth, file, function


class Steps:
    """The calls of each step in which a frame came, from `frames_came` until it returns."""

    def __init__(self) -> None:
        self.steps: list[list[Call]] = []
        self._depth = 0  # below `frames_came`; 0 outside
        self._files: dict[CodeType, str] = {}

    def see(self, frame: FrameType, event: str, _: object) -> None:
        """For `sys.setprofile`."""
        if event == "call":
            if self._depth == 0 and frame.f_code.co_name != "frames_came":
                return
            if self._depth == 0:
                self.steps.append([])
            self._depth += 1
            file = self._file(frame.f_code)
            if file:
                self.steps[-1].append((self._depth, file, frame.f_code.co_qualname))
        elif event == "return" and self._depth:
            self._depth -= 1

    def _file(self, code: CodeType) -> str:
        """Its place in this package; empty for all other code, and for what is no function."""
        file = self._files.get(code)
        if file is None:
            is_ours = code.co_filename.startswith(PACKAGE) and not code.co_name.startswith("<")
            file = code.co_filename[len(PACKAGE) + 1 :] if is_ours else ""
            self._files[code] = file
        return file


def delivering(steps: list[list[Call]]) -> list[Call]:
    """The longest step in which a protocol delivered something: who passes it on has more to do."""
    found = [step for step in steps if any(name == "Outbox.deliver" for _, _, name in step)]
    return max(found, key=len)


def below_the_worlds(step: list[Call]) -> list[Call]:
    """What the stack was asked to receive, until it returned."""
    starts = [at for at, (_, _, name) in enumerate(step) if name.startswith("Stack.receive")]
    found: list[Call] = []
    for at in starts:
        depth = step[at][0]
        inside = [step[at]]
        for call in step[at + 1 :]:
            if call[0] <= depth:
                break
            inside.append(call)
        if any(name == "Outbox.deliver" for _, _, name in inside):
            found = inside
    return [call for call in found if call[1].startswith(BELOW_THE_WORLDS)]


def changes_of_file(calls: list[Call]) -> int:
    """How often a call stands in another file than the one before it."""
    files = [file for _, file, _ in calls]
    return sum(before != after for before, after in pairwise(files))


def ports() -> dict[int, int]:
    """Ports on loopback that nobody uses now."""
    with contextlib.ExitStack() as opened:
        sockets = [opened.enter_context(socket.socket()) for _ in range(3)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return {node: each.getsockname()[1] for node, each in enumerate(sockets, 1)}


def configs(folder: Path, protocol: str) -> Iterator[Path]:
    """The TOML of each of three nodes; in a line where the protocol needs a tree."""
    addresses = {node: f"127.0.0.1:{port}" for node, port in ports().items()}
    peers = ", ".join(f'{node} = "{address}"' for node, address in addresses.items())
    overlay = "line" if find_protocol(protocol).needs.overlay == "tree" else "full_mesh"
    for node, listen in addresses.items():
        config = folder / str(node) / "node.toml"
        config.parent.mkdir()
        config.write_text(
            TOML.format(id=node, listen=listen, peers=peers, overlay=overlay, protocol=protocol)
        )
        yield config


async def path_of(protocol: str) -> list[Call]:
    """The calls of the step in which the last publication came."""
    steps = Steps()
    with tempfile.TemporaryDirectory() as folder:
        async with contextlib.AsyncExitStack() as opened:
            nodes = [
                await opened.enter_async_context(causalcast.open(config))
                for config in configs(Path(folder), protocol)
            ]
            groups = [await opened.enter_async_context(node.group("all")) for node in nodes]
            for number in range(PUBLICATIONS):
                if number == PUBLICATIONS - 1:
                    await asyncio.sleep(1)  # acknowledgements of the others are over
                    sys.setprofile(steps.see)
                await groups[0].publish(b"x")
                for group in groups:
                    async for message in group:
                        await message.ack()
                        break
            sys.setprofile(None)
    return delivering(steps.steps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("protocols", nargs="+")
    parser.add_argument("--calls", action="store_true", help="print each call, too")
    arguments = parser.parse_args()
    print("| protocol | calls of the step | changes of file | below the worlds | changes | files |")
    print("| --- | --- | --- | --- | --- | --- |")
    for protocol in arguments.protocols:
        step = asyncio.run(path_of(protocol))
        below = below_the_worlds(step)
        files = len({file for _, file, _ in below})
        print(
            f"| `{protocol}` | {len(step)} | {changes_of_file(step)} | {len(below)} "
            f"| {changes_of_file(below)} | {files} |"
        )
        if arguments.calls:
            for depth, file, name in step:
                print(f"{'  ' * depth}{file} {name}")


if __name__ == "__main__":
    main()
