"""What happens to the logs that engineers really have: sampled, rotated, without a process, written
late. Each takes the lines of a whole log and gives those of the other.
"""

import gzip
import json
from pathlib import Path
from random import Random
from typing import Any

JsonLine = dict[str, Any]


def read_lines(path: Path) -> list[JsonLine]:
    """The lines of a file, also a packed one; a torn end is left out."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    return [json.loads(line) for line in text.splitlines() if line.endswith("}")]


def rows_missing(lines: list[JsonLine], share: float, seed: int = 7) -> list[JsonLine]:
    """Some rows are gone, anywhere."""
    random = Random(seed)
    return [line for line in lines if random.random() >= share]


def messages_sampled(lines: list[JsonLine], share: float, seed: int = 7) -> list[JsonLine]:
    """Of some messages all rows are gone."""
    random = Random(seed)
    messages = dict.fromkeys(str(line.get("message")) for line in lines)
    gone = {message for message in messages if random.random() >= share}
    return [line for line in lines if str(line.get("message")) not in gone or "message" not in line]


def process_missing(lines: list[JsonLine], process: str | int) -> list[JsonLine]:
    """One process has no log."""
    return [line for line in lines if line["node"] != process]


def rotated(lines: list[JsonLine], share: float) -> list[JsonLine]:
    """The beginning of every log is lost, a different share of each."""
    rows: dict[Any, int] = {}
    for line in lines:
        rows[line["node"]] = max(line["pos"], rows.get(line["node"], 0))
    first = {
        node: share * (place + 1) / len(rows) * last
        for place, (node, last) in enumerate(rows.items())
    }
    return [line for line in lines if line["pos"] >= first[line["node"]]]


def published_late(lines: list[JsonLine], rows: int = 2) -> list[JsonLine]:
    """Publications are logged so many rows after they happened: after the send."""
    logs: dict[Any, list[JsonLine]] = {}
    for line in lines:
        logs.setdefault(line["node"], []).append(line)
    late = []
    for log in logs.values():
        log.sort(key=lambda line: line["pos"])
        order = sorted(
            range(len(log)),
            key=lambda at: at + (rows + 0.5 if log[at]["kind"] == "publish" else 0),
        )
        late += [log[at] | {"pos": pos} for pos, at in enumerate(order)]
    return late


def shared(lines: list[JsonLine], name: str) -> list[JsonLine]:
    """Every delivery says that the message went to one of several."""
    return [line | {"share": name} if line["kind"] == "deliver" else line for line in lines]
