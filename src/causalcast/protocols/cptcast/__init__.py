"""CPTCast: `protocol` is the automaton, the rest are its own parts."""

from causalcast.protocols.cptcast.protocol import SPEC

__all__ = ["SPEC"]
