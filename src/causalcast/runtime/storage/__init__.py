"""What a node must not forget: a journal, its bytes, and what stands in it."""
