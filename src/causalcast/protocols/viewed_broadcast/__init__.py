"""Vector-clock broadcast among agreed members."""

from causalcast.protocols.viewed_broadcast.spec import SPEC

__all__ = ["SPEC"]
