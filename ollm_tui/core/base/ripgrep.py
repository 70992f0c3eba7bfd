"""Searching with ripgrep: found explicitly, run without its own rules, ended with its whole process group."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import re
import shutil
import signal
import sys
import sysconfig
from collections.abc import Callable, Sequence
from itertools import pairwise
from operator import attrgetter
from pathlib import Path

from ollm_tui.core.base.search import (
    BINARY_SAMPLE,
    MAX_LINE_CHARS,
    FoundFile,
    FoundLine,
    InvalidPattern,
    Query,
    SearchTally,
    is_binary,
    line_of,
    long_line,
)

_READ = 1 << 18
_MAX_COLUMNS = 1000
"""Bytes of a line that ripgrep prints; what is longer is read again around the match."""

_PIPE = 1 << 20
"""Bytes that wait at most for being read."""

_SHORTEST_MOMENT = 0.0005
_LONGEST_MOMENT = 0.004
"""Seconds in which output gathers."""

_MAX_STDERR = 100_000

_OVERSHOOT = 20_000
"""Matching lines taken beyond those that are wanted before a search starts over in one thread."""

ON_SEPARATORS = ("--no-heading", "--null", "--color=never", "--no-context-separator", "--with-filename")


class RipgrepFailed(Exception):
    """Ripgrep could not be run, or ended in a way that is nobody's pattern's fault."""


def find_ripgrep(forbidden: Sequence[Path]) -> Path | None:
    """Ripgrep beside this program, else on PATH; never one in a folder of `forbidden`, which a model could have put
    there. None where there is none.
    """
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
            real.is_relative_to(folder) or candidate.is_relative_to(folder) for folder in forbidden
        ):
            return candidate
    return None


class Ripgrep:
    """Runs one program. `folder` (ending with a slash) is where it runs; paths are relative to it."""

    def __init__(self, program: Path) -> None:
        self._program = program

    async def check(self, query: Query) -> None:
        """Raises InvalidPattern where ripgrep does not take the expression, RipgrepFailed where it does not run."""
        await self._run(b"/", [*_pattern_arguments(query), b"--", b"/dev/null"], lambda data: True, SearchTally())

    async def search_files(
        self, folder: bytes, paths: Sequence[bytes], query: Query, tally: SearchTally, max_lines: int
    ) -> list[FoundFile]:
        """The files with matches, in the order of `paths`; stops where more than `max_lines` lines match.

        What it has found then are the first ones: several threads would stop at any, so that one alone finishes a
        search that finds far more than is wanted.
        """
        arguments = [b"--no-ignore", b"--hidden", *_pattern_arguments(query), b"--"]
        # A lone dash would be standard input.
        arguments += [b"./-" if path == b"-" else path for path in paths]
        found = await self._collect(folder, arguments, tally, max_lines + _OVERSHOOT)
        if _matches_in(found) > max_lines + _OVERSHOOT:
            found = await self._collect(folder, [b"--threads=1", *arguments], tally, max_lines)
        order = {path: position for position, path in enumerate(paths)}
        return sorted(found, key=lambda file: order.get(file.path, len(order)))

    async def search_tree(
        self, folder: bytes, flags: Sequence[bytes], query: Query, tally: SearchTally, max_lines: int
    ) -> list[FoundFile]:
        """The files below `folder` with matches that ripgrep itself thinks are to be searched, sorted by path."""
        found = await self._collect(folder, [*flags, *_pattern_arguments(query), b"--", b"."], tally, max_lines)
        return sorted(found, key=attrgetter("path"))

    async def _collect(
        self, folder: bytes, arguments: list[bytes], tally: SearchTally, max_lines: int
    ) -> list[FoundFile]:
        records = _Records(folder, max_lines)
        await self._run(folder, arguments, records.take, tally)
        return records.files()

    async def _run(
        self, folder: bytes, arguments: list[bytes], take: Callable[[bytes], bool], tally: SearchTally
    ) -> None:
        """Feeds the output to `take` until it returns False; the process never outlives this call."""
        output, into = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            process = await self._start(folder, arguments, into)
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
            _judge(process.returncode or 0, errors.result(), tally)

    async def _start(self, folder: bytes, arguments: list[bytes], into: int) -> asyncio.subprocess.Process:
        """Closes `into`, the end of a pipe where the output goes."""
        try:
            os.set_blocking(into, True)  # ripgrep takes a full pipe for a fault otherwise
            return await asyncio.create_subprocess_exec(
                os.fsencode(self._program),
                b"--no-config",
                *(argument.encode() for argument in ON_SEPARATORS),
                *arguments,
                cwd=folder,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=into,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise RipgrepFailed(f"{self._program}: {error.strerror}") from error
        finally:
            os.close(into)


async def _empty(pipe: int, take: Callable[[bytes], bool]) -> bool:
    """Gives `take` all that comes, in a thread; False where it wants no more.

    Ripgrep writes a few lines of each file at a time. Waiting a moment after each reading lets them gather: waking for
    every one costs more than the search.
    """
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
        if not await asyncio.to_thread(take, data):
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


class _Records:
    """Puts ripgrep's output together: `path NUL number:column:offset:text`, context as `number-offset-text`."""

    def __init__(self, folder: bytes, max_lines: int) -> None:
        self._folder = folder
        self._max_lines = max_lines
        self._rest = b""
        self._matches = 0
        self._by_path: dict[bytes, FoundFile] = {}
        self._unmatched: set[bytes] = set()
        """Binary files in whose output no match has been seen yet, but lines near one."""
        self._links: set[bytes] = set()

    def take(self, data: bytes) -> bool:
        """False once there are more matches than wanted. Blocking: reads again what ripgrep cut."""
        data = self._rest + data
        end = 0
        # All at once: a search by hand for each separator would cost several times as much. Up to the last line end,
        # as what stands behind it is the beginning of a record.
        for record in _RECORD.finditer(data, 0, data.rfind(b"\n") + 1):
            end = record.end()
            path, number, column, offset, near_number, near_offset, text = record.groups()
            file = self._by_path.get(path)
            if file is None:
                file = self._by_path[path] = self._begin(path)
            if number is not None:
                if file.binary:
                    self._unmatched.discard(path)
                    continue
                file.matches += 1
                self._matches += 1
                if column is not None and len(text) <= MAX_LINE_CHARS and text.isascii() and text[-1:] != b"\r":
                    # As `_line` does, which nearly no line needs.
                    file.lines.append(FoundLine(int(number), text.decode("ascii"), int(column)))
                    continue
                # Without a column: the match follows the last character.
                place = int(column) if column is not None else len(text.rstrip(b"\r")) + 1
                file.lines.append(self._line(file.path, int(number), place, int(offset), text))
            elif near_number is not None and not file.binary:
                file.lines.append(self._line(file.path, int(near_number), 0, int(near_offset), text))
        self._rest = data[end:]
        return self._matches <= self._max_lines

    def files(self) -> list[FoundFile]:
        """What was found, in the order ripgrep gave it."""
        left_out = self._unmatched | self._links
        return [file for path, file in self._by_path.items() if path not in left_out]

    def _begin(self, path: bytes) -> FoundFile:
        file = FoundFile(path.removeprefix(b"./"))
        sample = _sample(self._folder + file.path)
        if sample is None or is_binary(sample):
            # Nothing of it is shown: it is no text, or it has become a link, through which ripgrep may have looked.
            file.binary = True
            self._unmatched.add(path)
            if sample is None:
                self._links.add(path)
        return file

    def _line(self, path: bytes, number: int, column: int, offset: int, text: bytes) -> FoundLine:
        if len(text) > _MAX_COLUMNS:
            line = long_line(self._folder, path, number, offset, column or 1)
            if line is not None:
                return line if column else FoundLine(number, line.text, None)
        return line_of(number, text, column or None)


def _matches_in(files: Sequence[FoundFile]) -> int:
    return sum(file.matches for file in files)


_BETWEEN = b"\x1f"
"""Stands between the fields of a match: ripgrep leaves the column out where an empty match follows the last character
of a file, and behind colons that could not be told from a text that begins with a number."""
_RECORD = re.compile(
    rb"([^\0]+)\0"
    rb"(?:(\d+)\x1f(?:(\d+)\x1f)?(\d+)\x1f"  # a match
    rb"|(\d+)-(\d+)-)?"  # a line near one
    rb"([^\n]*)\n"
)


def _pattern_arguments(query: Query) -> list[bytes]:
    arguments = [b"--line-number", b"--column", b"--byte-offset", b"--crlf", b"--text"]
    arguments.append(b"--field-match-separator=" + _BETWEEN)
    arguments += [b"--max-columns=%d" % _MAX_COLUMNS, b"--max-columns-preview"]
    arguments += [b"--max-count=%d" % query.max_per_file]
    arguments.append(b"--case-sensitive" if query.case_sensitive else b"--ignore-case")
    if query.fixed:
        arguments.append(b"--fixed-strings")
    if query.context:
        arguments.append(b"--context=%d" % query.context)
    return [*arguments, b"-e", query.pattern.encode()]


def _sample(path: bytes) -> bytes | None:
    """The beginning of a file, empty where it cannot be read; None for a link."""
    # Bare system calls: this is asked of every file with a match, and a file object costs three times as much.
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        return None if error.errno == errno.ELOOP else b""
    try:
        return os.read(descriptor, BINARY_SAMPLE)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


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


def _judge(code: int, errors: bytes, tally: SearchTally) -> None:
    """Codes: 0 found, 1 nothing found, 2 an error (which may be one unreadable file among thousands)."""
    text = errors.decode("utf-8", "replace")
    if code in (0, 1):
        return
    complaint = re.search(r"regex parse error:\n(.*)\nerror: (.*)", text, re.DOTALL)
    if complaint is not None:
        raise InvalidPattern(complaint[2].strip().splitlines()[0], _position(complaint[1]))
    if "is not allowed in a regex" in text or "regex could not be compiled" in text or "compiled regex exceeds" in text:
        raise InvalidPattern(text.strip().removeprefix("rg: ").splitlines()[0], None)
    unreadable = [line for line in text.splitlines() if line.startswith("rg: ") and "(os error " in line]
    tally.unreadable += sum("os error 2)" not in line for line in unreadable)  # 2: gone since it was listed
    if code not in (0, 1, 2) or not unreadable:
        raise RipgrepFailed(f"ripgrep ended with code {code}: {text.strip()[:500] or 'it said nothing'}")


def _position(quoted: str) -> int | None:
    """Where the caret below the quoted pattern points, counted from 0."""
    for above, below in pairwise(quoted.split("\n")):
        if below.strip() and not below.strip().strip("^"):
            return max(0, below.index("^") - len("    (?:" if above.startswith("    (?:") else "    "))
    return None


def _absolute_path_entries() -> list[str]:
    """A relative entry of PATH would be looked up where this program happens to stand: in the workspace."""
    return [entry for entry in os.environ.get("PATH", os.defpath).split(os.pathsep) if entry.startswith("/")]
