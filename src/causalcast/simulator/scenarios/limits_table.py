"""Reads the table `limits` of a scenario: numbers that bound or time something, by their names."""

from typing import Final

from causalcast.limits import check, limits_of
from causalcast.toml_table import Table

ROOMS: Final = ("core", "parts", "detectors", "overlays", "protocols")


def read_limits(table: Table) -> dict[str, float]:
    """Other values than the shipped ones; they hold while the scenario runs."""
    limits = table.table("limits")
    found: dict[str, float] = {}
    for name, value in limits.rest().items():
        if type(value) not in (int, float):
            raise limits.wrong(name, value, 'a number, and its name in quotes: "parts.…" = 1')
        limits_of(*ROOMS)  # all of them must be known
        try:
            check(name, value)
        except ValueError as error:
            raise limits.wrong(name, value, f"another one: {error}") from None
        found[name] = value
    return found
