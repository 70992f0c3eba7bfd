"""The SQLite store, and noticing what other processes change in it."""
