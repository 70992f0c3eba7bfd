"""A terminal around the installed program: a real PTY, our keys in, the cells of its screen out."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import pyte
from ptyprocess import PtyProcess, PtyProcessError

QUIET = 0.8
"""Seconds of silence before a deciding key: it counts after half a second without any other."""

PROGRAM = Path(sys.executable).parent / "ollm-tui"

KEYS = {"enter": "\r", "esc": "\x1b", "tab": "\t", "f2": "\x1bOQ", "f3": "\x1bOR", "f6": "\x1b[17~", "f7": "\x1b[18~", "f8": "\x1b[19~", "f10": "\x1b[21~", "pgdn": "\x1b[6~", "^q": "\x11", "^s": "\x13", "^t": "\x14", "^]": "\x1d"}  # fmt: skip


class TolerantScreen(pyte.Screen):
    """pyte's own screen, so that the judge is not our emulator; what it does not know it leaves alone."""

    entered = 0
    """How often the program took the alternate screen, as it does after it was stopped."""

    def select_graphic_rendition(self, *attributes: int, **more: object) -> None:
        if not more.get("private"):
            super().select_graphic_rendition(*attributes)

    def set_mode(self, *modes: int, **more: object) -> None:
        self.entered += 1049 in modes
        super().set_mode(*modes, **more)

    def report_device_status(self, mode: int, **more: object) -> None:
        pass

    def report_device_attributes(self, mode: int = 0, **more: object) -> None:
        pass


class OuterTerminal:
    """The program as a person sees it."""

    def __init__(self, process: PtyProcess, columns: int, lines: int) -> None:
        self._process = process
        self._screen = TolerantScreen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)
        self.output = bytearray()
        """All that came from the program."""
        self._heard = time.monotonic()
        self._text: str | None = None
        asyncio.get_running_loop().add_reader(process.fd, self._read)

    @classmethod
    def start(
        cls,
        *arguments: str,
        cwd: Path,
        columns: int = 120,
        lines: int = 40,
        environment: Mapping[str, str] | None = None,
    ) -> OuterTerminal:
        env = {
            **os.environ,
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "OLLM_PROBE": "0",
            **(environment or {}),
        }
        env.pop("TEXTUAL_ANIMATIONS", None)
        process = PtyProcess.spawn([str(PROGRAM), *arguments], cwd=str(cwd), env=env, dimensions=(lines, columns))
        return cls(process, columns, lines)

    def _read(self) -> None:
        try:
            data = os.read(self._process.fd, 65536)
        except OSError:
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._process.fd)
            return
        self._heard = time.monotonic()
        self.output += data
        self._stream.feed(data)
        self._text = None

    @property
    def text(self) -> str:
        """The cells of the screen, line by line; put together once for what has come, since everything here waits by it."""
        if self._text is None:
            self._text = "\n".join(line.rstrip() for line in self._screen.display)
        return self._text

    @property
    def entered(self) -> int:
        """How often the program took the screen: at its start, and each time it was continued."""
        return self._screen.entered

    @property
    def state(self) -> str:
        """First word of the status line."""
        words = self.text.partition("\n")[0].split()
        return words[0] if words else ""

    async def type(self, *keys: str) -> None:
        """Send keys by name, or text as it is, as a person's typing arrives."""
        for key in keys:
            self._process.write(KEYS.get(key, key).encode())
            await asyncio.sleep(0.03)

    def send(self, data: bytes) -> None:
        """Send bytes at once, as an outer terminal sends one key."""
        self._process.write(data)

    async def sees(self, wanted: str | Callable[[str], bool], seconds: float = 20.0) -> None:
        """Wait until the screen shows it; fails with the screen."""
        shows = (lambda text: wanted in text) if isinstance(wanted, str) else wanted
        for _ in range(int(seconds / 0.02)):
            if shows(self.text):
                return
            await asyncio.sleep(0.02)
        raise AssertionError(f"the screen never showed {wanted!r}:\n{self.text}")

    async def comes(self, wanted: bytes, seconds: float = 20.0) -> None:
        """Wait until the program has written these bytes."""
        async with asyncio.timeout(seconds):
            while wanted not in self.output:
                await asyncio.sleep(0.02)

    async def rests(self, still: float = 2.2, seconds: float = 20.0) -> None:
        """Wait until the program has written nothing for longer than any clock of its would stand."""
        for _ in range(int(seconds / 0.05)):
            if time.monotonic() - self._heard >= still:
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"the screen never rested:\n{self.text}")

    async def press(self, key: str) -> None:
        """Send a key that changes the screen, and wait until all of the change is shown: it may take several frames."""
        before = self.text
        await self.type(key)
        await self.sees(lambda text: text != before)
        await self.rests(0.3)

    async def decide(self, key: str, done: str | Callable[[str], bool]) -> None:
        """Press a deciding key after a silence, again where a slow screen had not counted it, until `done` is shown."""
        for patience in (4.0, 6.0, 8.0):
            await asyncio.sleep(QUIET)
            await self.type(key)
            with suppress(AssertionError):
                await self.sees(done, patience)
                return
        await self.sees(done)

    async def ends(self, seconds: float = 40.0) -> int:
        """Wait for the program's end; its exit code."""
        for _ in range(int(seconds / 0.05)):
            if not await asyncio.to_thread(self._process.isalive):
                return int(self._process.exitstatus or 0)
            await asyncio.sleep(0.05)
        raise AssertionError(f"the program did not end:\n{self.text}")

    @property
    def descriptor(self) -> int:
        """Our end of its terminal."""
        return int(self._process.fd)

    @property
    def pid(self) -> int:
        """The program's own."""
        return int(self._process.pid)

    def vanish(self) -> None:
        """As a window that is closed: our end of the terminal goes, and nobody asks the program."""
        asyncio.get_running_loop().remove_reader(self._process.fd)
        self._process.fileobj.close()
        self._process.closed = True

    def resize(self, columns: int, lines: int) -> None:
        """As a person pulls at the window's corner."""
        self._screen.resize(lines, columns)
        self._text = None
        self._process.setwinsize(lines, columns)

    async def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._process.fd)
        try:
            await asyncio.to_thread(self._process.close, True)
        except PtyProcessError:  # killed, but not gone after its tenth of a second
            await self.ends()
