"""Reliable causal multicast: no subscriber ever sees an effect before its cause."""

from causalcast.version import VERSION as __version__

__all__ = ["__version__"]
