"""What was run: protocol, options, scenario, seed, and the guarantees that were promised."""

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from causalcast.errors import TraceError
from causalcast.trace.kinds import (
    FOREIGN_VERSION,
    GUARANTEES,
    REPLY_ORDER,
    SCHEMA_VERSION,
    WEAKER_FORMS,
)

WORLDS = ("simulated", "real", "imported")
REDELIVERY = ("none", "after_recover", "any")
VERSIONS = (SCHEMA_VERSION, FOREIGN_VERSION)
# What checks and reports rely on; the rest is only shown.
_TYPES = {
    "run_id": str,
    "world": str,
    "options": dict,
    "guarantees": list,
    "faults": dict,
    "redelivery": str,
    "complete": bool,
    "whole": bool,
    "timed": bool,
    "found_out": list,
}


@dataclass
class RunHeader:
    """The content of `run.json`."""

    run_id: str
    world: str
    protocol: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    overlay: str | None = None
    seed: int | None = None
    scenario: str | None = None
    version: str = ""
    guarantees: list[str] = field(default_factory=list)
    faults: dict[str, int] = field(default_factory=dict)
    redelivery: str = "none"
    complete: bool = True
    whole: bool = True
    """Whether every row of every process is there; an imported log may be partial."""
    timed: bool = True
    """Whether rows say when they happened; without times `at_us` only puts them into an order."""
    found_out: list[str] = field(default_factory=list)
    """What an import found out of a log by itself, in words: why it is partial, for instance."""
    started_at: str | None = None
    schema: int = SCHEMA_VERSION

    def to_json(self) -> str:
        """The text of `run.json`, keys sorted, so that equal runs have equal bytes."""
        facts = asdict(self)
        if self.whole:
            del facts["whole"]
        if self.timed:
            del facts["timed"]
        if not self.found_out:
            del facts["found_out"]
        return json.dumps(facts, indent=2, sort_keys=True) + "\n"

    @staticmethod
    def from_json(text: str, where: Path) -> "RunHeader":
        """Read `run.json`, or say what is wrong with it."""
        try:
            raw = json.loads(text)
        except json.JSONDecodeError as error:
            raise TraceError(f"{where}: not JSON ({error})") from None
        if not isinstance(raw, dict):
            raise TraceError(f"{where}: expected an object, found {type(raw).__name__}")
        if raw.get("schema") not in VERSIONS:
            raise TraceError(
                f"{where}: schema {raw.get('schema')!r}, this version reads"
                f" {' and '.join(map(str, VERSIONS))}"
            )
        known = {f.name for f in fields(RunHeader)}
        for key in ("run_id", "world"):
            if key not in raw:
                raise TraceError(f"{where}: key {key!r} is missing")
        header = RunHeader(**{key: value for key, value in raw.items() if key in known})
        header._check(where)
        return header

    def _check(self, where: Path) -> None:
        for name, kind in _TYPES.items():
            if not isinstance(getattr(self, name), kind):
                raise TraceError(f"{where}: key {name!r} must be a {kind.__name__}")
        if self.world not in WORLDS:
            raise TraceError(f"{where}: world {self.world!r}, expected one of {', '.join(WORLDS)}")
        if self.redelivery not in REDELIVERY:
            raise TraceError(
                f"{where}: redelivery {self.redelivery!r}, expected one of {', '.join(REDELIVERY)}"
            )
        for guarantee in self.guarantees:
            if guarantee not in (*GUARANTEES, *WEAKER_FORMS, REPLY_ORDER):
                raise TraceError(f"{where}: unknown guarantee {guarantee!r}")
