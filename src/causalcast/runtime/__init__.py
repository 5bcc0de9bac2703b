"""Real nodes: the same stacks that the simulator runs, over sockets and a disk.

`host` is the World of one node and `stepping_host` the half of it that lets effects happen; `links`
carry its messages, `security` says who it is, `storage` keeps what it must not forget, `inbox` what
the application has not handled yet, `observing` shows it to operators; `node` is the handle that
applications hold.
"""
