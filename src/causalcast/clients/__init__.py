"""The door for clients: programs and browsers that use a node without being one."""
