"""Commands that run real nodes and talk to them."""
