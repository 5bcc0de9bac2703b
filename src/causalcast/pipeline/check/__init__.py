"""The looks that a check takes at the logs of a run, and one property per file in `checks`."""
