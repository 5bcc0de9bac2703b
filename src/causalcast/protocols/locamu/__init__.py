"""LoCaMu: `protocol` has its handlers, `spec` what it promises, the rest are its own parts."""

from causalcast.protocols.locamu.spec import SPEC

__all__ = ["SPEC"]
