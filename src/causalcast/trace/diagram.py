"""A run as a picture of text: nodes side by side, time downwards, one event per line."""

from causalcast.printable import printable
from causalcast.trace.run_folder import Run

MARKS = {"publish": "●", "deliver": "○", "crash": "✗", "recover": "↑", "hold": "…"}
SHOWN = ("publish", "deliver", "hold", "crash", "recover", "join", "leave", "suspect", "trust")
ORIGIN_SHIFT = 32


def draw_run(run: Run, most_rows: int = 60) -> str:
    """What happened at which node, in the order of time."""
    called = map(printable, run.nodes["name"].to_pylist())
    names = dict(zip(run.nodes["node"].to_pylist(), called, strict=True))
    rows = [row for row in run.events.to_pylist() if row["kind"] in SHOWN]
    rows.sort(key=lambda row: row["at_us"])  # stable: of one node in the order of its log
    labels = [_label(row, names) for row in rows[:most_rows]]
    width = max([len(name) for name in names.values()] + [len(label) for label in labels]) + 2
    lines = ["".join(name.ljust(width) for name in names.values()).rstrip()]
    for row, label in zip(rows, labels, strict=False):
        cells = [(label if node == row["node"] else "│").ljust(width) for node in names]
        lines.append("".join(cells).rstrip())
    if len(rows) > most_rows:
        lines.append(f"… and {len(rows) - most_rows} more events")
    return "\n".join(lines)


def _label(row: dict[str, object], names: dict[int, str]) -> str:
    kind = str(row["kind"])
    words = [MARKS.get(kind, "◇"), kind]
    message, peer = row["message"], row["peer"]
    if isinstance(message, int):
        words.append(f"{message >> ORIGIN_SHIFT}.{message & 0xFFFFFFFF}")
    if isinstance(peer, int):
        words.append(names.get(peer, str(peer)))
    if kind == "hold" and row["note"]:
        words.append(printable(row["note"]))
    return " ".join(words)
