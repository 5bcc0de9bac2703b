"""Checks of runs and logs that are still being written."""
