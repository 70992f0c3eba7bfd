"""`ls`: what lies in a directory, ignored entries left out (001 R4.9-R4.12, 000 Properties 22-24)."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, TypeAlias

from pydantic import Field
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.beneath import O_PATH
from ollm_tui.core.base.errors import LsFailed, from_os_error
from ollm_tui.core.base.listing import Folder, Listing, ListingOptions
from ollm_tui.core.base.results import ToolData, ToolResult, UpdateOutput
from ollm_tui.core.base.visible import quote_name
from ollm_tui.core.base.workspace import Access, Location, Workspace
from ollm_tui.core.confirmation import Risk
from ollm_tui.core.tools.base import Effect, Parameters, Tool, ToolGroup, ToolInvocation, TouchedPath
from ollm_tui.core.tools.listed_files import (
    directory_at,
    iso_time,
    listing_of,
    modification_times,
    notes_of,
    shown_name,
    shown_paths,
    shown_prefix,
    stopped_at,
)

DEFAULT_DEPTH = 3
"""Levels below the directory that `recursive` descends when `maxDepth` is not given (000)."""

_NAMED_FOLDERS = 5
"""So many of the folders that were not entered are named."""

_FOLDER = O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


EntryKind: TypeAlias = Literal["file", "directory", "symlink"]
"""What an entry is; a link is never followed to find out. Plain texts, as a hundred thousand entries hold one each."""


class LsEntry(TypedDict):
    """One entry for programs; a plain dictionary, as there may be a hundred thousand of them.

    `path` is shown as in all results, `size` in bytes, `modified` in UTC (ISO 8601); both are None where the entry
    has vanished meanwhile. `depth` counts levels below the directory asked for.
    """

    name: str
    path: str
    type: EntryKind
    size: int | None
    modified: str | None
    depth: int


class LsData(ToolData):
    """The entries in the order of the listing."""

    entries: tuple[LsEntry, ...]


class LsParameters(Parameters):
    path: str = "."
    recursive: bool = False
    include_hidden: bool = False
    max_depth: int | None = Field(None, ge=0)

    @property
    def depth(self) -> int:
        if self.max_depth is not None:
            return self.max_depth
        return DEFAULT_DEPTH if self.recursive else 0


class LsInvocation(ToolInvocation[LsParameters]):
    """Lists one directory."""

    def get_description(self) -> str:
        return f"List {quote_name(self.params.path)}"

    def touched_paths(self) -> list[TouchedPath]:
        return [TouchedPath(self.params.path, Access.READ)]

    async def check(self, signal: AbortSignal) -> ToolResult | None:
        """Raises FileNotFound and NotADirectory with the path."""
        await signal.in_thread(directory_at, self.context.fence, self.params.path, LsFailed)
        return None

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        """Raises FileNotFound, NotADirectory and NoPermission with the path."""
        return await signal.in_thread(self._list, signal)

    def _list(self, signal: AbortSignal) -> ToolResult:
        location = directory_at(self.context.fence, self.params.path, LsFailed)
        options = ListingOptions(include_hidden=self.params.include_hidden)
        listing = listing_of(self.context.fence, location, options, signal)
        try:
            walk = _Walk(listing, location, self.context.fence, self.params.depth, self.context.limits.entries)
            walk.run()
        except OSError as error:
            raise from_os_error(error, location.shown, LsFailed) from None
        lines = [*walk.lines, stopped_at(len(walk.lines))] if walk.stopped else walk.lines
        notes = notes_of(listing, location)
        if walk.not_entered and (self.params.recursive or self.params.max_depth):
            notes += (_where_it_stopped(walk, self.params.depth),)
        count = len(walk.lines)
        return ToolResult(
            llm_content="\n".join(lines) or "Directory is empty",
            return_display=f"Listed {count} {'entry' if count == 1 else 'entries'} of {location.shown}",
            # The entries are made here, checking a hundred thousand of them again would take longer than listing.
            data=LsData.model_construct(entries=tuple(walk.entries)),
            notes=notes,
        )


@dataclass
class _Walk:
    """Directories first, their content below them; stops at `limit` entries."""

    listing: Listing
    location: Location
    workspace: Workspace
    max_depth: int
    limit: int
    lines: list[str] = field(default_factory=list[str])
    entries: list[LsEntry] = field(default_factory=list[LsEntry])
    not_entered: list[str] = field(default_factory=list[str])
    stopped: bool = False

    def run(self) -> None:
        """Raises OSError where the directory itself cannot be read."""
        base = shown_prefix(self.location.real, self.workspace)
        first = self.listing.first()
        stack = [(base, first, self._show(first, base, 0))]
        while stack and not self.stopped:
            shown, folder, directories = stack[-1]
            depth = len(stack)
            for name in directories:
                path = f"{shown}{os.fsdecode(name)}/"
                if depth > self.max_depth:
                    self.not_entered.append(shown_name(path[:-1]))
                    continue
                inner = self.listing.enter(folder, name)
                if inner is not None:
                    stack.append((path, inner, self._show(inner, path, depth)))
                    break
            else:
                stack.pop()

    def _show(self, folder: Folder, shown: str, depth: int) -> Iterator[bytes]:
        """Adds the entries of a folder; each directory is given out right after its own line."""
        indent = "  " * depth
        directories = sorted(folder.directories)
        for name, size, modified in zip(directories, *_sizes_and_times(folder.path, directories), strict=True):
            if len(self.lines) >= self.limit:
                self.stopped = True
                return
            self._add_one(name, "directory", indent + "d ", shown, size, modified, depth)
            yield name
        free = self.limit - len(self.lines)
        names = sorted([*folder.files, *folder.links])
        self.stopped = len(names) > free
        add = self._add_files_and_links if folder.links else self._add_files
        add(folder, names[:free], shown, indent + "- ", depth)

    def _add_files(self, folder: Folder, raws: list[bytes], shown: str, mark: str, depth: int) -> None:
        # By far the most entries come this way: nothing but what each of them needs.
        names = shown_paths("", raws)
        self.lines += [mark + name for name in names]
        paths = shown_paths(shown, raws)
        sizes, times = _sizes_and_times(folder.path, raws)
        added: list[LsEntry] = [
            {"name": name, "path": path, "type": "file", "size": size, "modified": modified, "depth": depth}
            for name, path, size, modified in zip(names, paths, sizes, times, strict=True)
        ]
        self.entries += added

    def _add_files_and_links(self, folder: Folder, raws: list[bytes], shown: str, mark: str, depth: int) -> None:
        links = frozenset(folder.links)
        for raw, size, modified in zip(raws, *_sizes_and_times(folder.path, raws), strict=True):
            is_link = raw in links
            self._add_one(raw, "symlink" if is_link else "file", mark, shown, size, modified, depth)
            if is_link:
                self.lines[-1] += f" -> {_target(folder.path + raw)}"

    def _add_one(
        self, raw: bytes, kind: EntryKind, mark: str, shown: str, size: int | None, modified: str | None, depth: int
    ) -> None:
        decoded = os.fsdecode(raw)
        name = shown_name(decoded)
        path = name if shown == "" else shown_name(shown + decoded)
        self.lines.append(mark + name)
        self.entries.append(
            {"name": name, "path": path, "type": kind, "size": size, "modified": modified, "depth": depth}
        )


def _sizes_and_times(folder: bytes, names: Sequence[bytes]) -> tuple[Sequence[int | None], Sequence[str | None]]:
    """Both are None for what has vanished. Half of the time of a large listing passes in here."""
    try:
        descriptor = os.open(folder, _FOLDER)
    except OSError:
        return [None] * len(names), [None] * len(names)
    try:
        found = list(map(partial(os.lstat, dir_fd=descriptor), names))
    except OSError:
        statuses = [_status(name, descriptor) for name in names]
        sizes = [None if each is None else each.st_size for each in statuses]
        return sizes, [None if each is None else iso_time(each.st_mtime_ns) for each in statuses]
    finally:
        os.close(descriptor)
    return [status[stat.ST_SIZE] for status in found], modification_times(found)


def _status(name: bytes, folder: int) -> os.stat_result | None:
    try:
        return os.lstat(name, dir_fd=folder)
    except OSError:
        return None


def _target(path: bytes) -> str:
    try:
        return shown_name(os.fsdecode(os.readlink(path)))
    except OSError:
        return "(unreadable link)"


def _where_it_stopped(walk: _Walk, depth: int) -> str:
    named = ", ".join(walk.not_entered[:_NAMED_FOLDERS])
    more = len(walk.not_entered) - _NAMED_FOLDERS
    named += f" and {more} more" if more > 0 else ""
    return f"stopped {depth} levels below the directory; not listed: what lies in {named} (maxDepth goes deeper)"


LS = Tool(
    name="ls",
    display_name="List Directory",
    description="List a directory.",
    group=ToolGroup.FS,
    effect=Effect.READS,
    parameters=LsParameters,
    invocation=LsInvocation,
    risk=Risk.LOW,
    returns=LsData,
)
