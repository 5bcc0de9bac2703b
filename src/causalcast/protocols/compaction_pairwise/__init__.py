"""Compaction per link: `protocol` is the automaton, the rest are its own parts."""

from causalcast.protocols.compaction_pairwise.protocol import SPEC

__all__ = ["SPEC"]
