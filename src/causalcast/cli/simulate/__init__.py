"""Commands that simulate protocols."""
