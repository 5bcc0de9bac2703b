"""Limits of a protocol and its parts, drawn small: what goes wrong at a limit is seldom otherwise.

Whole nodes draw theirs themselves (`nodeworld`). Here only those count that a protocol can see.
"""

from collections.abc import Mapping
from typing import Any, Final

from causalcast.core.spec import ProtocolSpec
from causalcast.limits import drawn, limits_of
from causalcast.swarm.generate import toml_text

ROOMS: Final = ("core", "parts", "detectors", "overlays", "protocols")


def with_limits(text: str, limits: Mapping[str, float]) -> str:
    """A scenario that says its limits itself, and so can be repeated from its text alone."""
    if not limits:
        return text
    return text + toml_text({}, [("limits", dict(limits))])


def small_limits(spec: ProtocolSpec, options: Mapping[str, Any], seed: int) -> dict[str, float]:
    """Other values than the shipped ones for some of the limits, by name."""
    hosted = [] if spec.contains is None else spec.contains(spec.settings(dict(options)))
    own = tuple(f"protocols.{name}." for name in (spec.name, *hosted))
    limits = {
        name: limit
        for name, limit in limits_of(*ROOMS).items()
        if not name.startswith("protocols.") or name.startswith(own)
    }
    return drawn(limits, f"limits/{spec.name}/{seed}")
