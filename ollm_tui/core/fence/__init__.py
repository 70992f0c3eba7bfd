"""The fence around the workspace: opening beneath a directory, protected paths, secrets."""
