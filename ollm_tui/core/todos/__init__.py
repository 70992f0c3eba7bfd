"""The todo list of a workspace."""
