"""Judges runs of any size. The same checks run inside Spark tasks and, for small runs, without.

    logs        event files as arrays, whole logs of some nodes; what had to come before what
    check       every log once against that, then a close look at those that did not pass
    verdicts    promises against findings, and what is said of them to people
    spark       many runs, or one large one, as Spark jobs; traces as DataFrames
    metrics     what a run cost and how fast it was
    foreign     logs of other systems become runs
    live        runs that are judged while they are written
    report      the HTML page
    kernels     the inner loops of logs and check

A file of whole logs is the unit of work: whether node p delivered in order can be read off p's log
and the publish graph, so deliveries are never shuffled.
"""
