"""Chaos: faults on real processes and the network between them, and what came of it."""
