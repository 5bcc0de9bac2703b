"""One quantity per file; each gives one row per run, in the column `run` of `tables`.

Own deliveries of an origin are left out of latency and redundancy: they cost no network.
"""
