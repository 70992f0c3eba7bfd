"""Listing and searching files: ignore rules, globs, ripgrep and the search without it."""
