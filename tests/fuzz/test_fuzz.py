"""The short form of `make fuzz`: seeded changes of good inputs, for every target.

The long form is guided by coverage. Both must find a bug that is planted.
"""

import random
import subprocess
import sys
import time
import tracemalloc
import warnings
from pathlib import Path

import pytest
from fuzz_targets import Target, examples, subject, targets

from causalcast.core.message import Message
from causalcast.core.outbox import Outbox
from causalcast.errors import WireError
from causalcast.parts.safe_links.links import Link
from causalcast.parts.safe_links.vector_setup import TooFarBehind, VectorSetup

INPUTS = {"wire": 600, "sense": 120}
INPUTS_OF_OTHERS = 400
SLOWEST = 2.0  # seconds for one input; usual are tens of microseconds
MOST_ALLOCATED = 1 << 20


def changed(example: bytes, draw: random.Random) -> bytes:
    """A good input with bytes changed, cut off, doubled or made up."""
    data = bytearray(example)
    for _ in range(draw.randrange(1, 6)):
        at = draw.randrange(len(data) + 1)
        what = draw.randrange(4)
        if what == 0 and at < len(data):
            data[at] = draw.randrange(256)
        elif what == 1:
            del data[at:]
        elif what == 2:
            data[at:at] = data[at : at + draw.randrange(16)]
        else:
            data[at:at] = draw.randbytes(draw.randrange(16))
    return bytes(data)


def play(name: str, target: Target, count: int, seed: int = 1) -> None:
    """So many inputs; whatever a target raises is a bug, and so is one that takes long."""
    draw = random.Random(f"{name} {seed}")
    good = examples(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(count):
            data = changed(draw.choice(good), draw)
            if name.startswith("sense:") and draw.random() < 0.5:
                data = draw.randbytes(draw.randrange(10, 120))
            begun = time.process_time()  # others may have the machine meanwhile
            target(data)
            assert time.process_time() - begun < SLOWEST, f"{name} took long for {data!r}"


@pytest.mark.parametrize("name", targets())
def test_nothing_unexpected_comes_of_any_bytes(name: str) -> None:
    play(name, targets()[name], INPUTS.get(name.partition(":")[0], INPUTS_OF_OTHERS))


@pytest.mark.parametrize(
    ("name", "found"),
    [
        # A frame of one message, whose own first byte says that it is a frame of many.
        ("wire:prc_broadcast", "dd00000001dd0000000100"),
    ],
)
def test_what_was_found_once_stays_mended(name: str, found: str) -> None:
    targets()[name](bytes.fromhex(found))


def test_a_planted_bug_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """An assertion about what neighbours say, as it once stood in the code."""
    whole = VectorSetup.on_message

    def trusting(self: VectorSetup, link: Link, message: Message, out: Outbox) -> None:
        assert type(message).wire.name.startswith("vector_setup.")
        whole(self, link, message, out)

    assert TooFarBehind.wire.name.startswith("vector_setup.")
    monkeypatch.setattr(VectorSetup, "on_message", trusting)
    with pytest.raises(AssertionError):
        play("sense:prc_broadcast", targets()["sense:prc_broadcast"], INPUTS["sense"])


@pytest.mark.parametrize("name", [name for name in targets() if name.startswith("wire:")])
def test_what_only_claims_to_be_long_takes_no_memory(name: str) -> None:
    """A list, a dict, a text, some bytes of four billion elements, in every place of a message."""
    codec = subject(name.partition(":")[2]).codec
    claims = [bytes([kind]) + b"\xff" * 4 for kind in (0xDD, 0xDF, 0xDB, 0xC6)]
    tracemalloc.start()
    try:
        for example in examples(name):
            for at in range(len(example)):
                for claim in claims:
                    with pytest.raises(WireError):
                        codec.decode(example[:at] + claim)
        assert tracemalloc.get_traced_memory()[1] < MOST_ALLOCATED
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_the_long_form_finds_a_planted_bug(tmp_path: Path) -> None:
    pytest.importorskip("atheris", reason="fuzzing by coverage needs atheris (extra fuzz)")
    fuzz = Path(__file__).with_name("fuzz.py")
    planted = fuzz.read_text().replace(
        "    target = targets()[name]\n",
        "    whole = targets()[name]\n"
        "    def target(data):\n"
        "        whole(data)\n"
        "        assert data[:1] != b'\\x07', 'planted'\n",
    )
    (tmp_path / "planted.py").write_text(planted)
    command = [sys.executable, str(tmp_path / "planted.py"), "greeting", "--seconds", "20"]
    search = {"PYTHONPATH": f"{fuzz.parent}:{':'.join(sys.path)}"}
    done = subprocess.run(
        [*command, "--corpus", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env=search,
    )
    assert done.returncode != 0 and "planted" in done.stdout + done.stderr, done.stderr[-2000:]
