"""Multicast protocols: the top layer of a node, a file or a folder each, which know nothing of one
another."""
