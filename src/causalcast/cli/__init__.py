"""The command `causalcast`: one file per family of subcommands."""
