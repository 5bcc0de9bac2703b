"""Links that are made safe before causal order relies on them, and how that is done."""
