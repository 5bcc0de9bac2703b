"""Every figure and every claim of the sources, measured again by one command.

A file in `figures/` says what is run and which claims are read from the result; `claims.toml` lists
all claims, those that nobody has decided among them.
"""
