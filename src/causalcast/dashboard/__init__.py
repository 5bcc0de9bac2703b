"""A live view of a cluster in the browser: what its nodes say of themselves, side by side."""
