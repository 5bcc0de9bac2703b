"""A reliable, ordered layer over datagrams, without sockets and clocks; and its bytes."""
