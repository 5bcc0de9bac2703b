"""Commands that judge, measure and convert traces."""
