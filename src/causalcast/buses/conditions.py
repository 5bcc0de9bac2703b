"""Under which conditions the buses are run: how fast, and what goes wrong meanwhile."""

from dataclasses import dataclass
from typing import Final

from causalcast.errors import ConfigError


@dataclass(frozen=True)
class Condition:
    """The same for every bus."""

    name: str
    words: str
    rate: float = 60.0
    """Publications per second and process that answer nothing."""
    slow_route: bool = False
    slow_subscriber_ms: float = 0.0
    restarts: bool = False


CONDITIONS: Final = (
    Condition("moderate", "60 publications per second and process"),
    Condition("high rate", "400 publications per second and process", rate=400.0),
    Condition("slow route", "one way is 20 ms longer than the others", slow_route=True),
    Condition("slow subscriber", "one process takes 2 ms for each message", slow_subscriber_ms=2.0),
    Condition("restart", "a server is stopped in the middle and started again", restarts=True),
)


def condition_named(name: str) -> Condition:
    """A condition by its name."""
    for condition in CONDITIONS:
        if condition.name == name:
            return condition
    known = ", ".join(condition.name for condition in CONDITIONS)
    raise ConfigError(f"no condition {name!r}; there are {known}")
