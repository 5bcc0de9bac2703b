"""The simulated world: many nodes, one clock, faults on purpose; the same seed, the same run."""
