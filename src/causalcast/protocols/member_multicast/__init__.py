"""Multicast among fixed members: `protocol` is the automaton, `members` its order of messages."""

from causalcast.protocols.member_multicast.protocol import SPEC

__all__ = ["SPEC"]
