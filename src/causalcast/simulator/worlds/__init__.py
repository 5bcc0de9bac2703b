"""The simulated worlds: nodes, links, disks and time."""
