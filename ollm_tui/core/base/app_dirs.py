"""This program's own files: their XDG directories, and the line of a key in a TOML one."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Sequence
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


def may_be_there(path: Path) -> bool:
    """Return whether something is at a path; True where nobody can tell, so that reading it says why."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def short_path(path: Path | str) -> str:
    """Return a directory as shells show it: with `~` for the home directory."""
    shown, home = str(path), _home()
    return f"~{shown[len(home) :]}" if shown == home or shown.startswith(f"{home}/") else shown


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


_HEADING = re.compile(r"\s*\[{1,2}([^\[\]]+)\]")
_NAME = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")
_ENTRY = re.compile(rf"\s*((?:{_NAME.pattern})(?:\s*\.\s*(?:{_NAME.pattern}))*)\s*=")


def line_of_key(text: str, keys: Sequence[str]) -> int | None:
    """Return the first line of the key, else of the nearest table around it; good enough for a person."""
    lines = _keyed_lines(text)
    for length in range(len(keys), 0, -1):
        wanted = tuple(keys[:length])
        found = next((number for number, here in lines if here[:length] == wanted), None)
        if found is not None:
            return found
    return None


def _keyed_lines(text: str) -> list[tuple[int, tuple[str, ...]]]:
    lines: list[tuple[int, tuple[str, ...]]] = []
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        if heading := _HEADING.match(line):
            table = _names(heading[1])
            lines.append((number, table))
        elif entry := _ENTRY.match(line):
            lines.append((number, (*table, *_names(entry[1]))))
    return lines


def _names(dotted: str) -> tuple[str, ...]:
    return tuple(name.strip("\"'") for name in _NAME.findall(dotted))
