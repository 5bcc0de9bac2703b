"""Real nodes: the same stacks that the simulator runs, over sockets and a disk.

`host` is one node: its life, its steps and what they do. `links` carry its messages, `security`
says who it is, `storage` keeps what it must not forget, `observing` shows it to operators; `node`
is the handle that applications hold.
"""
