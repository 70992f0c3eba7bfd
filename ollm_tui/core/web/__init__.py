"""Fetching and reading web pages."""
