"""Commands for those who operate nodes."""
