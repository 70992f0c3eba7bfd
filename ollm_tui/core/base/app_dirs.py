"""Where this program keeps its own files: the XDG folders, the same on Linux and macOS."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

_FOLDER = "ollm-tui"


def config_folder() -> Path:
    """Settings, policy, themes."""
    return _xdg("XDG_CONFIG_HOME", ".config")


def data_folder() -> Path:
    """Memory, todos, audit."""
    return _xdg("XDG_DATA_HOME", ".local/share")


def state_folder() -> Path:
    """Sessions, trash."""
    return _xdg("XDG_STATE_HOME", ".local/state")


def _xdg(variable: str, default: str) -> Path:
    given = os.environ.get(variable, "")
    # The XDG specification: a relative path in these variables is invalid and to be ignored.
    return _folder_in(given if given.startswith("/") else f"{os.path.expanduser('~')}/{default}")


@lru_cache(maxsize=16)
def _folder_in(base: str) -> Path:
    return Path(base) / _FOLDER
