"""Private directories of cages, and the removal of those that a killed process left behind."""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from queue import Empty, SimpleQueue

PREFIX = "ollm-cage-"


class PrivateFolder:
    """A new directory below the one for temporary files, locked for as long as its process uses it."""

    def __init__(self) -> None:
        """Make it. Raises OSError."""
        _sweep(tempfile.gettempdir())
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
            self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
            # Whoever sweeps in this moment may have it: then it is gone once the lock is ours.
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            if os.path.lexists(self.path):
                return
            os.close(self._lock)

    def close(self) -> None:
        """Remove it; a second time does nothing."""
        if self._lock >= 0:
            try:
                os.rmdir(self.path)  # most are empty
            except OSError:
                shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1


def empty_folder() -> PrivateFolder:
    """Return a directory in which nothing is, a new one or one that was given back. Raises OSError."""
    try:
        folder = _SPARE.get_nowait()
    except Empty:
        return PrivateFolder()
    if folder.path.is_dir():
        return folder
    folder.close()
    return PrivateFolder()


def give_back(folder: PrivateFolder) -> None:
    """Keep an empty directory that nothing uses any more: making one takes as long as starting a thread."""
    with suppress(OSError):
        if _SPARE.empty() and not os.listdir(folder.path):
            _SPARE.put(folder)
            return
    folder.close()


_SPARE: SimpleQueue[PrivateFolder] = SimpleQueue()


@atexit.register
def _close_spare() -> None:
    with suppress(Empty):
        while True:
            _SPARE.get_nowait().close()


def sweep(folder: str) -> None:
    """Remove the private directories of this user whose process has ended."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX) and entry.is_dir(follow_symlinks=False):
                _remove_unlocked(entry)


def is_left(path: str) -> bool:
    """Return whether no process uses a private directory any more, or it is gone."""
    try:
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True


@lru_cache(maxsize=4)
def _sweep(folder: str) -> None:
    # Once for a process and directory: what is left later is for the next one.
    sweep(folder)


def _remove_unlocked(entry: os.DirEntry[str]) -> None:
    with suppress(OSError):
        if entry.stat(follow_symlinks=False).st_uid != os.getuid():
            return
        lock = os.open(entry.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(entry.path, ignore_errors=True)
        finally:
            os.close(lock)
