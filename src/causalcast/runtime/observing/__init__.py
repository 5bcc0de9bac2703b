"""What operators see of a node: events, numbers, log lines."""
