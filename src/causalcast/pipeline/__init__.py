"""Judges runs of any size. The same checks run inside Spark tasks and, for small runs, without.

    logs           event files as arrays, whole logs of some nodes
    publish_graph  which publication had to come before which (phase A)
    checks         one property per file: the rows of a log that break it (phase B)
    check_run      a whole run in this process;  spark_job: many runs, or one large one, on Spark
    verdict        promises against findings;  counter_example, report: for people
    tables         DataFrames for metrics

A file of whole logs is the unit of work: whether node p delivered in order can be read off p's log
and the publish graph, so deliveries are never shuffled.
"""
