"""Directories of this program's own files: XDG, the same on Linux and macOS."""

from __future__ import annotations

import os
import pwd
from functools import lru_cache
from pathlib import Path


def config_dir() -> Path:
    """Return where settings, policy and themes are."""
    return _xdg("XDG_CONFIG_HOME", ".config")


def data_dir() -> Path:
    """Return where memory, todos and the audit log are."""
    return _xdg("XDG_DATA_HOME", ".local/share")


def state_dir() -> Path:
    """Return where sessions and the trash are."""
    return _xdg("XDG_STATE_HOME", ".local/state")


def _xdg(variable: str, default: str) -> Path:
    given = os.environ.get(variable, "")
    # The XDG specification: a relative path in these variables is invalid and to be ignored.
    return _own_dir(given if given.startswith("/") else f"{_home()}/{default}")


def _home() -> str:
    """Return the home directory; a relative HOME would put our files into the workspace, so it does not count."""
    home = os.environ.get("HOME", "")
    if home.startswith("/"):
        return home
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return "/"


@lru_cache(maxsize=16)
def _own_dir(base: str) -> Path:
    return Path(base) / "ollm-tui"
