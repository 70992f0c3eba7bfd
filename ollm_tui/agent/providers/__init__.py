"""Connections to models, one file a provider."""
