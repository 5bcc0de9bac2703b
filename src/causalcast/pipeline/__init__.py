"""Judges runs of any size. The same checks run inside Spark tasks and, for small runs, without.

    logs           event files as arrays, whole logs of some nodes
    publications, publish_graph, requirements   what had to come before what (phase A)
    scan           every log once, against that (phase B)
    close_look, checks   what is wrong with the logs that did not pass, one property per file
    check_run      all of it in order;  spark_job: many runs, or one large one, on Spark
    verdict        promises against findings;  counter_example, report: for people
    tables         DataFrames for metrics

A file of whole logs is the unit of work: whether node p delivered in order can be read off p's log
and the publish graph, so deliveries are never shuffled.
"""
