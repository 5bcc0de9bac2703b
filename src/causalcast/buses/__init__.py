"""The same workload on message buses that people use, recorded and judged: `causalcast buses`."""
