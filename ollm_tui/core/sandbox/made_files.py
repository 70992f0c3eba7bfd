"""What caged code made that other programs act on, and writing which asks: set aside once the code is over."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from ollm_tui.core.base.escape import quote_name
from ollm_tui.core.fence.protected_paths import CREDENTIALS, ProtectedPatterns, Sensitivity, judge_writing
from ollm_tui.core.sandbox.git_guard import move_aside

_NOT_ENTERED = frozenset({".git", "node_modules", ".venv", "venv", "__pycache__"})
"""Repositories, which are judged by what they are configured to do, and what is installed."""
MOST_SCANNED = 200_000


def set_aside_protected(roots: Sequence[Path], own: ProtectedPatterns, moment: int) -> list[str]:
    """Rename protected entries that appeared after a moment; return what to say of each. Blocks.

    What was there before is covered in the cage, so that whatever is new was made or moved there unasked. Nobody can
    set back the change time by which it is told.
    """
    said: list[str] = []
    for root in roots:
        for path, sensitivity in list(_appeared(root, own, moment)):
            aside = move_aside(path)
            name = quote_name(str(path.relative_to(root)))
            if aside is not None:
                new = quote_name(str(aside.relative_to(root)))
                said.append(
                    f"it made {name}, which {sensitivity.reason}: that asks, so it was renamed to {new}; look at it"
                )
    return said


def changed_since(root: Path, moment: int) -> list[str]:
    """Return the files below a directory that were made or changed later, by their paths from there.

    Nobody can set the change time back, so that one look tells it.
    """
    found: list[str] = []
    seen = 0
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name != ".git" or folder != str(root)]
        for name in names:
            path = os.path.join(folder, name)
            with suppress(OSError):
                if os.lstat(path).st_ctime_ns > moment:
                    found.append(os.path.relpath(path, root))
        seen += len(names)
        if seen > MOST_SCANNED:
            break
    return sorted(found)


def folders_in(root: Path) -> dict[str, int]:
    """Return the directories below one by their paths, with their inodes. Blocks."""
    found: dict[str, int] = {}
    waiting = [str(root)]
    while waiting and len(found) <= MOST_SCANNED:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False) and entry.name not in _NOT_ENTERED:
                    found[entry.path] = entry.inode()
                    waiting.append(entry.path)
    return found


def _appeared(root: Path, own: ProtectedPatterns, moment: int) -> Iterator[tuple[Path, Sensitivity]]:
    """Yield the outermost entries that are protected and new."""
    folders, seen = [str(root)], 0
    while folders and seen <= MOST_SCANNED:
        with suppress(OSError), os.scandir(folders.pop()) as found:
            for entry in found:
                seen += 1
                relative = os.path.relpath(entry.path, root)
                sensitivity = _sensitivity(relative, own)
                if sensitivity is not None and _is_newer(entry, moment):
                    yield Path(entry.path), sensitivity
                elif entry.is_dir(follow_symlinks=False) and entry.name not in _NOT_ENTERED:
                    folders.append(entry.path)


def _sensitivity(relative: str, own: ProtectedPatterns) -> Sensitivity | None:
    """Return why writing a path asks; None for secrets that no program is told by, such as a key for a test."""
    parts = relative.split("/")
    if parts[-1] == ".git":
        return None
    found = judge_writing(parts)
    if found is CREDENTIALS and (not parts[-1].startswith(".") or parts[-1].startswith(".env")):
        found = None
    return found or own.judge(relative)


def _is_newer(entry: os.DirEntry[str], moment: int) -> bool:
    with suppress(OSError):
        return entry.stat(follow_symlinks=False).st_ctime_ns > moment
    return False
