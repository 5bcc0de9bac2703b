"""Reliable causal multicast: no subscriber ever sees an effect before its cause."""

from causalcast import version

__version__ = version.VERSION
__all__ = ["__version__"]
