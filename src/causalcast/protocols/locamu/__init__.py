"""LoCaMu: `protocol` is the automaton, the rest are its own parts."""

from causalcast.protocols.locamu.protocol import SPEC

__all__ = ["SPEC"]
