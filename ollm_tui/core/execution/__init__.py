"""The executor: the only way a tool runs."""
