"""Where Spark is used: its session and Java, checks as its jobs, runs that only it can reach."""
