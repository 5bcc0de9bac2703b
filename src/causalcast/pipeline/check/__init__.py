"""The passes of a check over the logs of a run; `checks` has one property per file."""
