"""What a user writes is checked: names are exported, and a misspelt one is an error of its type."""

import subprocess
import sys
from pathlib import Path

import causalcast

USER = """
import dataclasses
import causalcast
from causalcast.testing import VirtualNode

async def handle(group: causalcast.Group, message: causalcast.ReceivedMessage) -> None:
    receipt: causalcast.Receipt = await group.publish(message.payload)
    print(receipt.id)

def handle_in_a_thread(group: causalcast.SyncGroup, message: causalcast.SyncMessage) -> None:
    receipt: causalcast.SyncReceipt = group.publish(message.payload)
    print(receipt.id)

@dataclasses.dataclass
class Said:
    text: str

async def typed(node: causalcast.AnyNode, real: causalcast.Node) -> str:
    chat: causalcast.TypedGroup[Said] = node.group("chat", type=Said)
    await real.group("chat", type=Said).publish(Said("tea"))
    search: causalcast.TypedReader[Said] = await chat.subscribe("search")
    async for message in search:
        said: causalcast.TypedMessage[Said] = message
        return said.value.text
    return ""

def typed_in_a_thread(node: causalcast.SyncNode) -> str:
    with node.group("chat", type=Said) as chat:
        return next(iter(chat)).value.text

async def application(node: causalcast.AnyNode) -> None:
    async with node.group("chat") as chat:
        receipt: causalcast.AnyReceipt = await chat.publish(b"hello")
        chat.on_message(print)
        async for message in chat:
            print(receipt.id, node.id, message.payload)
            await chat.ack_many([message])

async def anywhere(
    real: causalcast.Node, virtual: VirtualNode, remote: causalcast.RemoteNode
) -> None:
    await application(real)
    await application(virtual)
    await application(remote)
"""


def checked(folder: Path, source: str) -> str:
    program = folder / "program.py"
    program.write_text(source)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", str(program)]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False).stdout


def test_every_name_can_be_loaded() -> None:
    for name in causalcast.__all__:
        assert getattr(causalcast, name) is not None


def test_programs_can_be_annotated_and_mistakes_are_found(tmp_path: Path) -> None:
    """A program that is written for any node takes a real, a virtual and a remote one."""
    mistakes = """
causalcast.opne("node.toml")
node: causalcast.AnyNode = object()
async def wrong(node: causalcast.AnyNode) -> int:
    await node.group("chat", type=Said).publish("tea")
    return (await anext(node.group("chat", type=Said))).value.text
async def marked(message: causalcast.AnyMessage) -> None:
    await message.ack(durable=True)
"""
    said = checked(tmp_path, USER + mistakes)
    assert 'has no attribute "opne"' in said
    assert 'expression has type "object", variable has type "AnyNode"' in said
    assert 'Unexpected keyword argument "durable"' in said  # the disk of a node is not a client's
    assert 'incompatible type "str"; expected "Said"' in said
    assert 'got "str", expected "int"' in said
    assert "Found 5 errors" in said, said
