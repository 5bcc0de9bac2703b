"""How bytes get from node to node: dialling, greeting, carrying, over TCP or UDP."""
