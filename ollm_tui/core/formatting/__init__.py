"""Formatting code with the formatters a project uses (003)."""
