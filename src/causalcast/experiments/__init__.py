"""Experiments with many real nodes: started together, told to broadcast, and judged.

After the tooling of the CPTCast thesis (section 4.2.3): a bootstrap that starts processes on the
machines of a site, a trigger at one contact node that tells the whole network, logs of each node.
"""
