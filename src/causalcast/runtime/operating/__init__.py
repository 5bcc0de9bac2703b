"""What operators and other programs have to do with a node: processes, control, advice."""
