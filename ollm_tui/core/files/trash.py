"""The trash: what `delete_file` takes is kept here and can be put back (contract section 1, `delete_file`).

An entry is a directory with `manifest.json`, written first, and `content`, moved in last: a deletion that is cut
short at any point leaves the file in one of the two places, or in both.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pydantic import ValidationError

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.clock import Clock, IdSource, RandomIds, SystemClock
from ollm_tui.core.base.errors import FileExists, FileNotFound, FileWriteFailed, from_os_error
from ollm_tui.core.base.escape import quote_name
from ollm_tui.core.base.results import Wire
from ollm_tui.core.fence.openat import make_directories, open_beneath
from ollm_tui.core.files.atomic import rename_without_replacing, replace_file, sync_directory
from ollm_tui.core.files.directory_tree import TreeError, copy_tree, remove_tree

_MANIFEST = "manifest.json"
_CONTENT = "content"
_INCOMING = "content.incoming"
_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class TrashEntry(Wire):
    """Something deleted; `size` in bytes, with all below it."""

    id: str
    path: str
    """Where it was: absolute, quoted as git does where it is no Unicode text."""
    deleted_at: datetime
    size: int


class _Manifest(Wire):
    """What stands beside the content."""

    path: str
    """As the file system has it, undecodable bytes as `\\xNN`; see `original`."""
    path_bytes: str | None = None
    """The path in hexadecimal, where it is no Unicode text."""
    deleted_at: datetime
    size: int

    @classmethod
    def of(cls, original: Path, deleted_at: datetime, size: int) -> _Manifest:
        path = str(original)
        readable = path.encode("utf-8", "backslashreplace").decode()
        in_bytes = None if readable == path else os.fsencode(path).hex()
        return cls(path=readable, path_bytes=in_bytes, deleted_at=deleted_at, size=size)

    @property
    def original(self) -> Path:
        return Path(self.path if self.path_bytes is None else os.fsdecode(bytes.fromhex(self.path_bytes)))

    def entry(self, identifier: str) -> TrashEntry:
        shown = self.path if self.path_bytes is None else quote_name(str(self.original))
        return TrashEntry(id=identifier, path=shown, deleted_at=self.deleted_at, size=self.size)


@dataclass(frozen=True)
class TrashedItem:
    """A deletion; `failures` are what a deletion across file systems copied but could not remove from its place."""

    entry: TrashEntry
    failures: tuple[TreeError, ...] = ()


class Trash:
    """Deleted things under `state_directory/trash`. Safe for several processes at once; all methods block."""

    def __init__(self, state_directory: Path, clock: Clock | None = None, ids: IdSource | None = None) -> None:
        self.folder = state_directory / "trash"
        self._clock = clock or SystemClock()
        self._ids = ids or RandomIds()

    def put(self, directory: int, name: str, original: Path, size: int, signal: AbortSignal) -> TrashedItem:
        """Take the entry out of its directory. Raises OSError, having taken nothing; TreeError for a tree."""
        identifier = f"{self._clock.now():%Y%m%d-%H%M%S}-{self._ids.new_id('trash').removeprefix('trash-')[:6]}"
        manifest = _Manifest.of(original, self._clock.now(), size)
        place = self.folder / identifier
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        place.mkdir(mode=0o700)
        inside = os.open(place, _OPEN_DIRECTORY)
        failures: list[TreeError] = []
        try:
            text = manifest.model_dump_json(by_alias=True, exclude_none=True)
            replace_file(inside, _MANIFEST, [text.encode()])
            signal.throw_if_aborted()
            try:
                os.rename(name, _CONTENT, src_dir_fd=directory, dst_dir_fd=inside)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                _require_writable(directory)
                copy_tree(directory, name, inside, _INCOMING, signal)
                os.rename(_INCOMING, _CONTENT, src_dir_fd=inside, dst_dir_fd=inside)
                sync_directory(inside)
                failures = remove_tree(directory, name)
            sync_directory(inside)
            sync_directory(directory)
        except BaseException:
            self._discard(identifier)
            raise
        finally:
            os.close(inside)
        return TrashedItem(manifest.entry(identifier), tuple(failures))

    def list(self) -> list[TrashEntry]:
        """Everything that can be restored, the oldest first. What cannot be read is left where it is, and left out."""
        found = [(name, self._manifest(name)) for name in self._names()]
        entries = [manifest.entry(name) for name, manifest in found if manifest is not None]
        return sorted(entries, key=lambda entry: (entry.deleted_at, entry.id))

    def damaged(self) -> list[Path]:
        """Directories whose manifest cannot be read although something lies in them."""
        return [
            self.folder / name
            for name in self._names()
            if self._manifest(name) is None and os.path.lexists(self.folder / name / _CONTENT)
        ]

    def restore(self, identifier: str) -> TrashEntry:
        """Put an entry back with its permissions and times. Raises ToolFailure: FileNotFound names the ids.

        Its path had no links in it when it was deleted, so none is followed.
        """
        manifest = self._manifest(identifier)
        if manifest is None:
            known = ", ".join(each.id for each in self.list()) or "none; the trash is empty"
            raise FileNotFound(f"No entry {quote_name(identifier)} in the trash. There are: {known}.")
        original, shown = manifest.original, quote_name(str(manifest.original))
        try:
            with _opened_without_links(original.parent) as directory:
                self.put_back(identifier, directory, original.name)
        except FileExistsError:
            raise FileExists(
                f"{shown} exists. Move it away first; the entry {identifier} stays in the trash.", {"path": shown}
            ) from None
        except OSError as error:
            raise from_os_error(error, shown, FileWriteFailed) from None
        return manifest.entry(identifier)

    def holds(self, identifier: str) -> bool:
        """Return whether the entry is there and can be put back."""
        return self._manifest(identifier) is not None

    def content_of(self, identifier: str) -> Path:
        """Return where the deleted thing lies now."""
        return self.folder / identifier / _CONTENT

    def put_back(self, identifier: str, directory: int, name: str) -> None:
        """Put what an entry holds into an open directory. Raises OSError, FileExistsError where `name` is taken."""
        with _opened(self.folder / identifier) as inside:
            self._move_back(inside, directory, name)
        self._discard(identifier)

    @staticmethod
    def _move_back(inside: int, directory: int, name: str) -> None:
        try:
            rename_without_replacing(inside, _CONTENT, directory, name)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            incoming = f".{name[:60]}.ollm-restored"
            for failure in remove_tree(directory, incoming):
                if failure.errno != errno.ENOENT:
                    raise failure from None
            try:
                copy_tree(inside, _CONTENT, directory, incoming, AbortSignal())
                rename_without_replacing(directory, incoming, directory, name)
            except BaseException:
                remove_tree(directory, incoming)
                raise
        sync_directory(directory)

    def _names(self) -> list[str]:
        try:
            return sorted(os.listdir(self.folder))
        except FileNotFoundError:
            return []

    def _manifest(self, identifier: str) -> _Manifest | None:
        if identifier in ("", ".", "..") or "/" in identifier or "\0" in identifier:
            return None
        place = self.folder / identifier
        if not os.path.lexists(place / _CONTENT):
            return None
        try:
            manifest = _Manifest.model_validate_json((place / _MANIFEST).read_bytes())
        except (OSError, ValidationError):
            return None
        return manifest if manifest.original.is_absolute() else None

    def _discard(self, identifier: str) -> None:
        """Remove a directory out of which the content is gone, or into which it never came."""
        with suppress(OSError), _opened(self.folder) as folder:
            if not os.path.lexists(self.folder / identifier / _CONTENT):
                remove_tree(folder, identifier)


def _require_writable(directory: int) -> None:
    """Before copying a tree that then could not be removed from its place."""
    if not os.access(".", os.W_OK | os.X_OK, dir_fd=directory):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


@contextmanager
def _opened_without_links(folder: Path) -> Generator[int]:
    """Open a directory, made where it is missing; a link put on its way since leads nowhere. Raises OSError."""
    below = str(folder).lstrip("/")
    make_directories("/", below)
    descriptor = open_beneath("/", below, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _opened(folder: Path) -> Generator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
