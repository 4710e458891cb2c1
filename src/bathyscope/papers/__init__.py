"""A folder for every paper: its claims and its studies, found by the entry point `bathyscope.papers`."""
