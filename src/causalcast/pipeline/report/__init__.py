"""The HTML report: its figures, its plots and its page."""
