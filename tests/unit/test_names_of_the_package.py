"""What a user writes is checked: names are exported, and a misspelt one is an error of its type."""

import subprocess
import sys
from pathlib import Path

import causalcast

USER = """
import causalcast

async def handle(group: causalcast.Group, message: causalcast.ReceivedMessage) -> None:
    receipt: causalcast.Receipt = await group.publish(message.payload)
    print(receipt.id)

def handle_in_a_thread(group: causalcast.SyncGroup, message: causalcast.SyncMessage) -> None:
    receipt: causalcast.SyncReceipt = group.publish(message.payload)
    print(receipt.id)
"""


def checked(folder: Path, source: str) -> str:
    program = folder / "program.py"
    program.write_text(source)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", str(program)]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False).stdout


def test_every_name_can_be_loaded() -> None:
    for name in causalcast.__all__:
        assert getattr(causalcast, name) is not None


def test_handlers_can_be_annotated_and_typos_are_found(tmp_path: Path) -> None:
    said = checked(tmp_path, USER + "\ncausalcast.opne('node.toml')\n")
    assert 'has no attribute "opne"' in said
    assert "Found 1 error" in said
