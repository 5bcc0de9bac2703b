"""Causal separators: `protocol` is the automaton, the rest are its own parts."""

from causalcast.protocols.causal_separators.protocol import SPEC

__all__ = ["SPEC"]
