"""Real nodes: the same stacks that the simulator runs, over sockets and a disk.

`host` is the World of one node, `tcp` its links, `journal` what it must not forget, `inbox` what
the application has not handled yet; `node` is the handle that applications hold.
"""
