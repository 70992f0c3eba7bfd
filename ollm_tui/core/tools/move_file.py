"""`move_file`: rename or move a file, directory or link (003 `move_file`, contract section 1)."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from pydantic import Field, JsonValue

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import (
    FileChanged,
    FileExists,
    FileWriteFailed,
    InvalidArguments,
    InvalidPath,
    IsADirectory,
    NotADirectory,
    from_os_error,
)
from ollm_tui.core.base.escape import visible
from ollm_tui.core.base.results import ToolData, ToolResult
from ollm_tui.core.bus.confirmation import Preview, TextPreview
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.fence.workspace import Access, Location, Workspace
from ollm_tui.core.files.atomic import rename_without_replacing, sync_directory
from ollm_tui.core.files.directory_tree import copy_tree, list_tree, remove_tree
from ollm_tui.core.files.snapshots import ABSENT
from ollm_tui.core.tools.base import CallFacts, Effect, Parameters, Tool, ToolGroup, TouchedPath
from ollm_tui.core.tools.file_changes import FileChangeInvocation, facts_of_writing

MOST_COMPARED = 2_000
"""Entries of a moved directory that are held against the person's own list of protected files."""


class MoveFileParameters(Parameters):
    """The old path and the new one."""

    from_: str = Field(alias="from")
    to: str
    overwrite: bool = False


class MoveFileData(ToolData):
    """The old path and the new one."""

    from_: str = Field(alias="from")
    to: str


@dataclass(frozen=True)
class Ends:
    """The open directories of a move's old and new path, and the names in them."""

    source_directory: int
    source: str
    directory: int
    name: str


@dataclass(frozen=True)
class MovePlan:
    """A move that is possible in the current state."""

    source: Location
    target: Location
    status: os.stat_result
    replaced: os.stat_result | None

    @property
    def changes_nothing(self) -> bool:
        """Return whether both paths are the same."""
        return self.source.real == self.target.real

    @property
    def only_spelling(self) -> bool:
        """Return whether only the name's case changes, on a case-insensitive file system."""
        return (
            self.replaced is not None
            and os.path.samestat(self.status, self.replaced)
            and self.source.real.parent == self.target.real.parent
            and self.source.real.name.casefold() == self.target.real.name.casefold()
        )

    def result(self) -> ToolResult:
        """Return the result once the plan is carried out."""
        source, target = self.source.shown, self.target.shown
        text = f"No change: {source} is there already" if self.changes_nothing else f"Moved {source} to {target}"
        return ToolResult.of_text(text, data=MoveFileData.model_validate({"from": source, "to": target}))

    def rename(self, ends: Ends) -> None:
        """Rename on one file system. Raises OSError, EXDEV across two."""
        if self.replaced is None:
            rename_without_replacing(ends.source_directory, ends.source, ends.directory, ends.name)
            return
        os.replace(ends.source, ends.name, src_dir_fd=ends.source_directory, dst_dir_fd=ends.directory)
        if os.path.samestat(self.status, self.replaced) and not self.only_spelling:
            # Two names of one file: the system then leaves both as they are.
            os.unlink(ends.source, dir_fd=ends.source_directory)


class MoveFileInvocation(FileChangeInvocation[MoveFileParameters]):
    """A call that moves or renames one path."""

    _judged_free: bool = False
    """Whether the policy judged the new path as free."""

    def get_description(self) -> str:
        return f"Move {visible(self.params.from_)} to {visible(self.params.to)}"

    def touched_paths(self) -> list[TouchedPath]:
        return [TouchedPath(path, Access.WRITE, follow=False) for path in (self.params.from_, self.params.to)]

    def facts(self) -> CallFacts:
        """Return `$exists` among the rest: whether the new path exists."""
        source, target = self._locations()
        self._judged_free = not os.path.lexists(target.real)
        facts = facts_of_writing(self.tool, target.real, is_free=self._judged_free)
        return replace(facts, question=_protected_by_place(self.context.fence, source, target))

    async def check(self, signal: AbortSignal) -> ToolResult | None:
        """Raise FileExists and the like; return a result if nothing would change."""
        plan = await signal.in_thread(self._plan, self._locations())
        return plan.result() if plan.changes_nothing else None

    async def _preview(self) -> Preview | None:
        plan = await AbortSignal().in_thread(self._plan, self._locations())
        warnings: list[str] = []
        if plan.replaced is not None:
            warnings.append(f"Replaces a file of {plan.replaced.st_size:,} bytes at {plan.target.shown}")
        if stat.S_ISLNK(plan.status.st_mode):
            warnings.append("A symbolic link: the link is moved, not what it points to")
        return TextPreview(text=f"{plan.source.shown} → {plan.target.shown}", warnings=tuple(warnings))

    def _fingerprint(self, locations: Sequence[Location]) -> str:
        plan = self._plan(locations)
        return f"{plan.source.real}\0{_identity(plan.status)}\0{plan.target.real}\0{_identity(plan.replaced)}"

    def _plan(self, locations: Sequence[Location]) -> MovePlan:
        """Plan the move, without changes. Blocks; raises ToolFailure."""
        fence, (source, target) = self.context.fence, locations
        if any(source.real == root or source.real in root.parents for root in fence.roots):
            raise InvalidPath(
                f"{source.shown} is or holds a directory that the workspace is made of and is never moved.",
                {"path": source.shown},
            )
        status = fence.status(source)
        if status is None:
            raise fence.missing(source)
        plan = MovePlan(source, target, status, fence.status(target))
        if not plan.changes_nothing:
            self._refuse_target(plan)
        return plan

    def _refuse_target(self, plan: MovePlan) -> None:
        source, target, is_directory = plan.source, plan.target, stat.S_ISDIR(plan.status.st_mode)
        if source.real in target.real.parents:
            raise InvalidArguments(f"move_file: {source.shown} cannot be moved into itself ({target.shown}).")
        if plan.replaced is None:
            if self.params.to.endswith("/") and not is_directory:
                raise self._is_directory(plan)
            return
        if plan.only_spelling:
            return
        if target.real.is_dir():
            raise self._is_directory(plan)
        if not self.params.overwrite:
            raise FileExists(
                f"{target.shown} exists already. Send overwrite=true to replace it, or choose another path.",
                {"path": target.shown},
            )
        if is_directory:
            raise NotADirectory(
                f"{target.shown} is a file and cannot be replaced by the directory {source.shown}.",
                {"path": target.shown},
            )

    def _is_directory(self, plan: MovePlan) -> IsADirectory:
        inside = self.context.fence.shown(plan.target.real / plan.source.real.name)
        return IsADirectory(
            f"{plan.target.shown} is a directory. To move {plan.source.shown} into it give its new path: {inside}.",
            {"path": plan.target.shown},
        )

    def _change(self, locations: Sequence[Location], signal: AbortSignal) -> ToolResult:
        """Move; on one file system atomically."""
        plan, fence = self._plan(locations), self.context.fence
        if plan.changes_nothing:
            return plan.result()
        if self._judged_free and plan.replaced is not None and not plan.only_spelling:
            raise FileChanged(
                f"{plan.target.shown} was created by somebody else while the call waited. Nothing was moved.",
                {"path": plan.target.shown},
            )
        with ExitStack() as opened:
            source_directory, source = fence.open_parent(plan.source)
            opened.callback(os.close, source_directory)
            made = fence.create_parents(plan.target)
            try:
                directory, name = fence.open_parent(plan.target)
                opened.callback(os.close, directory)
                signal.throw_if_aborted()
                self.context.vacated_paths.note(plan.source.real)
                self._rename(plan, Ends(source_directory, source, directory, name), signal)
            except BaseException:
                fence.remove_created(plan.target, made)
                raise
        return plan.result()

    def _rename(self, plan: MovePlan, ends: Ends, signal: AbortSignal) -> None:
        try:
            try:
                plan.rename(ends)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                self._move_across(plan, ends, signal)
        except FileExistsError:
            raise FileExists(
                f"{plan.target.shown}: something is there by now. Nothing was moved.", {"path": plan.target.shown}
            ) from None
        except OSError as error:
            raise from_os_error(error, plan.source.shown, FileWriteFailed) from None
        sync_directory(ends.directory)
        sync_directory(ends.source_directory)

    def _move_across(self, plan: MovePlan, ends: Ends, signal: AbortSignal) -> None:
        """Copy across file systems, rename the copy atomically, then remove the source."""
        for _ in list_tree(ends.source_directory, ends.source, signal):
            pass  # raises where a part of it could not be read, before anything is copied
        incoming = f".ollm-moving-{secrets.token_hex(4)}"
        try:
            copy_tree(ends.source_directory, ends.source, ends.directory, incoming, signal)
            signal.throw_if_aborted()
            if plan.replaced is None:
                rename_without_replacing(ends.directory, incoming, ends.directory, ends.name)
            else:
                os.replace(incoming, ends.name, src_dir_fd=ends.directory, dst_dir_fd=ends.directory)
        except BaseException:
            remove_tree(ends.directory, incoming)
            raise
        failures = remove_tree(ends.source_directory, ends.source)
        if failures:
            remaining = [self.context.fence.shown(plan.source.real.parent / failure.path) for failure in failures]
            raise FileWriteFailed(
                f"{plan.target.shown} is complete, but of {plan.source.shown} these could not be removed: "
                f"{', '.join(remaining[:20])} ({failures[0].strerror}).",
                {"from": plan.source.shown, "to": plan.target.shown, "failed": list[JsonValue](remaining)},
            )


def _protected_by_place(fence: Workspace, source: Location, target: Location) -> str | None:
    """Return why a directory asks before it is moved: of what lies in it the person protects some by its path."""
    protects = fence.own_protection.judge
    if not fence.own_protection.patterns or source.real.is_symlink():
        return None
    below = (os.path.join(folder, name) for folder, *names in os.walk(source.real) for name in (*names[0], *names[1]))
    for path in islice(below, MOST_COMPARED):
        name = path.removeprefix(f"{source.real}/")
        if protects(f"{source.relative}/{name}") != protects(f"{target.relative}/{name}"):
            return f"your settings protect {fence.shown(Path(path))} by its place"
    too_much = next(below, None) is not None
    return "too much lies in it to tell whether your settings protect some of it by its place" if too_much else None


def _identity(status: os.stat_result | None) -> str:
    if status is None:
        return ABSENT
    return f"{status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"


MOVE_FILE = Tool(
    name="move_file",
    display_name="Move File",
    description="Move or rename a file or directory; to is its new path.",
    group=ToolGroup.FS,
    effect=Effect.WRITES,
    parameters=MoveFileParameters,
    invocation=MoveFileInvocation,
    risk=Risk.MEDIUM,
    returns=MoveFileData,
)
