"""What happens in a simulated world: scenarios, workloads, faults and directed steps."""
