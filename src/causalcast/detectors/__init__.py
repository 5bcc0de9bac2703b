"""Failure detectors: the lowest layer of a node, one file each."""
