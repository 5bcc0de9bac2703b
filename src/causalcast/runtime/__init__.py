"""Real nodes: the same stacks that the simulator runs, over sockets and a disk.

`host` is the World of one node and `stepping_host` the half of it that lets effects happen; `tcp`
is its links, `journal` what it must not forget, `inbox` what the application has not handled yet;
`node` is the handle that applications hold.
"""
