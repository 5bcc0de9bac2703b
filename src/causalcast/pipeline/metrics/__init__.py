"""One quantity per file: a function from tables and keys to a DataFrame with one row per key.

Keys are `run` alone, or `run` with `group`, `node` or `second`; `summary` knows which quantity
makes sense for which. Own deliveries of an origin are left out of latency, redundancy and
reliability: they cost no network.
"""
