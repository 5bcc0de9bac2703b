"""Every number that bounds or times something, by name, with the values that are legal.

A module that has such a number makes a `Limit` (a whole number) or a `Span` (seconds) of it and
reads `.value` when it needs it, or once when an object is made. Its name is where it stands:
`runtime.links.links.DIAL_TIMEOUT` is `runtime.links.links.dial_timeout`. Who runs a node leaves
them alone. Searches draw them small (`set_to`), because what goes wrong at a limit does so seldom
while limits are generous.
"""

import importlib
import pkgutil
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, final

ONLY_DRAWN: Final = "only drawn"
DENSITIES: Final = (0.0, 0.15, 0.4, 0.7)  # how many of all limits a seed draws, in the mean a third

_ALL: Final[dict[str, "Bound"]] = {}


class Bound:
    """What all of them have. `least` and `most` are the values with which everything must work."""

    def __init__(
        self,
        name: str,
        default: float,
        least: float,
        most: float,
        unit: str,
        about: str,
        setting: str,
    ) -> None:
        if name in _ALL or not least <= default <= most:
            raise ValueError(f"limit {name}: {least} <= {default} <= {most}, and only one of it")
        self.name = name
        self.default_value = default
        self.least = least
        self.most = most
        self.unit = unit
        self.about = about
        self.setting = setting  # where people set it, such as "[limits] inbox_bytes"
        _ALL[name] = self

    def is_whole(self) -> bool:
        """Whether it is a whole number."""
        return True

    def current(self) -> float:
        """Its value now."""
        return self.default_value

    def put(self, value: float) -> None:
        """Give it another value; `set_to` alone does so."""


@final
class Limit(Bound):
    """A whole number: bytes, messages, times, or microseconds below the worlds."""

    def __init__(
        self,
        name: str,
        default: int,
        *,
        least: int,
        most: int,
        unit: str,
        about: str,
        setting: str = ONLY_DRAWN,
    ) -> None:
        super().__init__(name, default, least, most, unit, about, setting)
        self.default = default
        self.value = default

    def current(self) -> float:
        return self.value

    def put(self, value: float) -> None:
        self.value = int(value)


@final
class Span(Bound):
    """A time in seconds, for the event loop of a node."""

    def __init__(
        self,
        name: str,
        default: float,
        *,
        least: float,
        most: float,
        about: str,
        setting: str = ONLY_DRAWN,
    ) -> None:
        super().__init__(name, default, least, most, "s", about, setting)
        self.value = default

    def is_whole(self) -> bool:
        return False

    def current(self) -> float:
        return self.value

    def put(self, value: float) -> None:
        self.value = value


def forget(prefix: str) -> None:
    """Take out limits of modules that were loaded for a while: those whose names begin so."""
    for name in [name for name in _ALL if name.startswith(prefix)]:
        del _ALL[name]


def limits_of(*rooms: str) -> dict[str, Bound]:
    """All limits of some rooms of the package (`parts`, `runtime.links`, …), by name, in order.

    Their modules are imported for it: which limits there are must not depend on what happened to be
    imported before.
    """
    for room in rooms:
        _import_all(f"causalcast.{room}")
    return {
        name: limit
        for name, limit in sorted(_ALL.items())
        if any(name.startswith(f"{room}.") for room in rooms)
    }


def _import_all(module_name: str) -> None:
    module = importlib.import_module(module_name)
    if hasattr(module, "__path__"):
        for found in pkgutil.iter_modules(module.__path__):
            _import_all(f"{module_name}.{found.name}")


def drawn(limits: Mapping[str, Bound], stream: str) -> dict[str, float]:
    """Other values for some of these limits: half of them the least, others up to the default.

    Each limit is drawn by a generator of its own, so that a further limit moves no other one.
    """
    density = random.Random(stream).choice(DENSITIES)
    values: dict[str, float] = {}
    for name, limit in limits.items():
        chance = random.Random(f"{stream}/{name}")
        if chance.random() < density and limit.least < limit.default_value:
            values[name] = _small(limit, chance)
    return values


def _small(limit: Bound, chance: random.Random) -> float:
    if chance.random() < 0.5:
        value = limit.least
    else:
        lowest = max(limit.least, limit.default_value / 1_000_000)
        value = lowest * (limit.default_value / lowest) ** chance.random()  # every size alike
    return int(max(value, limit.least)) if limit.is_whole() else round(value, 6)


@contextmanager
def set_to(values: Mapping[str, float]) -> Iterator[None]:
    """Let some limits have other values for a while."""
    before: dict[str, float] = {}
    for name, value in values.items():
        check(name, value)
        before[name] = _ALL[name].current()
    for name, value in values.items():
        _ALL[name].put(value)
    try:
        yield
    finally:
        for name, value in before.items():
            _ALL[name].put(value)


def set_for_good(values: Mapping[str, float]) -> None:
    """Let some limits of this process have other values from now on."""
    for name, value in values.items():
        check(name, value)
        _ALL[name].put(value)


def check(name: str, value: float) -> None:
    """Raises ValueError where there is no such limit, or the value is none for it."""
    limit = _ALL.get(name)
    if limit is None:
        raise ValueError(f"there is no limit {name!r}")
    is_of_kind = not limit.is_whole() or value == int(value)
    if not is_of_kind or not limit.least <= value <= limit.most:
        kind = "a whole number" if limit.is_whole() else "a number"
        raise ValueError(f"{name}: expected {kind} from {limit.least} to {limit.most}")
