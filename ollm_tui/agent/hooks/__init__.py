"""Hooks: programs of the person that hear of what happens, and may tighten it (contract 11)."""
