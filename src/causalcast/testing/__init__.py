"""The test kit. Imported by tests only, ours and users'."""
