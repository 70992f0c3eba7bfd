"""Files: atomic replacement, locks, snapshots, trash, text and encodings, diffs."""
