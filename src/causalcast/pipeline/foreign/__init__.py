"""Logs and spans of other systems, of any size, made into runs on Spark."""
