"""The web server of `ollm-tui serve`: this machine alone, and only who knows the token in the address."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Sequence
from html import escape
from importlib import resources
from pathlib import Path

from aiohttp import web
from aiohttp.typedefs import Handler
from textual_serve.download_manager import DownloadManager

from ollm_tui.cli.web_sessions import DashboardSession, side

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
