"""A run as a picture that moves, in a browser: the lab shows it, and the report carries it."""
