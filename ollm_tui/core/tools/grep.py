"""`grep`: find the lines that match an expression (001 R4.5-R4.8, 000 Properties 19-21, 24)."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property

from pydantic import Field, JsonValue, computed_field
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import GrepFailed, InvalidArguments, from_os_error
from ollm_tui.core.base.escape import visible
from ollm_tui.core.base.results import ToolData, ToolResult, UpdateOutput
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.fence.dir_handle import DirHandle
from ollm_tui.core.fence.workspace import Access, Location, Workspace
from ollm_tui.core.search.file_search import FileSearch, FileSearchResult
from ollm_tui.core.search.glob_pattern import GlobPattern
from ollm_tui.core.search.line_query import FoundLine, InvalidPatternError, LineQuery
from ollm_tui.core.search.listing import Listing, ListingOptions
from ollm_tui.core.search.ripgrep import Ripgrep, find_ripgrep
from ollm_tui.core.search.ripgrep_output import RipgrepError
from ollm_tui.core.tools.base import Effect, Parameters, Tool, ToolGroup, ToolInvocation, TouchedPath
from ollm_tui.core.tools.glob import pattern_below
from ollm_tui.core.tools.listed_files import listing_of, notes_of, shown_paths, shown_prefix, status_of, stopped_at


class GrepMatch(TypedDict):
    """A line that matches. `line` and `column` (of the first match in it, in characters) count from 1; a long line
    is cut around the match.
    """

    path: str
    line: int
    column: int
    text: str


class GrepData(ToolData):
    """The matches sorted by path and line; `total` counts them."""

    total: int
    _found: tuple[tuple[str, list[FoundLine]], ...] = ()

    @classmethod
    def of(cls, found: Iterable[tuple[str, list[FoundLine]]], total: int) -> GrepData:
        """Out of the lines found in each file, context included; `total` counts those that match."""
        data = cls(total=total)
        data._found = tuple(found)
        return data

    @computed_field(repr=False)
    @cached_property
    def matches(self) -> tuple[GrepMatch, ...]:
        """Made when first asked for: no model reads them, and there may be a hundred thousand."""
        return tuple(
            {"path": shown, "line": number, "column": column, "text": text}
            for shown, lines in self._found
            for number, text, column in lines
            if column is not None
        )


class GrepParameters(Parameters):
    """What to search for, and where."""

    pattern: str
    directory: str = "."
    file_pattern: str | None = None
    case_sensitive: bool = False
    max_results: int | None = Field(None, ge=1)
    fixed_string: bool = False
    context: int = Field(0, ge=0, le=100)
    include_hidden: bool = False
    include_ignored: bool = False


class GrepInvocation(ToolInvocation[GrepParameters]):
    """Searches below one directory, or one file."""

    def get_description(self) -> str:
        params = self.params
        files = f" in files {visible(params.file_pattern)}" if params.file_pattern else ""
        return f"Search for {visible(params.pattern)}{files} in {visible(params.directory)}"

    def touched_paths(self) -> list[TouchedPath]:
        return [TouchedPath(self.params.directory, Access.READ)]

    async def check(self, signal: AbortSignal) -> ToolResult | None:
        """Check path and patterns. Raises InvalidArguments, FileNotFound."""
        await signal.in_thread(self._prepare)
        try:
            await signal.guard(self._check_pattern())
        except InvalidPatternError as error:
            raise _invalid(self.params.pattern, error) from None
        return None

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        """Search. Raises InvalidArguments, FileNotFound, NoPermission."""
        location, file_pattern = await signal.in_thread(self._prepare)
        query = self._query()
        try:
            query.check_text()
            one_file = stat.S_ISREG(os.lstat(location.real).st_mode)
            query = replace(query, other_encodings=one_file or query.beyond_ascii)
            search = FileSearch(query, self._limit, file_pattern, ripgrep_for(self.context.fence), signal)
            if one_file:
                handle = await signal.in_thread(_around_file, self.context.fence, location)
                findings = await signal.guard(search.in_files(handle, [os.fsencode(location.real.name)]))
                prefix = shown_prefix(location.real.parent, self.context.fence)
            else:
                may_stop = self.params.max_results is not None
                findings = await signal.guard(search.below(lambda: self._listing(location, signal), may_stop=may_stop))
                prefix = shown_prefix(location.real, self.context.fence)
        except InvalidPatternError as error:
            raise _invalid(self.params.pattern, error) from None
        except OSError as error:
            raise from_os_error(error, location.shown, GrepFailed) from None
        return await signal.in_thread(_as_result, findings, location, prefix)

    @property
    def _limit(self) -> int:
        return min(self.params.max_results or self.context.limits.entries, self.context.limits.entries)

    def _query(self) -> LineQuery:
        params = self.params
        return LineQuery(
            params.pattern,
            case_sensitive=params.case_sensitive,
            fixed=params.fixed_string,
            context=params.context,
            max_per_file=self._limit + 1,
        )

    def _prepare(self) -> tuple[Location, GlobPattern | None]:
        location = self.context.fence.resolve(self.params.directory)
        status_of(self.context.fence, location, GrepFailed)
        if not self.params.pattern:
            raise InvalidArguments("pattern is empty, so that every line would match. Give something to search for.")
        text = self.params.file_pattern
        if text is None:
            return location, None
        return location, pattern_below(text if "/" in text or not text.strip() else f"**/{text}", location)

    async def _check_pattern(self) -> None:
        query = self._query()
        query.check_text()
        try:
            query.compiled()
        except InvalidPatternError:
            # Ripgrep takes some expressions that the engine in this process does not, and names the place of a fault.
            ripgrep = ripgrep_for(self.context.fence)
            if ripgrep is None:
                raise
            try:
                await ripgrep.check(query)
            except RipgrepError:
                pass
            else:
                return
            raise

    def _listing(self, location: Location, signal: AbortSignal) -> Listing:
        options = ListingOptions(self.params.include_hidden, self.params.include_ignored, skip_credentials=True)
        return listing_of(self.context.fence, location, options, signal)


def ripgrep_for(workspace: Workspace) -> Ripgrep | None:
    """Return the installed ripgrep, none that lies in the workspace; None where there is none."""
    program = find_ripgrep((*workspace.roots, *workspace.readable_roots))
    return None if program is None else Ripgrep(program)


def _around_file(fence: Workspace, location: Location) -> DirHandle:
    """Open the directory of a file that was named. Raises ToolFailure where the file cannot be read."""
    os.close(fence.open_for_reading(location))
    return DirHandle(os.fsencode(location.real.parent), fence.open_parent(location)[0])


def _as_result(findings: FileSearchResult, location: Location, prefix: str) -> ToolResult:
    lines: list[str] = []
    paths, by_path = findings.shown()
    found = list(zip(shown_paths(prefix, paths), by_path, strict=True))
    for shown, in_file in found:
        lines += [
            f"{shown}:{number}: {text}" if column is not None else f"{shown}-{number}- {text}"
            for number, text, column in in_file
        ]
    if findings.stopped:
        lines.append(stopped_at(findings.limit))
    count = min(findings.matches, findings.limit)
    notes = findings.notes()
    if findings.listing is not None:
        notes = (*notes, *notes_of(findings.listing, location))
    return ToolResult(
        llm_content="\n".join(lines) or "No matches found",
        return_display=f"Found {count} matching {'line' if count == 1 else 'lines'}",
        data=GrepData.of(found, count),
        notes=notes,
    )


def _invalid(pattern: str, error: InvalidPatternError) -> InvalidArguments:
    where = "" if error.position is None else f" at position {error.position + 1}"
    details: dict[str, JsonValue] = {"pattern": pattern}
    if error.position is not None:
        details["position"] = error.position + 1
    return InvalidArguments(
        f"pattern {visible(pattern)}: {error.reason}{where}. Mend it, or send fixedString=true for plain text.",
        details,
    )


GREP = Tool(
    name="grep",
    display_name="Search Files",
    description="Find lines by a regular expression. filePattern is a glob such as *.py.",
    group=ToolGroup.FS,
    effect=Effect.READS,
    parameters=GrepParameters,
    invocation=GrepInvocation,
    risk=Risk.LOW,
    returns=GrepData,
)
