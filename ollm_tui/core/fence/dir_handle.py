"""A directory that stays open while it is listed and searched: all that lies below it is opened from there.

A folder that was listed may be a link to anywhere a moment later. Opened by its path it would show what lies there;
opened from here, beneath and without links, it is the folder that was meant or nothing.
"""

from __future__ import annotations

import os
import stat
import weakref
from collections import OrderedDict
from collections.abc import Iterable

from ollm_tui.core.fence.openat import O_PATH, open_from

_FOLDERS_KEPT = 32
"""Folders that stay open, as the files of one are mostly asked for together."""

_FOLDER = O_PATH | os.O_DIRECTORY

_SETTLED = 2_000_000_000
"""Nanoseconds without a change before a folder's time stamps are trusted: some file systems count in whole seconds,
so that a second change could leave them as they are.
"""

_OWN_DESCRIPTORS = b"/proc/self/fd/"


def is_settled(status: os.stat_result, moment: int) -> bool:
    """Whether the entries of a folder were the same for some time before a moment (nanoseconds since 1970)."""
    # A folder of /proc or /sys has no size, and its time stamps do not tell changes.
    return status.st_size > 0 and max(status.st_mtime_ns, status.st_ctime_ns) + _SETTLED < moment


class DirHandle:
    """An open directory; closed when nobody holds it any more. For one thread at a time.

    `path` is where it was found, absolute and with a slash behind; other paths are relative to it.
    """

    def __init__(self, path: bytes, descriptor: int) -> None:
        """Takes the descriptor over."""
        self.path = path if path.endswith(b"/") else path + b"/"
        self._descriptor = descriptor
        self._folders: OrderedDict[bytes, int] = OrderedDict()
        self._closing = weakref.finalize(self, _close, descriptor, self._folders)

    @classmethod
    def at(cls, path: bytes) -> DirHandle:
        """A directory by its path, in which no tool may be able to change anything. Raises OSError."""
        return cls(path, os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))

    def again(self) -> DirHandle:
        """The same directory for another thread. Raises OSError."""
        return DirHandle(self.path, os.dup(self._descriptor))

    @property
    def place(self) -> bytes | None:
        """A path that leads a child process here whatever has become of `path`; None where the system has none."""
        return _OWN_DESCRIPTORS + b"%d" % self._descriptor if os.path.isdir(_OWN_DESCRIPTORS) else None

    def unchanged(self, folders: Iterable[bytes], moment: int) -> frozenset[bytes]:
        """Those of the folders below to which the same way leads now as at `moment`, with the same entries in them.

        A replaced entry shows in the change time of its folder, which nobody can set.
        """
        known = {b"": is_settled(os.fstat(self._descriptor), moment)}

        def is_unchanged(folder: bytes) -> bool:
            answer = known.get(folder)
            if answer is None:
                above = folder[: folder.rfind(b"/", 0, -1) + 1]
                answer = known[folder] = is_unchanged(above) and self._is_settled_folder(folder, moment)
            return answer

        return frozenset(folder for folder in folders if is_unchanged(folder))

    def _is_settled_folder(self, relative: bytes, moment: int) -> bool:
        try:
            status = os.stat(relative[:-1], dir_fd=self._descriptor, follow_symlinks=False)
        except OSError:
            return False
        return stat.S_ISDIR(status.st_mode) and is_settled(status, moment)

    def open(self, relative: bytes, flags: int) -> int:
        """A descriptor that the caller closes. Raises OSError, also where a part of the path has become a link."""
        return open_from(self._descriptor, os.fsdecode(relative.rstrip(b"/")), flags)

    def open_file(self, relative: bytes) -> int:
        """As `open`, for reading, cheap for neighbours; never waits for a pipe."""
        name = relative.rfind(b"/") + 1
        return os.open(
            relative[name:],
            os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC,
            dir_fd=self.folder(relative[:name]),
        )

    def folder(self, relative: bytes) -> int:
        """A folder (empty, or with a slash behind) for `dir_fd`, which stays open for a while. Raises OSError."""
        kept = self._folders.get(relative)
        if kept is None:
            if len(self._folders) >= _FOLDERS_KEPT:
                os.close(self._folders.popitem(last=False)[1])
            kept = self._folders[relative] = self.open(relative, _FOLDER)
        return kept


def _close(descriptor: int, folders: OrderedDict[bytes, int]) -> None:
    for each in (descriptor, *folders.values()):
        os.close(each)
