"""Links to sessions of this user that wait for a person: JSON lines over a unix socket or a command (docs/attach)."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import tempfile
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.bus.confirmation import ConfirmationResponse

VERSION = 1
MAX_LINE = 64_000_000
"""Bytes of a line of a session; it is as long as what is asked."""
HELLO_SECONDS = 5.0
SOCKETS = "*.sock"


class SessionLink:
    """A link to a session; what it answers for is sent, and settled there."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def greet(self) -> None:
        """Say hello, after which the questions come."""
        self._send({"type": "hello", "version": VERSION})

    async def next(self) -> JsonObject | None:
        """Return the next line; None at the end, of a line that is cut, too. Raises ValueError for what is no JSON."""
        line = await self._reader.readline()
        if not line.endswith(b"\n"):
            return None
        value: object = json.loads(line)
        return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]  # JSON of any shape

    def answer(self, response: ConfirmationResponse) -> None:
        """Send an answer; whether it counted is said by the other side."""
        frame: JsonObject = {"type": "answer", "id": response.id, "approved": response.approved}
        self._send(frame | ({"reason": response.reason} if response.reason else {}))

    def _send(self, frame: JsonObject) -> None:
        self._writer.write(json.dumps(frame).encode() + b"\n")


def sockets_place() -> Path:
    """Return where the sockets of this user are."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    # Short: the path of a socket has about 100 bytes.
    own = Path(tempfile.gettempdir()) / f"ollm-tui-{os.getuid()}"
    return Path(runtime) / "ollm-tui" if runtime.startswith("/") else own


def sockets_folder() -> Path:
    """Return the folder of all sockets of this user; made where it is missing, private to the user.

    Raises:
        PermissionError: It belongs to somebody else, or others may enter it.
    """
    folder = sockets_place()
    with suppress(FileExistsError):  # a file, or a link that leads nowhere: said below
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError(f"{folder} is not yours alone. Remove it, or run: chmod 700 on it.")
    return folder


@asynccontextmanager
async def linked(path: Path) -> AsyncGenerator[SessionLink]:
    """Link to the session behind a socket. Raises OSError."""
    reader, writer = await asyncio.open_unix_connection(path, limit=MAX_LINE)
    try:
        yield SessionLink(reader, writer)
    finally:
        writer.close()


@asynccontextmanager
async def started(command: Sequence[str]) -> AsyncGenerator[SessionLink]:
    """Start a command that speaks as `run --ask stdio` does, such as one behind ssh. Raises OSError."""
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, limit=MAX_LINE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield SessionLink(process.stdout, process.stdin)
    finally:
        process.stdin.close()  # it ends by itself: nobody can answer any more
        with suppress(TimeoutError):
            async with asyncio.timeout(HELLO_SECONDS):
                await process.wait()
        if process.returncode is None:
            process.terminate()
            await process.wait()
