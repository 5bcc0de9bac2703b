"""One property per file. Each has

    find(log) -> findings     what one log shows by itself: arrays in, the rows that break it out
    explain(finding, names)   the same for people, in one sentence

`ALL` lists them; `violations` gives one property's rows of a Spark job as a DataFrame. `agreement`
needs all logs and therefore has a second step.
"""
