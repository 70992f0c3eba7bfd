"""How grep goes through files: in path order where it may stop soon, else all at once with ripgrep.

Which files are searched is always decided by the lister.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from operator import attrgetter

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.fence.dir_handle import DirHandle
from ollm_tui.core.search.glob_pattern import GlobPattern
from ollm_tui.core.search.line_query import FoundFile, FoundLine, LineQuery, SearchTally
from ollm_tui.core.search.listing import Listing
from ollm_tui.core.search.python_search import search_files
from ollm_tui.core.search.ripgrep import Ripgrep
from ollm_tui.core.search.ripgrep_output import AMBIGUOUS, RipgrepError

_FIRST_BATCH = 256
_LARGEST_BATCH = 16384
_GROWTH = 4
"""Batches of files grow, so that the first results come soon and many files need few processes."""

_WORTH_TRYING = 5000
"""Files searched in order before giving up the hope that the first few hold all that is wanted."""

SWEEP_LIMIT = 200_000
"""Lines taken from one sweep over everything; of more the first ones in order are wanted, which needs the other way."""

_MAX_ARGUMENT_BYTES = 800_000
"""Of the two megabytes that the paths on a command line may have by default."""


@dataclass
class FileSearchResult:
    """What a search found, sorted by path; the first `limit` matches count."""

    limit: int
    files: list[FoundFile] = field(default_factory=list[FoundFile])
    tally: SearchTally = field(default_factory=SearchTally)
    listing: Listing | None = None
    matches: int = 0
    cut: bool = False
    """It was known to be more before some were left out."""

    @property
    def stopped(self) -> bool:
        """There is more than the limit."""
        return self.cut or self.matches > self.limit

    def take(self, files: Iterable[FoundFile]) -> None:
        """Add files with their matches."""
        before = len(self.files)
        self.files += files
        self.matches += sum([file.matches for file in self.files[before:]])

    def leave_out_credentials(self) -> None:
        """Drop files that are other names of credentials."""
        if self.listing is not None:
            kept = frozenset(self.listing.readable([file.path for file in self.files]))
            if len(kept) == len(self.files):
                return
            self.cut = self.stopped
            self.files = [file for file in self.files if file.path in kept]
            self.matches = sum([file.matches for file in self.files])

    def shown(self) -> tuple[list[bytes], list[list[FoundLine]]]:
        """Paths, and the matches in each up to the limit with their context."""
        paths: list[bytes] = []
        lines: list[list[FoundLine]] = []
        left = self.limit
        for file in self.files:
            paths.append(file.path)
            lines.append(file.lines)
            left -= file.matches
            if left < 0:
                places = [place for place, line in enumerate(file.lines) if line.column is not None]
                lines[-1] = file.lines[: places[left]]
                if len(places) + left == 0:  # nothing but the lines before a match that is one too many
                    del paths[-1], lines[-1]
                break
        return paths, lines

    def notes(self) -> tuple[str, ...]:
        """Return what a reader must know about files that were not searched."""
        notes: list[str] = []
        binaries = sum(file.binary for file in self.files)
        if binaries:
            notes.append(f"{binaries} binary {'file matches' if binaries == 1 else 'files match'}, but cannot be shown")
        if self.tally.unreadable:
            count = self.tally.unreadable
            notes.append(f"{count} {'file' if count == 1 else 'files'} could not be read")
        if self.tally.not_decoded:
            count = self.tally.not_decoded
            what = (
                "file is not UTF-8 and too large to decode: its"
                if count == 1
                else ("files are not UTF-8 and too large to decode: their")
            )
            notes.append(f"{count} {what} bytes were searched for the pattern as UTF-8")
        return tuple(notes)


@dataclass(frozen=True)
class FileSearch:
    """One search. Without `ripgrep` the engine in this process does it, in a thread. Raises InvalidPattern."""

    query: LineQuery
    limit: int
    file_pattern: GlobPattern | None
    ripgrep: Ripgrep | None
    signal: AbortSignal

    async def in_files(self, handle: DirHandle, paths: Sequence[bytes]) -> FileSearchResult:
        """Search files that were named, relative to the handle."""
        findings = FileSearchResult(self.limit)
        try:
            findings.take(await self._batch(handle, paths, findings))
        except RipgrepError:
            return await self._without_ripgrep.in_files(handle, paths)
        return findings

    async def below(self, open_listing: Callable[[], Listing], *, may_stop: bool) -> FileSearchResult:
        """Search the files of a listing. `may_stop` says that a few matches may do. Raises OSError."""
        try:
            findings = await self._below(open_listing, may_stop)
        except RipgrepError:
            return await self._without_ripgrep.below(open_listing, may_stop=may_stop)
        await self.signal.in_thread(findings.leave_out_credentials)
        return findings

    @property
    def _without_ripgrep(self) -> FileSearch:
        return replace(self, ripgrep=None)

    async def _below(self, open_listing: Callable[[], Listing], may_stop: bool) -> FileSearchResult:
        if self.ripgrep is not None and self.file_pattern is None and not self.query.other_encodings:
            if may_stop:
                findings, finished = await self._in_order(open_listing, _WORTH_TRYING)
                if finished:
                    return findings
            swept = await self._all_at_once(self.ripgrep, open_listing)
            if swept is not None:
                return swept
        findings, _ = await self._in_order(open_listing, None)
        return findings

    async def _in_order(
        self, open_listing: Callable[[], Listing], max_files: int | None
    ) -> tuple[FileSearchResult, bool]:
        """File by file in the order of the paths; False where `max_files` did not do."""
        listing = await self.signal.in_thread(open_listing)
        findings = FileSearchResult(self.limit, listing=listing)
        paths = listing.files(links=False)
        size, searched = _FIRST_BATCH, 0
        while max_files is None or searched < max_files:
            batch = await self.signal.in_thread(next_batch, paths, size)
            if not batch:
                return findings, True
            wanted = batch if self.file_pattern is None else self.file_pattern.matching(batch)
            if wanted:
                findings.take(await self._batch(listing.handle, wanted, findings))
            if findings.stopped:
                return findings, True
            searched += len(batch)
            size = min(size * _GROWTH, _LARGEST_BATCH)
        return findings, False

    async def _batch(self, handle: DirHandle, paths: Sequence[bytes], findings: FileSearchResult) -> list[FoundFile]:
        wanted = self.limit - findings.matches
        if self.ripgrep is not None:
            return await self.ripgrep.search_files(handle, paths, self.query, findings.tally, wanted)
        return await self.signal.in_thread(self._search_here, handle.again(), paths, findings.tally, wanted)

    def _search_here(
        self, handle: DirHandle, paths: Sequence[bytes], tally: SearchTally, wanted: int
    ) -> list[FoundFile]:
        found: list[FoundFile] = []
        for file in search_files(handle, paths, self.query, tally, self.signal.throw_if_aborted):
            found.append(file)
            wanted -= file.matches
            if wanted < 0:
                break
        return found

    async def _all_at_once(self, ripgrep: Ripgrep, open_listing: Callable[[], Listing]) -> FileSearchResult | None:
        """Ripgrep walks by itself while the lister does; None where they might disagree, or there is far too much."""
        listing = await self.signal.in_thread(open_listing)
        if not listing.scopes.common or not listing.handle.unchanged([b""], time.time_ns()):
            return None
        tally = SearchTally()
        walk = asyncio.create_task(self.signal.in_thread(_directories_of, listing))
        try:
            found = await ripgrep.search_tree(listing.handle, _flags_for(listing), self.query, tally, SWEEP_LIMIT)
            if found is None:
                return None
            folders = await walk
        finally:
            walk.cancel()
        if not listing.scopes.common or any(AMBIGUOUS in path for path in folders):
            return None
        files, further = found
        listed = _listed([file.path for file in files], folders)
        files = [file for file in files if file.path in listed]
        paths = iter(sorted(_listed(further, folders)))
        while batch := next_batch(paths, _LARGEST_BATCH):
            files += await ripgrep.search_files(listing.handle, batch, self.query, tally, SWEEP_LIMIT)
        if sum([len(file.lines) for file in files]) > SWEEP_LIMIT:
            return None
        findings = FileSearchResult(self.limit, tally=tally, listing=listing)
        findings.take(sorted(files, key=attrgetter("path")))
        # Ripgrep stumbled over the same directories.
        tally.unreadable = max(0, tally.unreadable - len(listing.unreadable))
        return findings


def next_batch(paths: Iterator[bytes], size: int) -> list[bytes]:
    """So many paths, or fewer where they would not fit on a command line."""
    batch: list[bytes] = []
    length = 0
    for path in islice(paths, size):
        batch.append(path)
        length += len(path) + 9  # its end and the pointer to it
        if length > _MAX_ARGUMENT_BYTES:
            break
    return batch


def _directories_of(listing: Listing) -> dict[bytes, frozenset[bytes]]:
    """Return the files of every directory by its path below the start, empty or ending with a slash."""
    return {directory.path[len(listing.start) :]: frozenset(directory.files) for directory in listing.directories()}


def _listed(paths: Iterable[bytes], folders: dict[bytes, frozenset[bytes]]) -> frozenset[bytes]:
    """Return those of the paths that the walk came by."""
    by_directory: dict[bytes, list[bytes]] = {}
    for path in paths:
        by_directory.setdefault(path[: path.rfind(b"/") + 1], []).append(path)
    listed: set[bytes] = set()
    for directory, below in by_directory.items():
        names = folders.get(directory)
        if names is not None:
            start = len(directory)
            listed.update([path for path in below if path[start:] in names])
    return frozenset(listed)


def _flags_for(listing: Listing) -> list[bytes]:
    """Return the flags that make ripgrep choose the files that the listing does."""
    flags = [b"--no-ignore-dot", b"--no-ignore-messages", b"--glob=!.git"]
    if listing.options.include_hidden:
        flags.append(b"--hidden")
    if listing.options.include_ignored:
        return [*flags, b"--no-ignore"]
    return flags if listing.in_repository else [*flags, b"--no-require-git", b"--no-ignore-parent"]
