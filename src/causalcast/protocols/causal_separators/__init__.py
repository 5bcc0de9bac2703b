"""Causal separators: `protocol` has the handlers, `spec` what is promised, the rest are parts."""

from causalcast.protocols.causal_separators.spec import SPEC

__all__ = ["SPEC"]
