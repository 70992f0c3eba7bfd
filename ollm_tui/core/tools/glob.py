"""`glob`: find files by a pattern (001 R4.1-R4.4, 000 Properties 16-18, 24)."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from itertools import islice

from pydantic import Field

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import GlobFailed, InvalidArguments, InvalidPath, from_os_error
from ollm_tui.core.base.escape import quote_name, quoted_unless_plain, visible
from ollm_tui.core.base.results import ToolData, ToolResult, UpdateOutput
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.fence.workspace import Access, Location, Workspace
from ollm_tui.core.search.glob_pattern import GlobPattern, InvalidGlobError
from ollm_tui.core.search.listing import Listing, ListingOptions
from ollm_tui.core.tools.base import Effect, Parameters, Tool, ToolGroup, ToolInvocation, TouchedPath
from ollm_tui.core.tools.listed_files import (
    directory_at,
    listing_of,
    notes_of,
    shown_paths,
    shown_prefix,
    stopped_at,
)

_BATCH = 2048
"""Paths matched at once: enough to make a match cheap, few enough to stop soon after the last wanted one."""


class GlobData(ToolData):
    """The files found, sorted by code points; `total` counts them."""

    paths: tuple[str, ...]
    total: int


class GlobParameters(Parameters):
    """What to find, and where."""

    pattern: str
    directory: str = "."
    max_results: int | None = Field(None, ge=1)
    include_hidden: bool = False
    include_ignored: bool = False


class GlobInvocation(ToolInvocation[GlobParameters]):
    """Finds files below one directory."""

    def get_description(self) -> str:
        return f"Find files {visible(self.params.pattern)} in {visible(self.params.directory)}"

    def touched_paths(self) -> list[TouchedPath]:
        return [TouchedPath(self.params.directory, Access.READ)]

    async def check(self, signal: AbortSignal) -> ToolResult | None:
        """Check directory and pattern. Raises InvalidArguments, FileNotFound, NotADirectory."""
        await signal.in_thread(self._prepare)
        return None

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        """Find the files. Raises InvalidArguments, FileNotFound, NotADirectory, NoPermission."""
        return await signal.in_thread(self._find, signal)

    def _prepare(self) -> tuple[Location, GlobPattern]:
        location = directory_at(self.context.fence, self.params.directory, GlobFailed)
        return location, pattern_below(self.params.pattern, location)

    def _find(self, signal: AbortSignal) -> ToolResult:
        location, pattern = self._prepare()
        params = self.params
        options = ListingOptions(params.include_hidden, params.include_ignored, skip_credentials=True)
        limit = min(params.max_results or self.context.limits.entries, self.context.limits.entries)
        found = find_files(self.context.fence, location, pattern, options, limit, signal)
        lines = [*found.paths, stopped_at(limit)] if found.stopped else found.paths
        count = len(found.paths)
        return ToolResult(
            llm_content="\n".join(lines) or "No files found",
            return_display=f"Found {count} {'file' if count == 1 else 'files'}",
            data=GlobData(paths=tuple(found.paths), total=count),
            notes=(*notes_of(found.listing, location), *_is_directory(found, params.pattern)),
        )


@dataclass(frozen=True)
class FoundFiles:
    """Files as results show them; `stopped` where there are more than were wanted."""

    paths: list[str]
    stopped: bool
    listing: Listing


def pattern_below(text: str, location: Location) -> GlobPattern:
    """Return a pattern relative to a directory. Raises InvalidArguments, InvalidPath for one outside."""
    pattern = text
    if pattern.startswith("/"):
        inside = f"{location.real}/"
        if not pattern.startswith(inside):
            raise _leads_out(text, location)
        pattern = pattern.removeprefix(inside)
    while pattern.startswith("./"):
        pattern = pattern[2:].lstrip("/")
    if ".." in pattern.split("/"):
        raise _leads_out(text, location)
    try:
        return GlobPattern(pattern)
    except InvalidGlobError as error:
        raise InvalidArguments(f"pattern {quoted_unless_plain(text)}: {error}.") from None


def _is_directory(found: FoundFiles, pattern: str) -> tuple[str, ...]:
    if found.paths or not os.path.isdir(found.listing.start + os.fsencode(pattern.rstrip("/"))):
        return ()
    return (
        f"{quote_name(pattern)} is a directory; ls lists it, {quote_name(pattern.rstrip('/') + '/**')} finds its files",
    )


def _leads_out(text: str, location: Location) -> InvalidPath:
    return InvalidPath(
        f"The pattern {visible(text)} leads out of its directory ({location.shown}). Name the other directory as "
        "`directory`; one outside the workspace must first be added by the person with --add-dir."
    )


def find_files(
    workspace: Workspace,
    location: Location,
    pattern: GlobPattern,
    options: ListingOptions,
    limit: int,
    signal: AbortSignal,
) -> FoundFiles:
    """Find the first `limit` files and links that match, sorted by code points. Raises ToolFailure. Blocking."""
    narrow = replace(options, prefix=pattern.prefix, max_depth=pattern.max_depth)
    listing = listing_of(workspace, location, narrow, signal)
    found: list[bytes] = []
    try:
        paths = listing.files(links=True)
        while len(found) <= limit and (batch := list(islice(paths, _BATCH))):
            found += pattern.matching(batch)
    except OSError as error:
        raise from_os_error(error, location.shown, GlobFailed) from None
    literal = os.fsencode(pattern.text)
    if not found and os.path.lexists(listing.start + literal) and not os.path.isdir(listing.start + literal):
        found = _named_so(workspace, location, literal, options, signal)
    prefix = shown_prefix(location.real, workspace)
    shown = listing.readable(found[:limit])
    return FoundFiles(shown_paths(prefix, shown), len(found) > limit, listing)


def _named_so(
    workspace: Workspace, location: Location, literal: bytes, options: ListingOptions, signal: AbortSignal
) -> list[bytes]:
    """Return the file whose very name is the pattern (`file[1].txt`), when it is listed at all."""
    directories = tuple(literal.split(b"/")[:-1])
    narrow = ListingOptions(
        options.include_hidden,
        options.include_ignored,
        options.skip_credentials,
        prefix=directories,
        max_depth=len(directories),
    )
    return [path for path in listing_of(workspace, location, narrow, signal).files(links=True) if path == literal]


GLOB = Tool(
    name="glob",
    display_name="Find Files",
    description="Find files by a pattern such as **/*.py.",
    group=ToolGroup.FS,
    effect=Effect.READS,
    parameters=GlobParameters,
    invocation=GlobInvocation,
    risk=Risk.LOW,
    returns=GlobData,
)
