"""`delete_file`: move a file or directory to the trash (003 `delete_file`, contract section 1)."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import (
    FileWriteFailed,
    InvalidPath,
    IsADirectory,
    ToolFailure,
    from_os_error,
)
from ollm_tui.core.base.escape import quote_name, visible
from ollm_tui.core.base.results import ToolData, ToolResult, UpdateOutput
from ollm_tui.core.bus.confirmation import DeletionPreview, FileToDelete, Preview
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.fence.protected_paths import fold, holds_credentials
from ollm_tui.core.fence.workspace import Access, Location, Workspace
from ollm_tui.core.files.atomic import carry_out, check_writable, exclusive
from ollm_tui.core.files.directory_tree import MOUNTED, TreeEntry, TreeError, list_tree
from ollm_tui.core.files.snapshots import ABSENT
from ollm_tui.core.tools.base import Effect, Parameters, Question, Tool, ToolGroup, ToolInvocation, TouchedPath
from ollm_tui.core.tools.file_changes import git_standing

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
class DeletionScan:
    """The entries that a deletion would remove."""

    location: Location
    entries: tuple[TreeEntry, ...]

    @property
    def size(self) -> int:
        """Return the total size in bytes."""
        return sum(entry.size for entry in self.entries)

    @property
    def is_directory(self) -> bool:
        """Return whether the path itself is a directory."""
        return self.entries[0].is_directory

    def shown(self, fence: Workspace, entry_path: str) -> str:
        """Return the path of an entry as people and models see it."""
        return fence.shown(self.location.real.parent / entry_path)

    def fingerprint(self) -> str:
        """Return a hash that changes when any entry changes."""
        digest = hashlib.sha256()
        for entry in self.entries:
            status = entry.status
            state = (status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns)
            digest.update(f"{entry.path!r}{state}\0".encode())
        return digest.hexdigest()


class DeleteFileInvocation(ToolInvocation[DeleteFileParameters]):
    """A call that moves one path to the trash."""

    def get_description(self) -> str:
        """Return one line about the call."""
        return f"Delete {visible(self.params.path)}{' with all in it' if self.params.recursive else ''}"

    def touched_paths(self) -> list[TouchedPath]:
        """Return the path itself, not a link's target."""
        return [TouchedPath(self.params.path, Access.WRITE, follow=False)]

    async def check(self, signal: AbortSignal) -> ToolResult | None:
        """Raise ToolFailure for paths that cannot be deleted, before anyone is asked."""
        await signal.in_thread(self._survey, signal)
        return None

    async def _preview(self) -> Preview | None:
        signal = AbortSignal()
        doomed = await signal.in_thread(self._survey, signal)
        fence = self.context.fence
        files = [entry for entry in doomed.entries if not entry.is_directory] or list(doomed.entries)
        return DeletionPreview(
            files=tuple(
                FileToDelete(path=doomed.shown(fence, entry.path), size=entry.size) for entry in files[:_FILES_SHOWN]
            ),
            count=len(files),
            total_size=doomed.size,
            concerns=(
                *_concerns(doomed),
                *await signal.in_thread(_git_concern, [doomed.location.real.parent / entry.path for entry in files]),
            ),
        )

    async def question(self) -> Question:
        """Return a hash of the entries, and their preview."""
        return Question(await AbortSignal().in_thread(self._digest), self._preview)

    def _digest(self) -> str:
        try:
            return self._survey(AbortSignal()).fingerprint()
        except ToolFailure as failure:
            return f"{ABSENT}: {failure.code}"

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        """Delete the path. Raises ToolFailure."""
        async with exclusive(signal, self._locate().real):
            return await carry_out(signal, self._delete, signal)

    def _locate(self) -> Location:
        return self.context.fence.resolve(self.params.path, Access.WRITE, follow=False)

    def _survey(self, signal: AbortSignal) -> DeletionScan:
        """List what would be deleted, without changes. Blocks; raises ToolFailure."""
        fence, location = self.context.fence, self._locate()
        _refuse_precious(fence, location)
        status = fence.status(location)
        if status is None:
            raise fence.missing(location)
        if stat.S_ISDIR(status.st_mode) and not self.params.recursive:
            raise IsADirectory(
                f"{location.shown} is a directory. Send recursive=true to delete it with all in it.",
                {"path": location.shown},
            )
        directory, name = fence.open_parent(location)
        try:
            if stat.S_ISREG(status.st_mode):
                check_writable(directory, name)
            entries = tuple(list_tree(directory, name, signal))
        except TreeError as error:
            shown = fence.shown(location.real.parent / error.path)
            raise _refusal(error, shown) from None
        except OSError as error:
            raise from_os_error(error, location.shown, FileWriteFailed) from None
        finally:
            os.close(directory)
        return DeletionScan(location, entries)

    def _delete(self, signal: AbortSignal) -> ToolResult:
        """Move to the trash; on the same file system atomically. Blocks."""
        doomed = self._survey(signal)
        fence, location = self.context.fence, doomed.location
        trash = self.context.trash_folder
        directory, name = fence.open_parent(location)
        try:
            signal.throw_if_aborted()
            taken = trash.put(directory, name, location.real, doomed.size, signal)
        except TreeError as error:
            raise _refusal(error, fence.shown(location.real.parent / error.path)) from None
        except OSError as error:
            raise from_os_error(error, location.shown, FileWriteFailed) from None
        finally:
            os.close(directory)
        stayed = {failure.path for failure in taken.failures}
        if stayed:
            stayed |= {entry.path for entry in doomed.entries if any(p.startswith(f"{entry.path}/") for p in stayed)}
        most = self.context.limits.entries
        deleted = [doomed.shown(fence, entry.path) for entry in doomed.entries if entry.path not in stayed]
        data = DeleteFileData(
            deleted=tuple(deleted[:most]),
            trash_id=taken.entry.id,
            size=doomed.size,
            failed=tuple(doomed.shown(fence, place) for place in sorted(stayed)),
        )
        if taken.failures:
            raise _partial(location, data, taken.failures[0])
        inside = len(deleted) - 1
        what = location.shown
        if doomed.is_directory:
            what = f"{what} and {inside:,} {'entry' if inside == 1 else 'entries'} in it"
        return ToolResult.of_text(
            f"Deleted {what}",
            f"Deleted {what}. Undo: ollm-tui trash restore {taken.entry.id}",
            data=data,
        )


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


def _refusal(error: TreeError, shown: str) -> ToolFailure:
    if error.strerror == MOUNTED:
        return InvalidPath(f"{shown}: {error.strerror}. Nothing was deleted.", {"path": shown})
    return from_os_error(error, shown, FileWriteFailed)


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


def _concerns(doomed: DeletionScan) -> list[str]:
    concerns: list[str] = []
    top = doomed.entries[0]
    if stat.S_ISLNK(top.status.st_mode):
        concerns.append("A symbolic link: what it points to stays")
    repositories = [entry.path for entry in doomed.entries if fold(entry.path.rpartition("/")[2]) == ".git"]
    if repositories:
        concerns.append(f"It holds a git repository: {quote_name(repositories[0])}")
    secret = next((entry.path for entry in doomed.entries if holds_credentials(entry.path.split("/"))), None)
    if secret is not None:
        concerns.append(f"It holds credentials: {quote_name(secret)}")
    return concerns


def _git_concern(files: list[Path]) -> list[str]:
    standing = git_standing(files)
    return [f"{standing[0].upper()}{standing[1:]}"] if standing else []


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
