"""Multicast protocols: the top layer of a node, one file each. They know nothing of one another."""
