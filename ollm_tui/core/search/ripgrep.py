"""Searching with ripgrep: found explicitly, run without its own rules, ended with its whole process group."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
import sys
import sysconfig
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ollm_tui.core.fence.dir_handle import DirHandle
from ollm_tui.core.search.line_query import (
    BINARY_SAMPLE,
    FoundFile,
    InvalidPatternError,
    LineQuery,
    SearchTally,
    is_binary,
)
from ollm_tui.core.search.python_search import is_wide, search_files
from ollm_tui.core.search.ripgrep_output import (
    AMBIGUOUS,
    BETWEEN,
    MAX_COLUMNS,
    ON_SEPARATORS,
    RipgrepError,
    RipgrepRecords,
    check_exit,
)

_READ = 1 << 18
_PIPE = 1 << 20
"""Bytes that wait at most for being read."""

_SHORTEST_MOMENT = 0.0005
_LONGEST_MOMENT = 0.004
"""Seconds in which output gathers."""

_MAX_STDERR = 100_000

_LIST = (b"--no-ignore", b"--hidden", b"--binary", b"--no-mmap", b"--encoding=none", b"--files-with-matches")

_NO_UTF_8 = (
    rb"(?-u)[\xC0\xC1\xF5-\xFF]"  # bytes that never occur
    rb"|[\xC2-\xDF\xE1-\xEC\xEE\xEF\xF1-\xF3](?:[^\x80-\xBF]|$)"  # characters that break off after their first byte
    rb"|\xE0(?:[^\xA0-\xBF]|$)|\xED(?:[^\x80-\x9F]|$)|\xF0(?:[^\x90-\xBF]|$)|\xF4(?:[^\x80-\x8F]|$)"
    rb"|[\xE0-\xF4][\x80-\xBF](?:[^\x80-\xBF]|$)|[\xF0-\xF4][\x80-\xBF]{2}(?:[^\x80-\xBF]|$)"  # ... and later
    rb"|(?:^|[\x00-\x7F]|[\xC2-\xDF][\x80-\xBF]|[\xE0-\xEF][\x80-\xBF]{2}|[\xF0-\xF4][\x80-\xBF]{3})[\x80-\xBF]"
)
"""Matches in every line that is no UTF-8. Asking for lines that do not match `.*` would take minutes where a file is
full of NULs, which end lines.
"""

_OVERSHOOT = 20_000
"""Matching lines taken beyond those that are wanted before a search starts over in one thread."""


def find_ripgrep(forbidden: Sequence[Path]) -> Path | None:
    """Return ripgrep beside this program, else on PATH; never in a `forbidden` directory, which a model could write."""
    candidates = [Path(sysconfig.get_path("scripts")) / "rg", Path(sys.executable).parent / "rg"]
    on_path = shutil.which("rg", path=os.pathsep.join(_absolute_path_entries()))
    if on_path is not None:
        candidates.append(Path(on_path))
    for index, candidate in enumerate(candidates):
        if not os.access(candidate, os.X_OK) or not candidate.is_file():
            continue
        real = Path(os.path.realpath(candidate))
        # The first two belong to the installation this code runs from: they may well lie in a project's own `.venv`.
        if index < 2 or not any(
            real.is_relative_to(directory) or candidate.is_relative_to(directory) for directory in forbidden
        ):
            return candidate
    return None


class Ripgrep:
    """Runs one program, in the directory that is the handle of a search; paths are relative to it."""

    def __init__(self, program: Path) -> None:
        self._program = program

    async def check(self, query: LineQuery) -> None:
        """Raise InvalidPatternError where ripgrep refuses the expression, RipgrepError where it fails."""
        await self._run(b"/", [*_pattern_arguments(query), b"--", b"/dev/null"], lambda data: True, SearchTally())

    async def search_files(
        self, handle: DirHandle, paths: Sequence[bytes], query: LineQuery, tally: SearchTally, max_lines: int
    ) -> list[FoundFile]:
        """Return the files with matches, in the order of `paths`; the first ones if over `max_lines` lines match."""
        if AMBIGUOUS in b"\0".join(paths):
            raise RipgrepError("its output would be ambiguous for a folder with this name")
        if query.context:
            found = await self._with_context(handle, paths, query, tally, max_lines)
        else:
            found = await self._first_matches(handle, paths, query, tally, max_lines)
        if query.other_encodings and (others := await self.in_other_encodings(handle, paths)):
            found = [file for file in found if file.path not in others]
            found += await asyncio.to_thread(_searched_here, handle.again(), sorted(others), query, tally)
        order = {path: position for position, path in enumerate(paths)}
        return sorted(found, key=lambda file: order.get(file.path, len(order)))

    async def in_other_encodings(self, handle: DirHandle, paths: Sequence[bytes]) -> frozenset[bytes]:
        """Return the files with a line that is no UTF-8; a single one also where it is a text with NULs."""
        if len(paths) == 1 and await asyncio.to_thread(_asked, is_wide, handle.again(), paths[0]):
            return frozenset(paths)
        output: list[bytes] = []
        arguments = [*_LIST, b"-e", _NO_UTF_8, b"--", *(b"./" + path for path in paths)]
        await self._run(handle.place or handle.path, arguments, lambda data: not output.append(data), SearchTally())
        return frozenset(path.removeprefix(b"./") for path in b"".join(output).split(b"\0") if path)

    async def _with_context(
        self, handle: DirHandle, paths: Sequence[bytes], query: LineQuery, tally: SearchTally, max_lines: int
    ) -> list[FoundFile]:
        """Search twice: with context, ripgrep silently gives up where a line near a match is behind a NUL."""
        plain = await self._first_matches(handle, paths, replace(query, context=0), tally, max_lines)
        texts = [file.path for file in plain if not file.binary]
        if not texts:
            return plain
        found = await self._first_matches(handle, texts, query, SearchTally(), max_lines)
        missing = set(texts).difference(file.path for file in found)
        if missing and _matches_in(found) <= max_lines:
            found += await asyncio.to_thread(_searched_here, handle.again(), sorted(missing), query, tally)
        return [*found, *(file for file in plain if file.binary)]

    async def _first_matches(
        self, handle: DirHandle, paths: Sequence[bytes], query: LineQuery, tally: SearchTally, max_lines: int
    ) -> list[FoundFile]:
        arguments = [b"--no-ignore", b"--hidden", *_pattern_arguments(query), b"--", *(b"./" + path for path in paths)]
        found = await self._compared(handle, arguments, query, tally, max_lines + _OVERSHOOT)
        if _matches_in(found) > max_lines + _OVERSHOOT:
            found = await self._compared(handle, [b"--threads=1", *arguments], query, tally, max_lines)
        return found

    async def search_tree(
        self, handle: DirHandle, flags: Sequence[bytes], query: LineQuery, tally: SearchTally, max_lines: int
    ) -> tuple[list[FoundFile], list[bytes]] | None:
        """Return matching files of ripgrep's choice and paths to search anew; None if over `max_lines` lines match."""
        started = time.time_ns()
        records = RipgrepRecords(max_lines)
        arguments = [*flags, *_pattern_arguments(replace(query, context=0)), b"--", b"."]
        await self._run(handle.place or handle.path, arguments, records.take, tally)
        found = records.close()
        if _matches_in(found) > max_lines:
            return None
        if query.context:
            return [], [*(file.path for file in found), *records.doubtful, *records.with_nul]
        directories = {_directory_of(file.path) for file in found}
        sure = (
            await asyncio.to_thread(handle.again().unchanged, directories, started)
            if handle.place
            else frozenset[bytes]()
        )
        unsure = [file.path for file in found if _directory_of(file.path) not in sure]
        found = [file for file in found if _directory_of(file.path) in sure] if unsure else found
        return found, [*unsure, *records.doubtful, *records.with_nul]

    async def _compared(
        self, handle: DirHandle, arguments: list[bytes], query: LineQuery, tally: SearchTally, max_lines: int
    ) -> list[FoundFile]:
        """Return what ripgrep finds, as far as the files below the handle hold it."""
        records = RipgrepRecords(max_lines, handle.again())
        try:
            await self._run(handle.place or handle.path, arguments, records.take, tally)
        finally:
            found = records.close()
        if records.with_nul or records.doubtful:
            found += await asyncio.to_thread(_looked_into, handle.again(), records, query, tally)
        return found

    async def _run(
        self, directory: bytes, arguments: list[bytes], take: Callable[[bytes], bool], tally: SearchTally
    ) -> None:
        """Feed the output to `take` until it returns False; end the process in any case."""
        output, into = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            process = await self._start(directory, arguments, into)
            assert process.stderr is not None
            errors = asyncio.create_task(_bounded(process.stderr))
            everything = False
            try:
                everything = await _empty(output, take)
            finally:
                if not everything:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                await asyncio.shield(_reap(process, errors))
        finally:
            os.close(output)
        if everything:
            check_exit(process.returncode or 0, errors.result(), tally)

    async def _start(self, directory: bytes, arguments: list[bytes], into: int) -> asyncio.subprocess.Process:
        """Start ripgrep with its output in the pipe `into`, and close that end."""
        try:
            os.set_blocking(into, True)  # ripgrep takes a full pipe for a fault otherwise
            return await asyncio.create_subprocess_exec(
                os.fsencode(self._program),
                b"--no-config",
                *(argument.encode() for argument in ON_SEPARATORS),
                *arguments,
                cwd=directory,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=into,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise RipgrepError(f"{self._program}: {error.strerror}") from error
        finally:
            os.close(into)


async def _empty(pipe: int, take: Callable[[bytes], bool]) -> bool:
    """Give `take` all output, in a thread; return False where it wants no more."""
    with contextlib.suppress(AttributeError, OSError):  # not everywhere, and not without limit
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE)
    moment = _SHORTEST_MOMENT
    while True:
        try:
            data = os.read(pipe, _PIPE)
        except BlockingIOError:
            await _readable(pipe)
            continue
        if not data:
            return True
        taking = asyncio.ensure_future(asyncio.to_thread(take, data))
        try:
            more = await asyncio.shield(taking)
        except asyncio.CancelledError:
            await asyncio.wait([taking])  # its thread uses what is closed next
            raise
        if not more:
            return False
        await asyncio.sleep(moment)
        moment = min(2 * moment, _LONGEST_MOMENT)


async def _readable(pipe: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(pipe, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(pipe)


def _looked_into(handle: DirHandle, records: RipgrepRecords, query: LineQuery, tally: SearchTally) -> list[FoundFile]:
    """Search the files of which ripgrep's output does not say enough."""
    binary = [path for path in records.with_nul if _asked(_is_binary, handle, path)]
    found = [FoundFile(path, binary=True) for path in binary]
    texts = [*records.doubtful, *(path for path in records.with_nul if path not in binary)]
    return found + _searched_here(handle, texts, query, tally)


def _searched_here(handle: DirHandle, paths: Sequence[bytes], query: LineQuery, tally: SearchTally) -> list[FoundFile]:
    try:
        return list(search_files(handle, paths, query, tally, lambda: None))
    except InvalidPatternError:  # one that ripgrep alone takes
        tally.unreadable += len(paths)
        return []


def _asked(question: Callable[[int], bool], handle: DirHandle, path: bytes) -> bool:
    """Return the answer of an open file; False where it cannot be opened or read."""
    try:
        descriptor = handle.open_file(path)
    except OSError:
        return False
    try:
        return question(descriptor)
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _is_binary(descriptor: int) -> bool:
    return is_binary(os.read(descriptor, BINARY_SAMPLE))


def _directory_of(path: bytes) -> bytes:
    return path[: path.rfind(b"/") + 1]


def _matches_in(files: Sequence[FoundFile]) -> int:
    return sum(file.matches for file in files)


def _pattern_arguments(query: LineQuery) -> list[bytes]:
    arguments = [b"--line-number", b"--column", b"--byte-offset", b"--crlf"]
    # A file with a NUL is no text: reading on as if it were would take as much memory as its longest line.
    arguments += [b"--binary", b"--no-mmap"]
    arguments.append(b"--field-match-separator=" + BETWEEN)
    arguments += [b"--max-columns=%d" % MAX_COLUMNS, b"--max-columns-preview"]
    arguments.append(b"--case-sensitive" if query.case_sensitive else b"--ignore-case")
    if query.fixed:
        arguments.append(b"--fixed-strings")
    if query.context:
        # Not with --max-count: ripgrep 15 then marks some of the lines near a match as matches.
        arguments.append(b"--context=%d" % query.context)
    else:
        arguments.append(b"--max-count=%d" % query.max_per_file)
    return [*arguments, b"-e", query.pattern.encode()]


async def _bounded(stream: asyncio.StreamReader) -> bytes:
    """Everything is read, so that the process never waits; the beginning is kept."""
    kept = b""
    while data := await stream.read(_READ):
        if len(kept) < _MAX_STDERR:
            kept += data
    return kept


async def _reap(process: asyncio.subprocess.Process, errors: asyncio.Task[bytes]) -> None:
    await process.wait()
    await asyncio.wait([errors])


def _absolute_path_entries() -> list[str]:
    """Return absolute entries of PATH: a relative one would be looked up in the workspace."""
    return [entry for entry in os.environ.get("PATH", os.defpath).split(os.pathsep) if entry.startswith("/")]
