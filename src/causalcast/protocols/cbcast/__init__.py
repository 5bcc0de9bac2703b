"""CBCAST: `protocol` is the automaton, the rest are its own parts."""

from causalcast.protocols.cbcast.protocol import SPEC

__all__ = ["SPEC"]
