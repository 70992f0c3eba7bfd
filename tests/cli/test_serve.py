"""`ollm-tui serve`: a real server and its dashboards, asked by a real client."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import psutil
import pytest

aiohttp = pytest.importorskip("aiohttp", reason="textual-serve is not installed")

from ollm_tui.cli.command_line import UsageError  # noqa: E402  # behind the skip
from ollm_tui.cli.serve import run_command  # noqa: E402  # behind the skip
from ollm_tui.core.browser.chromium import find_chromium  # noqa: E402  # behind the skip
from tests.core.browser.browsing import needs_chromium  # noqa: E402  # behind the skip
from tests.tui.terminal.screens import Terminal, terminal  # noqa: E402  # behind the skip

COLUMNS, LINES = 100, 30


class Serving:
    """A running server and what it printed."""

    def __init__(self, process: asyncio.subprocess.Process, url: str) -> None:
        self.process, self.url = process, url
        self.root, _, token = url.rstrip("/").rpartition("/")
        self.token = token

    @property
    def dashboards(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children()

    async def status(self, path: str, headers: Mapping[str, str] | None = None) -> int:
        async with aiohttp.ClientSession() as client, client.get(self.root + path, headers=headers) as answer:
            return answer.status


@pytest.fixture
async def serving(tmp_path: Path) -> AsyncIterator[Serving]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "ollm_tui", "serve", "--provider", "offline", "-C", str(tmp_path)),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "OLLM_PROBE": "0"},
    )
    assert process.stdout is not None
    line = await asyncio.wait_for(process.stdout.readline(), 30)
    yield Serving(process, line.decode().strip())
    if process.returncode is None:
        process.terminate()
        await process.wait()


class Window:
    """A browser window: it says what the page's script says, and its terminal shows what comes."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self.screen: Terminal = terminal(COLUMNS, LINES)

    async def sees(self, wanted: str) -> None:
        async with asyncio.timeout(30):
            while not any(wanted in line for line in self.screen.lines):
                message = await self.socket.receive()
                assert message.type is aiohttp.WSMsgType.BINARY, (message, self.screen.lines)
                self.screen.feed(message.data)

    async def says(self, *words: object) -> None:
        await self.socket.send_str(json.dumps(words))


async def gone(processes: list[psutil.Process]) -> None:
    async with asyncio.timeout(30):
        while any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in processes):
            await asyncio.sleep(0.05)


def socket_url(serving: Serving) -> str:
    return f"{serving.url}ws?width={COLUMNS}&height={LINES}"


async def test_a_window_is_a_dashboard_and_ends_with_it(serving: Serving) -> None:
    async with aiohttp.ClientSession() as client:
        async with client.ws_connect(socket_url(serving), origin=serving.root) as socket:
            window = Window(socket)
            await window.sees("Ask for something")
            await window.says("stdin", "typed in a browser 日本")
            await window.sees("typed in a browser 日本")
            await socket.send_str("[nothing")
            await window.says("no such word", 1)
            await window.says("stdin", " still there")
            await window.sees("typed in a browser 日本 still there")
            window.screen = terminal(60, LINES)
            await window.says("resize", {"width": 60, "height": LINES})
            await window.sees("still there")
            dashboards = serving.dashboards
            assert len(dashboards) == 1
        await gone(dashboards)
    assert serving.process.returncode is None


async def test_leaving_by_key_closes_the_window(serving: Serving) -> None:
    async with aiohttp.ClientSession() as client, client.ws_connect(socket_url(serving)) as socket:
        window = Window(socket)
        await window.sees("Ask for something")
        dashboards = serving.dashboards
        await window.says("stdin", "\x11")
        async with asyncio.timeout(30):
            while (await socket.receive()).type is not aiohttp.WSMsgType.CLOSE:
                pass
        await gone(dashboards)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
async def test_every_dashboard_ends_with_the_server(serving: Serving, how: signal.Signals) -> None:
    async with aiohttp.ClientSession() as client:
        first, second = await client.ws_connect(socket_url(serving)), await client.ws_connect(socket_url(serving))
        for socket in (first, second):
            await Window(socket).sees("Ask for something")
        dashboards = serving.dashboards
        assert len(dashboards) == 2
        serving.process.send_signal(how)
        assert await asyncio.wait_for(serving.process.wait(), 30) == (-9 if how is signal.SIGKILL else 130)
        await gone(dashboards)


async def test_without_the_token_nothing_is_given(serving: Serving) -> None:
    assert len(serving.token) >= 43
    assert await serving.status(f"/{serving.token}/") == 200
    assert await serving.status(f"/{serving.token}/static/js/textual.js") == 200
    wrong = serving.token[:-1] + ("a" if serving.token[-1] != "a" else "b")
    for path in ("/", "/ws", "/static/js/textual.js", f"/{wrong}/", f"/{wrong}/ws", f"/?token={serving.token}", "/é/"):
        assert await serving.status(path) == 403, path
    for path in (f"/{serving.token}/none", f"/{serving.token}/static/..%2fserver.py", f"/{serving.token}/download/x"):
        assert await serving.status(path) == 404, path
    async with aiohttp.ClientSession() as client:
        with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
            await client.ws_connect(f"{serving.root}/{wrong}/ws")
    assert serving.dashboards == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example:80"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "https://127.0.0.1"},
    ],
    ids=lambda headers: "{}: {}".format(*next(iter(headers.items()))),
)
async def test_foreign_pages_and_names_are_refused_though_they_know_the_token(
    serving: Serving, headers: Mapping[str, str]
) -> None:
    for path in ("", "ws", "static/js/textual.js"):
        assert await serving.status(f"/{serving.token}/{path}", headers) == 403
    async with aiohttp.ClientSession() as client:
        with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
            await client.ws_connect(socket_url(serving), headers=headers)
    assert serving.dashboards == []


async def test_it_listens_on_this_machine_alone_and_tells_the_browser_to_stay(serving: Serving) -> None:
    listening = [
        found.laddr for found in psutil.Process(serving.process.pid).net_connections() if found.status == "LISTEN"
    ]
    assert [address.ip for address in listening] == ["127.0.0.1"]
    async with aiohttp.ClientSession() as client, client.get(serving.url) as answer:
        assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert "http" not in (await answer.text()).replace(serving.root, "")


async def test_what_cannot_be_served_is_said(serving: Serving, tmp_path: Path) -> None:
    port = serving.root.rpartition(":")[2]
    for arguments, said in (
        (("--port", port), f"port {port} cannot be opened: "),
        (("--port", "70000"), "there is no port 70000"),
        (("a message",), "serve takes no message"),
        (("-C", str(tmp_path / "none")), "is not a directory"),
    ):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "ollm_tui", "serve", *arguments),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        assert (process.returncode, out) == (2, b"")
        assert said in err.decode()


@needs_chromium
async def test_a_browser_shows_it_and_takes_keys(serving: Serving) -> None:
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
        page = await browser.new_page()
        elsewhere: list[str] = []
        page.on(
            "request", lambda request: None if request.url.startswith(serving.root) else elsewhere.append(request.url)
        )
        screen = terminal(200, 60)
        page.on("websocket", lambda socket: socket.on("framereceived", screen.feed))
        await page.goto(serving.url)
        await _until(lambda: "Ask for something" in "".join(screen.lines))
        await page.keyboard.type("typed in chromium")
        await _until(lambda: "typed in chromium" in "".join(screen.lines))
        assert await page.locator("body.-first-byte .xterm-screen").is_visible()
        assert elsewhere == []
        await browser.close()


async def _until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not happened():
            await asyncio.sleep(0.02)


def test_without_textual_serve_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "textual_serve.app_service", None)
    for name in ("web_server", "web_sessions"):
        monkeypatch.delitem(sys.modules, f"ollm_tui.cli.{name}", raising=False)
    with pytest.raises(UsageError, match=r"pip install 'ollm-tui\[serve\]'"):
        run_command([])
