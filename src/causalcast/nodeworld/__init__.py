"""The shipped node in a world that a seed decides: time, disk and network are simulated.

Several real hosts, with everything between a protocol and the kernel exactly as shipped, run in one
process under virtual time. A crash ends a node between any two callbacks; it starts again from what
its disk would hold. `simulator` searches protocols alone, and many more seeds; here runs what users
run.
"""
