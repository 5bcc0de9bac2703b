"""`causalcast udp` and `udp-ptp`: the program of the report on causal multicast over UDP."""
