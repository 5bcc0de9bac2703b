"""What two or more protocols share: data structures without an outbox, and a few sub-automata.

A data structure takes values and returns values; the protocol writes the effects. A sub-automaton
has messages or timers of its own: it gets the step's outbox, its timer names start with its own
name, and its messages are listed in its owner's SPEC.
"""
