"""What a run leaves behind: one format for simulated, real and imported runs.

`schema` has the columns, `run_header` what was run, `recorder` collects rows in memory,
`run_folder` writes and reads the folder, `node_log` is the crash-proof log of one real node and
`gather` makes a run of many.
"""
