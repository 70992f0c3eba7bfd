"""Real git repositories in temporary folders, whoever runs the tests."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

NOBODY = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_AUTHOR_NAME": "Ann Author",
    "GIT_AUTHOR_EMAIL": "ann@example.org",
    "GIT_COMMITTER_NAME": "Ann Author",
    "GIT_COMMITTER_EMAIL": "ann@example.org",
    "GIT_AUTHOR_DATE": "2026-01-02T03:04:05Z",
    "GIT_COMMITTER_DATE": "2026-01-02T03:04:05Z",
}


def git(folder: Path, *arguments: str, check: bool = True) -> str:
    """Return what git prints, with an identity and no settings of this machine."""
    ran = subprocess.run(
        ["git", "-C", str(folder), *arguments],
        check=check,
        capture_output=True,
        env={**os.environ, **NOBODY},
    )
    return os.fsdecode(ran.stdout)


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def commit(folder: Path, message: str, files: Mapping[str, str]) -> str:
    """Write the files, commit everything, and return the commit's hash."""
    write(folder, files)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", message)
    return git(folder, "rev-parse", "HEAD").strip()


def make_repository(folder: Path, files: Mapping[str, str] | None = None, *options: str) -> Path:
    """Make a repository on branch `main`, with one commit where there are files."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main", *options)
    if files:
        commit(folder, "first", files)
    return folder
