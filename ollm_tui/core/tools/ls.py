"""`ls`: list a directory without ignored entries (001 R4.9-R4.12, 000 Properties 22-24)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from operator import attrgetter
from typing import Literal, TypeAlias

from pydantic import Field, computed_field
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import LsFailed, from_os_error
from ollm_tui.core.base.escape import quote_name
from ollm_tui.core.base.results import ToolData, ToolResult, UpdateOutput
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.fence.dir_handle import DirHandle
from ollm_tui.core.fence.workspace import Access, Location, Workspace
from ollm_tui.core.search.listing import ListedDirectory, Listing, ListingOptions
from ollm_tui.core.tools.base import Effect, Parameters, Tool, ToolGroup, ToolInvocation, TouchedPath
from ollm_tui.core.tools.listed_files import (
    MILLISECONDS,
    SECONDS,
    directory_at,
    listing_of,
    notes_of,
    paths_below,
    shown_name,
    shown_paths,
    shown_prefix,
    stopped_at,
)

DEFAULT_DEPTH = 3
"""Levels below the directory that `recursive` descends when `maxDepth` is not given (000)."""

_NAMED_DIRECTORIES = 5
"""Directories not entered that a note names."""

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


_SIZE_AND_TIME = attrgetter("st_size", "st_mtime_ns")


@dataclass(frozen=True)
class EntryRun:
    """Neighbouring entries of one kind and directory as they were found, from which `LsEntry`s can be made."""

    names: Sequence[bytes]
    shown: Sequence[str]
    """The names as shown in results."""
    kind: EntryKind
    directory: bytes
    """Their directory, relative to the listed one."""
    shown_directory: str
    """The prefix of the names in results."""
    depth: int

    def entries(self, handle: DirHandle) -> list[LsEntry]:
        """Return the entries with their sizes and times of this moment."""
        kind, depth, seconds, milliseconds = self.kind, self.depth, SECONDS, MILLISECONDS
        paths = paths_below(self.shown_directory, self.shown, self.names)
        return [
            {
                "name": name,
                "path": path,
                "type": kind,
                "size": size,
                "modified": None
                if moment is None
                else seconds[moment // 1_000_000_000] + milliseconds[moment // 1_000_000 % 1000],
                "depth": depth,
            }
            for name, path, (size, moment) in zip(self.shown, paths, self._statuses(handle), strict=True)
        ]

    def _statuses(self, handle: DirHandle) -> list[tuple[int, int] | tuple[None, None]]:
        """Return size and time (nanoseconds) of each entry; None where it no longer exists."""
        try:
            directory = handle.directory(self.directory)
        except OSError:
            return [(None, None)] * len(self.names)
        try:
            return list(map(_SIZE_AND_TIME, map(partial(os.lstat, dir_fd=directory), self.names)))
        except OSError:
            return [_size_and_time(name, directory) for name in self.names]


class LsData(ToolData):
    """The entries in the order of the listing."""

    _handle: DirHandle | None = None
    _runs: tuple[EntryRun, ...] = ()

    @classmethod
    def of(cls, handle: DirHandle, runs: Iterable[EntryRun]) -> LsData:
        """Return the data of a listing, of which the entries are made when asked for."""
        data = cls()
        data._handle, data._runs = handle, tuple(runs)
        return data

    @computed_field(repr=False)
    @cached_property
    def entries(self) -> tuple[LsEntry, ...]:
        """Made when asked for: a hundred thousand sizes and times take five times as long as the listing."""
        handle, self._handle = self._handle, None  # what it keeps open is closed again
        return () if handle is None else tuple(chain.from_iterable(run.entries(handle) for run in self._runs))


class LsParameters(Parameters):
    """What to list."""

    path: str = "."
    recursive: bool = False
    include_hidden: bool = False
    max_depth: int | None = Field(None, ge=0)

    @property
    def depth(self) -> int:
        """Levels to descend."""
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
        """Check the directory. Raises FileNotFound, NotADirectory."""
        await signal.in_thread(directory_at, self.context.fence, self.params.path, LsFailed)
        return None

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        """List the directory. Raises FileNotFound, NotADirectory, NoPermission."""
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
            data=LsData.of(listing.handle, walk.runs),
            notes=notes,
        )


@dataclass
class _Walk:
    """A walk: directories first, their content below them, up to `limit` entries."""

    listing: Listing
    location: Location
    workspace: Workspace
    max_depth: int
    limit: int
    lines: list[str] = field(default_factory=list[str])
    runs: list[EntryRun] = field(default_factory=list[EntryRun])
    not_entered: list[str] = field(default_factory=list[str])
    stopped: bool = False

    def run(self) -> None:
        """Walk. Raises OSError where the directory itself cannot be read."""
        base = shown_prefix(self.location.real, self.workspace)
        first = self.listing.first()
        stack = [(base, first, self._show(first, base, 0))]
        while stack and not self.stopped:
            shown, directory, directories = stack[-1]
            depth = len(stack)
            for name in directories:
                path = f"{shown}{os.fsdecode(name)}/"
                if depth > self.max_depth:
                    self.not_entered.append(shown_name(path[:-1]))
                    continue
                inner = self.listing.enter(directory, name)
                if inner is not None:
                    stack.append((path, inner, self._show(inner, path, depth)))
                    break
            else:
                stack.pop()

    def _show(self, directory: ListedDirectory, shown: str, depth: int) -> Iterator[bytes]:
        """Add the entries of a directory; yield each directory right after its own line."""
        indent = "  " * depth
        below = directory.path[len(self.listing.start) :]
        for name in sorted(directory.directories):
            if len(self.lines) >= self.limit:
                self.stopped = True
                return
            shown_here = shown_name(os.fsdecode(name))
            self.lines.append(f"{indent}d {shown_here}")
            self.runs.append(EntryRun((name,), (shown_here,), "directory", below, shown, depth))
            yield name
        free = self.limit - len(self.lines)
        names = sorted([*directory.files, *directory.links])
        self.stopped = len(names) > free
        names = names[:free]
        if not directory.links:
            # By far the most entries come this way: nothing but what each of them needs.
            shown_names = shown_paths("", names)
            self.lines += [f"{indent}- {name}" for name in shown_names]
            self.runs.append(EntryRun(names, shown_names, "file", below, shown, depth))
            return
        links = frozenset(directory.links)
        for name in names:
            target = f" -> {_target(directory.path + name)}" if name in links else ""
            shown_here = shown_name(os.fsdecode(name))
            self.lines.append(f"{indent}- {shown_here}{target}")
            kind: EntryKind = "symlink" if name in links else "file"
            self.runs.append(EntryRun((name,), (shown_here,), kind, below, shown, depth))


def _size_and_time(name: bytes, directory: int) -> tuple[int, int] | tuple[None, None]:
    try:
        return _SIZE_AND_TIME(os.lstat(name, dir_fd=directory))
    except OSError:
        return None, None


def _target(path: bytes) -> str:
    try:
        return shown_name(os.fsdecode(os.readlink(path)))
    except OSError:
        return "(unreadable link)"


def _where_it_stopped(walk: _Walk, depth: int) -> str:
    named = ", ".join(walk.not_entered[:_NAMED_DIRECTORIES])
    more = len(walk.not_entered) - _NAMED_DIRECTORIES
    named += f" and {more} more" if more > 0 else ""
    levels = "1 level" if depth == 1 else f"{depth} levels"
    return f"stopped {levels} below the directory; not listed: what lies in {named} (maxDepth goes deeper)"


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
