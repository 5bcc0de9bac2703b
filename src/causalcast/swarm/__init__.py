"""Many runs, judged: random scenarios from seeds. What finds the bugs that nobody thought of."""
