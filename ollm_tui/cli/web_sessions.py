"""One dashboard process for each browser window: started, fed, and ended with the window or the server."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

from aiohttp import WSMsgType, web
from pydantic import BaseModel, TypeAdapter, ValidationError
from textual_serve.app_service import AppService
from textual_serve.download_manager import DownloadManager

from ollm_tui.tui.served_driver import SERVED_DRIVER

LARGEST_SIDE = 1_000
"""Columns or lines of a window."""
END_SECONDS = 10.0
"""A dashboard saves within this time, or is killed."""
STREAM_LIMIT = 1 << 20


class WindowSize(BaseModel):
    """Cells of a window."""

    width: int
    height: int


Envelope = (
    tuple[Literal["stdin"], str]
    | tuple[Literal["resize"], WindowSize]
    | tuple[Literal["ping"], str | float | None]
    | tuple[Literal["focus"]]
    | tuple[Literal["blur"]]
)
"""What the page in the browser says."""
_ENVELOPE: TypeAdapter[Envelope] = TypeAdapter(Envelope)


class DashboardSession(AppService):
    """A dashboard behind one websocket."""

    def __init__(self, command: Sequence[str], socket: web.WebSocketResponse, downloads: DownloadManager) -> None:
        self._arguments = tuple(command)
        super().__init__(
            "",
            write_bytes=socket.send_bytes,
            write_str=socket.send_str,
            close=self._close_socket,
            download_manager=downloads,
        )
        self._socket = socket
        self._leaving = False
        """The dashboard said that it ends."""
        self._ending = asyncio.Lock()

    async def _close_socket(self) -> None:
        self._leaving = True
        await self._socket.close()

    def _build_environment(self, width: int = 80, height: int = 24) -> dict[str, str]:
        return {**super()._build_environment(width, height), "TEXTUAL_DRIVER": SERVED_DRIVER}

    async def _open_app_process(self, width: int = 80, height: int = 24) -> Process:
        """Start it without a shell, and apart from the server's terminal: its ctrl+c is the server's."""
        self._process = process = await asyncio.create_subprocess_exec(
            *self._arguments,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=self._build_environment(width, height),
            start_new_session=True,
            limit=STREAM_LIMIT,
        )
        self._stdin = process.stdin
        return process

    async def stop(self) -> None:
        """End the dashboard as a signal from outside does, so that it saves; what hangs is killed."""
        async with self._ending:  # the window and the server may end at once
            if self._process is not None and self._process.returncode is None:
                await self._end(self._process)
            task, self._task = self._task, None
            if task is not None:
                await self._download_manager.cancel_app_downloads(self.app_service_id)
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    async def _end(self, process: Process) -> None:
        if not self._leaving:
            with suppress(ProcessLookupError):
                process.terminate()
        try:
            await asyncio.wait_for(process.wait(), END_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()

    async def converse(self) -> None:
        """Pass on what the window says until it closes."""
        async for message in self._socket:
            if message.type is not WSMsgType.TEXT:
                continue
            await self._take(str(message.data))

    async def _take(self, text: str) -> None:
        try:
            said = _ENVELOPE.validate_json(text)
        except ValidationError:
            return
        match said:
            case ("stdin", typed):
                await self.send_bytes(typed.encode("utf-8", "replace"))
            case ("resize", size):
                await self.set_terminal_size(side(size.width), side(size.height))
            case ("ping", sent):
                await self._socket.send_json(["pong", sent])
            case ("focus",):
                await self.focus()
            case ("blur",):
                await self.blur()


def side(cells: int) -> int:
    """Return a number of columns or lines that can be drawn."""
    return max(1, min(cells, LARGEST_SIDE))
