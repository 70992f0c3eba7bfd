"""What a command left where git or this program would be configured by it: set aside once the command is over."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

from ollm_tui.core.fence.protected_paths import OWN_SETTINGS_NAME
from ollm_tui.core.sandbox.layout import GIT_CONFIGURATION

_LEADING = ("commondir", "config.worktree", "modules", "worktrees", "objects/info/alternates")
_PLAIN = {
    "branch": {"remote", "merge", "rebase"},
    "core": {
        *("autocrlf", "bare", "filemode", "ignorecase", "logallrefupdates", "precomposeunicode"),
        *("repositoryformatversion", "symlinks"),
    },
    "init": {"defaultbranch"},
    "remote": {"fetch", "pushurl", "url"},
    "user": {"email", "name"},
}
"""Settings that start no program, by their sections."""
_SECTION = re.compile(r"\s*\[\s*([\w.-]+)")
_KEY = re.compile(r"\s*([\w-]+)")


class GitGuard:
    """Notes what is not there, or is a link, before a command, and what has taken its place afterwards."""

    def __init__(self, roots: Sequence[Path], *, git_writable: bool) -> None:
        self._absent: list[Path] = []
        self._links: dict[Path, str] = {}
        for root in roots:
            git, settings = root / ".git", root / OWN_SETTINGS_NAME
            for path in (git, settings):
                if path.is_symlink():
                    self._links[path] = os.readlink(path)
                elif not path.exists():
                    self._absent.append(path)
            if git_writable and git.is_dir():
                self._absent += [path for name in GIT_CONFIGURATION if not (path := git / name).exists()]

    def set_aside(self) -> list[Path]:
        """Rename what appeared and configures git or us, put links back; return the new names."""
        found = [path for path in self._absent if os.path.lexists(path) and _configures(path)]
        moved = [moved for path in found if (moved := move_aside(path))]
        for path, target in self._links.items():
            with suppress(OSError):
                if path.is_symlink() and os.readlink(path) == target:
                    continue
                if os.path.lexists(path) and (aside := move_aside(path)):
                    moved.append(aside)
                path.symlink_to(target)
        return moved


def _configures(path: Path) -> bool:
    """Return whether what appeared makes git start programs or look elsewhere; a plain new repository does not."""
    if path.name != ".git":
        return True
    if path.is_symlink() or not path.is_dir():
        return True
    if any(os.path.lexists(path / name) for name in _LEADING):
        return True
    return _has_hooks(path / "hooks") or not _is_plain(path / "config")


def _has_hooks(folder: Path) -> bool:
    with suppress(OSError):
        return folder.is_symlink() or any(not name.endswith(".sample") for name in os.listdir(folder))
    return False


def _is_plain(configuration: Path) -> bool:
    """Return whether a configuration holds only what `git init` and a remote write."""
    try:
        text = configuration.read_text("utf-8")
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        return False
    return all(key in _PLAIN.get(section, ()) for section, key in _settings(text))


def _settings(text: str) -> Iterator[tuple[str, str]]:
    section = ""
    for line in text.splitlines():
        if heading := _SECTION.match(line):
            section = heading[1].lower()
            if rest := line.partition("]")[2].strip():
                yield section, rest  # a setting on the same line
        elif line.strip() and not line.lstrip().startswith(("#", ";")):
            key = _KEY.match(line)
            yield section, key[1].lower() if key else line


def move_aside(path: Path) -> Path | None:
    """Rename what lies at a path so that no program takes it; return the new path, None where that failed."""
    names = (path.with_name(f"{path.name}.set-aside{f'-{number}' if number else ''}") for number in count())
    aside = next(name for name in names if not os.path.lexists(name))
    with suppress(OSError):
        os.rename(path, aside)
        return aside
    return None
