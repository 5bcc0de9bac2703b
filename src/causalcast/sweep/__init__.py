"""Many simulations: a grid of scenarios, protocols and settings, times seeds, one Spark task each.

grid       what is varied, and the points that follow from it
point      one simulation: run it, write its trace, judge it, say what came out
campaign   all points on Spark: skips what is done, tries again, goes on after failures
"""
