"""ollm-tui: a dashboard from which a person supervises a local LLM agent."""

__version__ = "0.1.0"
"""A literal: reading package metadata would cost start-up time."""
