"""A file as it was read, and replacing it only while it is still that (contract section 1, FileChangedError)."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import (
    FileChanged,
    FileExists,
    FileReadFailed,
    FileTooLarge,
    IsADirectory,
    ToolFailure,
    from_os_error,
)
from ollm_tui.core.fence.workspace import Location, Workspace
from ollm_tui.core.files.atomic import check_writable, replace_file

_BLOCK = 1 << 20

ABSENT = "absent"
"""The fingerprint of a place where nothing lies."""


def fingerprint_of(content: bytes) -> str:
    """Return a hash of a file's content; BLAKE2 takes 60 % of the time of SHA-256."""
    return hashlib.blake2b(content, digest_size=32).hexdigest()


@dataclass(frozen=True)
class FileSnapshot:
    """The bytes of a file at one moment and what identifies that moment."""

    raw: bytes
    status: os.stat_result

    @cached_property
    def fingerprint(self) -> str:
        """Of the content alone: touching a file without changing it is no change."""
        return fingerprint_of(self.raw)


def read_snapshot(workspace: Workspace, location: Location, most_bytes: int) -> FileSnapshot:
    """Read the whole file. Raises ToolFailure: FileTooLarge above `most_bytes`, also where it grows while read."""
    descriptor = workspace.open_for_reading(location)
    try:
        status = os.fstat(descriptor)
        if status.st_size > most_bytes:
            raise _too_large(location, status.st_size, most_bytes)
        blocks: list[bytes] = []
        size = 0
        while block := os.read(descriptor, max(_BLOCK, status.st_size + 1 - size)):
            blocks.append(block)
            size += len(block)
            if size > most_bytes:
                raise _too_large(location, size, most_bytes)
        return FileSnapshot(blocks[0] if len(blocks) == 1 else b"".join(blocks), status)
    except OSError as error:
        raise from_os_error(error, location.shown, FileReadFailed) from None
    finally:
        os.close(descriptor)


def require_file(workspace: Workspace, location: Location) -> os.stat_result | None:
    """Return the status of a file, None for nothing. Raises IsADirectory and NoPermission."""
    status = workspace.status(location)
    if status is None:
        return None
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectory(f"{location.shown} is a directory. Give the path of a file in it.", {"path": location.shown})
    directory, name = workspace.open_parent(location)
    try:
        check_writable(directory, name)
    except OSError as error:
        raise from_os_error(error, location.shown, FileReadFailed) from None
    finally:
        os.close(directory)
    return status


def replace(
    workspace: Workspace,
    location: Location,
    pieces: Sequence[bytes | memoryview],
    old: os.stat_result | None,
    signal: AbortSignal,
    otherwise: type[ToolFailure],
) -> os.stat_result:
    """Put `pieces` in the place of the file whose status is `old`, or create it where that is None.

    All or nothing. Raises FileChanged where the file is no longer `old`, FileExists where a new one's place is taken,
    OperationCancelled, and `otherwise` for operating-system errors nothing else says.
    """
    directory, name = workspace.open_parent(location)

    def still_the_same() -> None:
        signal.throw_if_aborted()
        if old is not None and not is_same_file(old, _status(directory, name)):
            raise FileChanged(
                f"{location.shown} was changed by another program at this moment. Nothing was written; read it again.",
                {"path": location.shown},
            )

    try:
        signal.throw_if_aborted()
        return replace_file(directory, name, pieces, like=old, before_commit=still_the_same)
    except FileExistsError:
        raise FileExists(
            f"{location.shown}: something is there by now. Nothing was written.", {"path": location.shown}
        ) from None
    except OSError as error:
        if error.errno == errno.EISDIR:
            raise IsADirectory(f"{location.shown} is a directory.", {"path": location.shown}) from None
        raise from_os_error(error, location.shown, otherwise) from None
    finally:
        os.close(directory)


def _status(directory: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError:
        return None


def is_same_file(one: os.stat_result, other: os.stat_result | None) -> bool:
    """Return whether both are the status of one file, unchanged in between."""
    if other is None:
        return False
    return (one.st_dev, one.st_ino, one.st_size, one.st_mtime_ns) == (
        other.st_dev,
        other.st_ino,
        other.st_size,
        other.st_mtime_ns,
    )


def _too_large(location: Location, size: int, most: int) -> FileTooLarge:
    return FileTooLarge(
        f"{location.shown} has {size:,} bytes, more than the limit of {most:,}. Change it with a command such as sed.",
        {"path": location.shown, "size": size, "limit": most},
    )


MOST_FILES = 10_000
"""Files remembered; those seen longest ago are forgotten first."""


class SeenFiles:
    """Fingerprints of contents by real path. May be used from several threads."""

    def __init__(self) -> None:
        self._fingerprints: OrderedDict[Path, str] = OrderedDict()
        self._lock = Lock()

    def note(self, real: Path, content: bytes) -> None:
        """Remember that the file was read or written with this content."""
        fingerprint = fingerprint_of(content)
        with self._lock:
            self._fingerprints[real] = fingerprint
            self._fingerprints.move_to_end(real)
            if len(self._fingerprints) > MOST_FILES:
                self._fingerprints.popitem(last=False)

    def differs(self, real: Path, content: bytes) -> bool:
        """Return whether the file was seen with another content; touching it without changing it is no news."""
        with self._lock:
            seen = self._fingerprints.get(real)
        return seen is not None and seen != fingerprint_of(content)
