"""Runs worth looking at: stories, errors of papers put back, and what searches found.

Each entry of `gallery.toml` names a scenario and a protocol, perhaps a second one to stand beside
it, lines of its source that are changed, and what its verdict must be, which a test checks. What
failed once and was mended stands behind them.
"""

import tomllib
from pathlib import Path
from typing import Any, Final

from causalcast.errors import ConfigError
from causalcast.lab.sources import patched
from causalcast.shipped import sample, samples

PREFIX: Final = "gallery/"
PAST: Final = "gallery/past/"
_FILE: Final = Path(__file__).parent / "gallery.toml"


def gallery() -> list[dict[str, Any]]:
    """All entries, by section; the sources of changed protocols included."""
    return [*_written(), *_past_failures()]


def text_of_entry(name: str) -> str:
    """The scenario of an entry."""
    if name.startswith(PAST):
        return sample("past_failures", name.removeprefix(PAST)).read_text(encoding="utf-8")
    for entry in _entries():
        if PREFIX + entry["id"] == name and "text" in entry:
            return str(entry["text"])
    raise ConfigError(f"no scenario {name!r} in the gallery")


def _entries() -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = tomllib.loads(_FILE.read_text(encoding="utf-8"))["entry"]
    return entries


def _written() -> list[dict[str, Any]]:
    found = []
    for entry in _entries():
        patches = entry.get("patches", [])
        found.append(
            {
                "id": entry["id"],
                "section": entry["section"],
                "title": entry["title"],
                "about": entry["about"].strip(),
                "scenario": entry.get("scenario", PREFIX + entry["id"]),
                "protocol": entry["protocol"],
                "other": entry.get("other", ""),
                "options": entry.get("options", {}),
                "seed": entry.get("seed"),
                "sources": patched(entry["protocol"], patches) if patches else {},
                "breaks": entry.get("breaks", ""),
            }
        )
    return found


def _past_failures() -> list[dict[str, Any]]:
    found = []
    for path in samples("past_failures"):
        text = path.read_text(encoding="utf-8")
        told = [line.lstrip("# ") for line in text.splitlines() if line.startswith("#")]
        table = tomllib.loads(text)
        found.append(
            {
                "id": f"past/{path.stem}",
                "section": "Failed once, mended since",
                "title": path.stem.replace("_", " "),
                "about": " ".join(told),
                "scenario": PAST + path.stem,
                "protocol": table["protocol"],
                "other": "",
                "options": {},
                "seed": None,
                "sources": {},
                "breaks": "",
            }
        )
    return found
