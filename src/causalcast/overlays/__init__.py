"""Overlays: who is whose neighbour; the middle layer of a node, one file each."""
