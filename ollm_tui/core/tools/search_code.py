"""`search_code`: find the places in the workspace that a question is about (003)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import Field

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.app_dirs import state_dir
from ollm_tui.core.base.errors import GrepFailed, InvalidPath, from_os_error
from ollm_tui.core.base.escape import visible
from ollm_tui.core.base.results import ToolData, ToolResult, UpdateOutput, Wire
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.fence.workspace import Access, Location
from ollm_tui.core.search.code_index import CodeIndex, CodeMatch, IndexSource
from ollm_tui.core.search.listing import ListingOptions
from ollm_tui.core.tools.base import Effect, Parameters, Query, Tool, ToolGroup, ToolInvocation, TouchedPath
from ollm_tui.core.tools.listed_files import directory_at, listing_of, notes_of

LINES_SHOWN = 3
_LINE_CHARACTERS = 200


class SearchCodeParameters(Parameters):
    """What to find; `paths` are files or folders that it must lie in."""

    query: Query
    limit: int = Field(10, ge=1, le=50)
    paths: list[str] | None = None


class CodePlace(Wire):
    """A place, 1-based, both ends included; `symbol` is what it defines, empty where nothing."""

    path: str
    start_line: int
    end_line: int
    symbol: str


class SearchCodeData(ToolData):
    """The places, best first."""

    matches: tuple[CodePlace, ...] = ()


class SearchCodeInvocation(ToolInvocation[SearchCodeParameters]):
    """Brings the index up to date and asks it."""

    def get_description(self) -> str:
        return f"Search the code for “{visible(self.params.query)}”"

    def touched_paths(self) -> list[TouchedPath]:
        return [TouchedPath(path, Access.READ) for path in self.params.paths or (".",)]

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        """Search. Raises GrepFailed, InvalidPath and the like."""
        loop = asyncio.get_running_loop()

        def progress(done: int, total: int) -> None:
            if update_output is not None:
                loop.call_soon_threadsafe(update_output, f"indexed {done:,} of {total:,} files\n")

        return await signal.in_thread(self._search, signal, progress)

    def _search(self, signal: AbortSignal, progress: Callable[[int, int], object]) -> ToolResult:
        fence = self.context.fence
        named = [fence.resolve(path) for path in self.params.paths or ()]
        root = _common_root(named, fence.root)
        top = directory_at(fence, str(root), GrepFailed)
        listing = listing_of(fence, top, ListingOptions(skip_credentials=True), signal)
        below = [os.fsencode(location.real.relative_to(root)) for location in named if location.real != root]
        try:
            found = CodeIndex(state_dir() / "index", root, self.context.code_vectors).search(
                IndexSource(listing, progress, signal.throw_if_aborted), self.params.query, self.params.limit, below
            )
        except OSError as error:
            raise from_os_error(error, top.shown, GrepFailed) from None
        readable = frozenset(listing.readable([match.path for match in found.places]))
        matches = [match for match in found.places if match.path in readable]
        places = [
            CodePlace(
                path=fence.shown(root / os.fsdecode(match.path)),
                start_line=match.chunk.start,
                end_line=match.chunk.end,
                symbol=match.chunk.symbol,
            )
            for match in matches
        ]
        blocks = [
            "\n".join((_head(place), *self._first_lines(root, match)))
            for place, match in zip(places, matches, strict=True)
        ]
        return ToolResult(
            llm_content="\n\n".join(blocks) or "No matches found",
            return_display=f"Found {len(places)} place{'s' * (len(places) != 1)}",
            data=SearchCodeData(matches=tuple(places)),
            notes=(*(["keyword only"] if found.keyword_only else []), *notes_of(listing, top)),
        )

    def _first_lines(self, root: Path, match: CodeMatch) -> Sequence[str]:
        """Return how the place begins, as the file stands now."""
        fence = self.context.fence
        location = fence.resolve(str(root / os.fsdecode(match.path)))
        with open(fence.open_for_reading(location), "rb") as file:
            lines = file.read().split(b"\n")[match.chunk.start - 1 : match.chunk.end]
        texts = [line.decode("utf-8", "replace").rstrip() for line in lines if line.strip()]
        return [f"  {text[:_LINE_CHARACTERS]}" for text in texts[:LINES_SHOWN]]


def _head(place: CodePlace) -> str:
    return f"{place.path}:{place.start_line}-{place.end_line} {visible(place.symbol)}".rstrip()


def _common_root(named: Sequence[Location], workspace: Path) -> Path:
    roots = {location.root for location in named} or {workspace}
    if len(roots) > 1:
        raise InvalidPath("The paths lie in different added directories. Search one of them at a time.")
    return roots.pop()


SEARCH_CODE = Tool(
    name="search_code",
    display_name="Search code",
    description="Find code by words that describe it: functions, classes, sections of files, best first.",
    group=ToolGroup.FS,
    effect=Effect.READS,
    parameters=SearchCodeParameters,
    invocation=SearchCodeInvocation,
    returns=SearchCodeData,
    risk=Risk.LOW,
)
