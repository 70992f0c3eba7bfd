"""The web server of `ollm-tui serve`: this machine alone, by the token in the address; a dashboard for each window."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from html import escape
from importlib import resources
from pathlib import Path
from typing import Literal

from aiohttp import WSMsgType, web
from aiohttp.typedefs import Handler
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


HOST = "127.0.0.1"
NAMES = (HOST, "localhost")
"""Names of this server in Host and Origin headers; another one means that a foreign page led the browser here."""
TOKEN_BYTES = 32
PAGE = """<!DOCTYPE html>
<html><head><meta charset="utf-8"><title>{title}</title>
<link rel="stylesheet" href="static/css/xterm.css"><script src="static/js/textual.js"></script>
<style>
body {{ background: #101418; color: #d8dee4; font-family: monospace; }}
#ended {{ display: none; position: absolute; inset: 0; z-index: 10; background: #101418; padding: 4rem; }}
body.-closed #ended {{ display: block; }}
</style>
<script>addEventListener("load", () => document.querySelector(".xterm-helper-textarea")?.focus())</script></head>
<body><div id="ended">The dashboard has ended. Reload this page for a new one.</div>
<div id="terminal" class="textual-terminal" data-session-websocket-url="{socket}" data-font-size="{size}"></div>
</body></html>
"""


class WebServer:
    """Serves one dashboard a window; `start` opens the port, `close` ends every dashboard."""

    def __init__(self, command: Sequence[str], title: str) -> None:
        self._command = command
        self._title = title
        self._token = secrets.token_urlsafe(TOKEN_BYTES)
        self._downloads = DownloadManager()
        self._sessions: dict[DashboardSession, web.WebSocketResponse] = {}
        self._static = Path(str(resources.files("textual_serve"))) / "static"
        self._port = 0
        app = web.Application(middlewares=[self._guard])
        app.add_routes(
            [
                web.get("/{token}/", self._page),
                web.get("/{token}/ws", self._socket),
                web.get("/{token}/download/{key}", self._download),
                web.get("/{token}/static/{path:.+}", self._file),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)

    @property
    def url(self) -> str:
        """The address to open; who knows it can do what the person can."""
        return f"http://{HOST}:{self._port}/{self._token}/"

    async def start(self, port: int) -> None:
        """Open the port; 0 for a free one.

        Raises:
            OSError: It is in use, or not allowed.
        """
        await self._runner.setup()
        site = web.TCPSite(self._runner, HOST, port)
        await site.start()
        self._port = int(self._runner.addresses[0][1])

    async def close(self) -> None:
        """End every dashboard, each as a signal does, and the server."""
        for socket in list(self._sessions.values()):
            await socket.close()
        for session in list(self._sessions):
            await session.stop()
        await self._runner.cleanup()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse foreign names and pages, and who does not know the token, before anything else is looked at."""
        own = {f"{name}:{self._port}" for name in NAMES}
        origins = {f"http://{name}" for name in own}
        token = request.path.lstrip("/").partition("/")[0]
        origin = request.headers.get("Origin")
        if request.headers.get("Host") not in own or (origin is not None and origin not in origins):
            return web.Response(status=403, text="Only pages of this server may ask it.\n")
        if not hmac.compare_digest(token.encode("utf-8", "replace"), self._token.encode()):
            return web.Response(
                status=403, text="The token is wrong: open the address that `ollm-tui serve` printed.\n"
            )
        response = await handler(request)
        if not response.prepared:
            response.headers.update(self._headers())
        return response

    def _headers(self) -> dict[str, str]:
        """Nothing from elsewhere is loaded, nobody frames the page, and the address is told to nobody."""
        sources = f"default-src 'self' 'unsafe-inline' data: ws://{HOST}:{self._port} ws://localhost:{self._port}"
        return {
            "Content-Security-Policy": f"{sources}; frame-ancestors 'none'",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-store",
        }

    async def _page(self, request: web.Request) -> web.Response:
        size = request.query.get("fontsize", "")
        page = PAGE.format(
            title=escape(self._title),
            socket=escape(f"ws://{request.host}/{self._token}/ws"),
            size=size if size.isascii() and size.isdigit() else "16",
        )
        return web.Response(text=page, content_type="text/html")

    async def _file(self, request: web.Request) -> web.StreamResponse:
        path = (self._static / request.match_info["path"]).resolve()
        if not path.is_relative_to(self._static.resolve()) or not path.is_file():
            raise web.HTTPNotFound
        return web.FileResponse(path)

    async def _download(self, request: web.Request) -> web.StreamResponse:
        """Send a file that a dashboard delivers, such as a screenshot, always as a file to keep."""
        key = request.match_info["key"]
        try:
            name = (await self._downloads.get_download_metadata(key)).file_name
        except KeyError:
            raise web.HTTPNotFound from None
        safe = "".join(char if char.isascii() and (char.isalnum() or char in "._-") else "_" for char in name)
        response = web.StreamResponse(headers=self._headers())
        response.headers["Content-Disposition"] = f"attachment; filename={safe}"
        response.content_type = "application/octet-stream"
        await response.prepare(request)
        async for chunk in self._downloads.download(key):
            await response.write(chunk)
        return response

    async def _socket(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(heartbeat=15)
        await socket.prepare(request)
        session = DashboardSession(self._command, socket, self._downloads)
        self._sessions[session] = socket
        try:
            await session.start(_cells(request, "width", 80), _cells(request, "height", 24))
            await session.converse()
        finally:
            await session.stop()
            self._sessions.pop(session, None)
        return socket


def _cells(request: web.Request, name: str, default: int) -> int:
    given = request.query.get(name, "")
    return side(int(given)) if given.isascii() and given.isdigit() and len(given) < 6 else default
