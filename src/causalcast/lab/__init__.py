"""The lab: a page that runs scenarios, draws what happens, and lets people interfere."""
