"""`delete_file`: move a file or directory to the trash (003 `delete_file`, contract section 1)."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import FileWriteFailed, InvalidPath, IsADirectory, ToolFailure, from_os_error
from ollm_tui.core.base.escape import quote_name, visible
from ollm_tui.core.base.results import ToolData, ToolResult
from ollm_tui.core.bus.confirmation import DeletionPreview, FileToDelete, Preview
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.fence.protected_paths import fold, holds_credentials
from ollm_tui.core.fence.workspace import Access, Location, Workspace
from ollm_tui.core.files.atomic import check_writable
from ollm_tui.core.files.directory_tree import MOUNTED, TreeEntry, TreeError, list_tree
from ollm_tui.core.tools.base import Effect, Parameters, Tool, ToolGroup, TouchedPath
from ollm_tui.core.tools.file_changes import FileChangeInvocation, git_status

_FILES_SHOWN = 1_000
"""Entries listed in a confirmation; their number and size are always those of all."""


class DeleteFileParameters(Parameters):
    """What to delete."""

    path: str
    recursive: bool = False


class DeleteFileData(ToolData):
    """Deleted paths, the requested one first; `trash restore` takes `trash_id`."""

    deleted: tuple[str, ...]
    trash_id: str | None = None
    size: int = 0
    failed: tuple[str, ...] = ()
    """Paths copied to the trash that could not be removed."""


@dataclass(frozen=True)
class _Deletion:
    """The entries that would be removed, the requested path first."""

    location: Location
    entries: tuple[TreeEntry, ...]

    @property
    def size(self) -> int:
        return sum(entry.size for entry in self.entries)

    def path(self, entry: str) -> Path:
        return self.location.real.parent / entry


class DeleteFileInvocation(FileChangeInvocation[DeleteFileParameters]):
    """A call that moves one path to the trash."""

    def get_description(self) -> str:
        return f"Delete {visible(self.params.path)}{' with all in it' if self.params.recursive else ''}"

    def touched_paths(self) -> list[TouchedPath]:
        return [TouchedPath(self.params.path, Access.WRITE, follow=False)]

    async def check(self, signal: AbortSignal) -> ToolResult | None:
        """Raise ToolFailure for paths that cannot be deleted, before anyone is asked."""
        await signal.in_thread(self._scan, self._locations(), signal)
        return None

    async def _preview(self) -> Preview | None:
        signal = AbortSignal()
        deletion = await signal.in_thread(self._scan, self._locations(), signal)
        files = [entry for entry in deletion.entries if not entry.is_directory] or list(deletion.entries)
        status = await signal.in_thread(git_status, [deletion.path(entry.path) for entry in files])
        shown = self.context.fence.shown
        return DeletionPreview(
            files=tuple(
                FileToDelete(path=shown(deletion.path(entry.path)), size=entry.size) for entry in files[:_FILES_SHOWN]
            ),
            count=len(files),
            total_size=deletion.size,
            warnings=(*_warnings(deletion), *([f"{status[0].upper()}{status[1:]}"] if status else [])),
        )

    def _fingerprint(self, locations: Sequence[Location]) -> str:
        digest = hashlib.sha256()
        for entry in self._scan(locations, AbortSignal()).entries:
            status = entry.status
            state = (status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns)
            digest.update(f"{entry.path!r}{state}\0".encode())
        return digest.hexdigest()

    def _scan(self, locations: Sequence[Location], signal: AbortSignal) -> _Deletion:
        """List what would be deleted, without changes. Blocks; raises ToolFailure."""
        fence, (location,) = self.context.fence, locations
        _refuse_precious(fence, location)
        status = fence.status(location)
        if status is None:
            raise fence.missing(location)
        if stat.S_ISDIR(status.st_mode) and not self.params.recursive:
            raise IsADirectory(
                f"{location.shown} is a directory. Send recursive=true to delete it with all in it.",
                {"path": location.shown},
            )
        with self._parent_of(location) as (directory, name):
            if stat.S_ISREG(status.st_mode):
                check_writable(directory, name)
            return _Deletion(location, tuple(list_tree(directory, name, signal)))

    def _change(self, locations: Sequence[Location], signal: AbortSignal) -> ToolResult:
        """Move to the trash; on the same file system atomically."""
        deletion = self._scan(locations, signal)
        fence, location = self.context.fence, deletion.location
        with self._parent_of(location) as (directory, name):
            signal.throw_if_aborted()
            self.context.vacated_paths.note(location.real)
            taken = self.context.trash_folder.put(directory, name, location.real, deletion.size, signal)
        remaining = {failure.path for failure in taken.failures}
        if remaining:
            remaining |= {
                entry.path for entry in deletion.entries if any(p.startswith(f"{entry.path}/") for p in remaining)
            }
        deleted = [fence.shown(deletion.path(one.path)) for one in deletion.entries if one.path not in remaining]
        data = DeleteFileData(
            deleted=tuple(deleted[: self.context.limits.entries]),
            trash_id=taken.entry.id,
            size=deletion.size,
            failed=tuple(fence.shown(deletion.path(path)) for path in sorted(remaining)),
        )
        if taken.failures:
            raise _partial(location, data, taken.failures[0])
        inside = len(deleted) - 1
        what = location.shown
        if deletion.entries[0].is_directory:
            what = f"{what} and {inside:,} {'entry' if inside == 1 else 'entries'} in it"
        return ToolResult.of_text(
            f"Deleted {what}",
            f"Deleted {what}. Undo: ollm-tui trash restore {taken.entry.id}",
            data=data,
        )

    @contextmanager
    def _parent_of(self, location: Location) -> Generator[tuple[int, str]]:
        """Open the directory a path lies in; turns the errors of what is done there into ToolFailure."""
        fence = self.context.fence
        directory, name = fence.open_parent(location)
        try:
            yield directory, name
        except TreeError as error:
            shown = fence.shown(location.real.parent / error.path)
            if error.strerror == MOUNTED:
                raise InvalidPath(f"{shown}: {error.strerror}. Nothing was deleted.", {"path": shown}) from None
            raise from_os_error(error, shown, FileWriteFailed) from None
        except OSError as error:
            raise from_os_error(error, location.shown, FileWriteFailed) from None
        finally:
            os.close(directory)


def _refuse_precious(fence: Workspace, location: Location) -> None:
    """Raise InvalidPath for paths that are never deleted."""
    real, home = location.real, Path(os.path.realpath(os.path.expanduser("~")))
    why = ""
    if real in fence.roots or any(real in root.parents for root in (*fence.roots, *fence.readable_roots)):
        why = "is or holds a directory that the workspace is made of"
    elif real == home or real in home.parents:
        why = "is or holds the home directory"
    elif fold(real.name) == ".git":
        why = "is the data of a git repository"
    elif os.path.ismount(real):
        why = "is where another file system is mounted"
    if why:
        raise InvalidPath(f"{location.shown} {why} and is never deleted.", {"path": location.shown})


def _partial(location: Location, data: DeleteFileData, first: TreeError) -> ToolFailure:
    named = ", ".join(data.failed[:20])
    return FileWriteFailed(
        f"{location.shown} was deleted in part only: {len(data.deleted)} entries went, these stayed: {named} "
        f"({first.strerror}). A whole copy is in the trash as {data.trash_id}.",
        {
            "path": location.shown,
            "deleted": list(data.deleted),
            "failed": list(data.failed),
            "trashId": data.trash_id,
            "reason": first.strerror,
        },
    )


def _warnings(deletion: _Deletion) -> list[str]:
    warnings: list[str] = []
    if stat.S_ISLNK(deletion.entries[0].status.st_mode):
        warnings.append("A symbolic link: what it points to stays")
    paths = [entry.path for entry in deletion.entries]
    repository = next((path for path in paths if fold(path.rpartition("/")[2]) == ".git"), None)
    if repository is not None:
        warnings.append(f"It holds a git repository: {quote_name(repository)}")
    secret = next((path for path in paths if holds_credentials(path.split("/"))), None)
    if secret is not None:
        warnings.append(f"It holds credentials: {quote_name(secret)}")
    return warnings


DELETE_FILE = Tool(
    name="delete_file",
    display_name="Delete File",
    description="Delete a file, or a directory with recursive=true.",
    group=ToolGroup.FS,
    effect=Effect.WRITES,
    parameters=DeleteFileParameters,
    invocation=DeleteFileInvocation,
    risk=Risk.HIGH,
    returns=DeleteFileData,
    requires_approval=True,
    dangerous=True,
)
