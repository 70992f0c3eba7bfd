"""A workspace in a temporary folder and calls of file tools in it, as the executor makes them."""

from __future__ import annotations

import asyncio
import mmap
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import strategies as st

from ollm_tui.core.base.abort import AbortController, AbortSignal
from ollm_tui.core.base.escape import quote_name
from ollm_tui.core.base.results import ToolResult, UpdateOutput
from ollm_tui.core.bus.confirmation import Preview
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.files.trash import Trash
from ollm_tui.core.tools.base import AnyInvocation, AnyTool
from ollm_tui.core.tools.context import Limits, ToolContext

FAST_FOLDER = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""In memory where there is such a place: each example of a property writes files through to the disk."""

names = st.one_of(st.text(min_size=1, max_size=30), st.binary(min_size=1, max_size=30).map(os.fsdecode)).filter(
    lambda name: usable(name) and "/" not in name and "\0" not in name and name not in (".", "..")
)
"""What a file can be called: any text, and any bytes, line ends and undecodable ones included."""

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=200)
"""What a text file can hold."""


RACE_SECONDS = float(os.environ.get("OLLM_TEST_RACE_SECONDS", "0.8"))
"""How long each race lasts at least."""

_LONGEST_RACE = 120.0
"""Seconds after which a machine is given up that does not let happen what a race is to show."""

_ENOUGH_SWAPS = 1000

swapping = pytest.mark.skipif(sys.platform != "linux", reason="swaps a directory and a link with Linux's renameat2")


def usable(name: str) -> bool:
    """Whether the system can give a file this name."""
    try:
        return len(os.fsencode(name)) <= 200
    except UnicodeEncodeError:
        return False


def spelled(name: str) -> str:
    """The name as a path that a model would send: quoted as results show it, else behind `./`."""
    quoted = quote_name(name)
    return f"./{name}" if quoted == name else quoted


class Room:
    """A workspace with a trash beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "workspace"
        self.folder.mkdir()
        self.outside = folder / "outside"
        self.outside.mkdir()
        self.trash = Trash(folder / "state")
        self.workspace = Workspace(self.folder)
        self.context = ToolContext(bus=MessageBus(), workspace=self.workspace, trash=self.trash)

    def limited(self, **limits: int) -> None:
        self.context = replace(self.context, limits=Limits(**limits))

    def strict(self) -> None:
        self.context = replace(self.context, strict_edits=True)

    def write(self, path: str, content: str | bytes = "") -> Path:
        place = self.folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
        return place

    def read(self, path: str) -> bytes:
        return (self.folder / path).read_bytes()

    def all_names(self) -> list[str]:
        return sorted(str(place.relative_to(self.folder)) for place in self.folder.rglob("*"))

    def invocation(self, tool: AnyTool, **arguments: object) -> AnyInvocation:
        return tool.create_invocation(arguments, self.context)

    def call(self, tool: AnyTool, **arguments: object) -> ToolResult:
        """Preconditions, then the act; raises ToolFailure as the tool does."""
        return asyncio.run(run(self.invocation(tool, **arguments)))


async def run(
    invocation: AnyInvocation, signal: AbortSignal | None = None, update_output: UpdateOutput | None = None
) -> ToolResult:
    signal = signal or AbortController().signal
    invocation.facts()
    done = await invocation.check(signal)
    return done if done is not None else await invocation.execute(signal, update_output)


class Race:
    """Goes on until it has lasted `seconds` and everything it is to show has happened, however busy the machine."""

    def __init__(self, swaps: mmap.mmap, seconds: float) -> None:
        self._swaps = swaps
        self._begun = time.monotonic()
        self._seconds = seconds

    @property
    def swaps(self) -> int:
        return int.from_bytes(self._swaps[:8], sys.byteorder)

    def goes_on(self, **wanted: int) -> bool:
        """`wanted` counts what has to happen at least once; enough swaps have to in any case."""
        passed = time.monotonic() - self._begun
        missing = [what for what, count in wanted.items() if not count]
        if self.swaps < _ENOUGH_SWAPS:
            missing.append(f"{_ENOUGH_SWAPS} swaps ({self.swaps})")
        if passed > _LONGEST_RACE:
            assert not missing, f"in {passed:.0f} s never: {', '.join(missing)}"
        return bool(missing) or passed < self._seconds


@contextmanager
def swapped_all_the_time(room: Room, name: str = "a", seconds: float = RACE_SECONDS) -> Iterator[Race]:
    """Another process that makes the entry `name` a link to its like outside and back, thousands of times a second."""
    with tempfile.TemporaryFile() as counter:
        counter.truncate(mmap.PAGESIZE)
        number = counter.fileno()
        arguments = [str(room.folder), str(room.outside / name), name, str(number)]
        command = [sys.executable, "-c", _SWAP, *arguments]
        swapper = subprocess.Popen(command, stdout=subprocess.PIPE, pass_fds=[number])
        try:
            assert swapper.stdout is not None
            swapper.stdout.readline()
            with mmap.mmap(number, mmap.PAGESIZE) as swaps:
                yield Race(swaps, seconds)
        finally:
            swapper.kill()
            swapper.communicate()


_SWAP = """
import ctypes, mmap, os, sys
inside, outside, name = map(os.fsencode, sys.argv[1:4])
link, place = inside + b"/link", inside + b"/" + name
os.symlink(outside, link)
exchange = ctypes.CDLL(None).renameat2
swaps = memoryview(mmap.mmap(int(sys.argv[4]), mmap.PAGESIZE)).cast("Q")
print("begun", flush=True)
while True:
    exchange(-100, link, -100, place, 2)
    swaps[0] += 1
"""


@contextmanager
def unprivileged() -> Iterator[None]:
    """Root may do anything; what is about permissions runs as nobody."""
    if os.geteuid() != 0:
        yield
        return
    os.setegid(65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@contextmanager
def open_room() -> Iterator[Room]:
    """One that an unprivileged user can work in."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        room = Room(Path(folder))
        room.folder.chmod(0o777)
        yield room


@contextmanager
def new_room() -> Iterator[Room]:
    """For property tests, which need a fresh one for each example."""
    with tempfile.TemporaryDirectory(dir=FAST_FOLDER) as folder:
        yield Room(Path(folder))


async def preview_of(call: AnyInvocation) -> Preview | None:
    """What a person would be shown of the call as things stand."""
    return await (await call.question()).preview()
