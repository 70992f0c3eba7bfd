"""Installing packages as it was shown: what would be installed, from where, and how that is held to (003)."""
