"""`browser`: what a page shows and what is done on it, through the tool; what is refused, and how it ends."""

from __future__ import annotations

import asyncio
import os
import signal as signals
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.base.errors import FetchFailed, InvalidArguments, UrlNotAllowed
from ollm_tui.core.base.results import JsonObject, ToolResult
from ollm_tui.core.browser import chromium
from ollm_tui.core.browser.outline import MAX_CHARACTERS
from ollm_tui.core.browser.session import BrowserSession
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.policy.rules import Decision
from ollm_tui.core.shell.process_tree import running_processes
from ollm_tui.core.tools.browser import BROWSER, BrowserData
from ollm_tui.core.tools.builtin import builtin_tools
from ollm_tui.core.tools.context import ToolContext
from ollm_tui.options import Options
from ollm_tui.runtime import configure
from ollm_tui.runtime.core import Attendance, open_core
from tests.core.browser.browsing import needs_chromium
from tests.core.web.server import Server, access, moved, reply, running_server

SHOP = """<title>Yak
 shop</title><h1>Yaks</h1><h2>Order</h2>
<form onsubmit="event.preventDefault(); out.textContent = 'Ordered ' + n.value + ' ' + c.value">
<label for=n>Number</label><input id=n><input type=password aria-label=Secret><input type=file aria-label=Photo>
<select id=c aria-label=Colour><option>brown<option>white</select><input type=checkbox aria-label=Gift>
<button>Order now</button></form><p id=out></p><p style="display:none"><button>Hidden</button></p>
<a href=/other>Other \u202e page</a> <a target=_blank href=/other>New window</a> <a href=/away>Away</a>
<button onclick="alert('hi')">Greet</button><button onclick="while (true) alert('x')">Nag</button>
<button onclick="while (true);">Hang</button><a href=/file>File</a><div tabindex=0>Custom</div>
<iframe srcdoc="<button>Inside</button>"></iframe>"""
OUTLINE = """\
Yak shop
ORIGIN/

# Yaks
## Order
e1 textbox "Number"
e2 password "Secret"
e3 file "Photo"
e4 listbox "Colour" = brown
e5 checkbox "Gift" = not checked
e6 button "Order now"
e7 link "Other ⟨U+202E⟩ page" = /other
e8 link "New window" = /other
e9 link "Away" = /away
e10 button "Greet"
e11 button "Nag"
e12 button "Hang"
e13 link "File" = /file
e14 element "Custom"
frame about:srcdoc:
e15 button "Inside\""""


class Desk:
    """A browser session whose calls come from the tool."""

    def __init__(self, server: Server, folder: Path, idle_seconds: float) -> None:
        self.server = server
        web = access(server, downloads=folder)
        self.session = BrowserSession(web, without_sandbox=True, idle_seconds=idle_seconds)
        self.context = ToolContext(bus=MessageBus(), web=web, browser=self.session)

    async def do(self, action: str, **arguments: object) -> ToolResult:
        invocation = BROWSER.create_invocation({"action": action, **arguments}, self.context)
        await invocation.check(AbortController().signal)
        return await invocation.execute(AbortController().signal)

    async def open(self, path: str = "/") -> ToolResult:
        return await self.do("open", url=f"{self.server.origin}{path}")


@asynccontextmanager
async def open_desk(folder: Path, idle_seconds: float = 300.0) -> AsyncGenerator[Desk]:
    async with running_server() as server:
        server.answers["/"] = reply(SHOP)
        server.answers["/other"] = reply("<title>Other</title><h1>Other page</h1>")
        server.answers["/away"] = moved("http://127.0.0.1:9000/secret")
        server.answers["/file"] = reply("x", headers=[("Content-Disposition", 'attachment; filename="../../x.sh"')])
        desk = Desk(server, folder, idle_seconds)
        try:
            yield desk
        finally:
            await desk.session.aclose()


@needs_chromium
async def test_a_page_is_read_and_operated_by_its_outline(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        assert (await desk.open()).llm_content == OUTLINE.replace("ORIGIN", desk.server.origin)
        await desk.do("type", selector="e1", text="7")
        await desk.do("type", selector="e4", text="white")
        shown = await desk.do("click", selector="e6")
        assert 'e1 textbox "Number" = 7' in shown.llm_content and "= white" in shown.llm_content
        assert "untrusted" in shown.for_model()
        assert (await desk.do("text", selector="#out")).llm_content == "Ordered 7 white"
        await desk.do("type", selector="#n", text="8")
        await desk.do("press", selector="e1", text="Enter")
        assert "Ordered 8 white" in (await desk.do("text")).llm_content
        other = await desk.do("click", selector="text=Other")
        assert other.llm_content == f"Other\n{desk.server.origin}/other\n\n# Other page"
        with pytest.raises(InvalidArguments, match="e6 is not on the page"):
            await desk.do("click", selector="e6")
        assert "Yak shop" in (await desk.do("back")).llm_content
        await desk.do("wait", selector="#out")
        with pytest.raises(InvalidArguments, match='Nearest on the page: e6 button "Order now"'):
            await desk.do("click", selector="#order-now")
        picture = await desk.do("screenshot")
        assert isinstance(picture.data, BrowserData) and picture.data.path is not None and picture.data.picture
        assert Path(picture.data.path).read_bytes().startswith(b"\x89PNG") and picture.artifacts[0].kind == "screenshot"


@needs_chromium
async def test_what_is_a_persons_and_what_a_page_does_by_itself_is_said(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.open()
        for selector in ("e2", "e3"):
            with pytest.raises(UrlNotAllowed, match="only the person"):
                await desk.do("type", selector=selector, text="secret")
        with pytest.raises(UrlNotAllowed, match="only the person"):
            await desk.do("press", selector="e2", text="a")
        notes = (await desk.do("click", selector="e10")).notes
        assert "a dialog was dismissed (alert): hi" in notes
        popup: tuple[str, ...] = ()
        for _ in range(5):  # on a slow machine the window comes after the click has settled
            popup += (await desk.do("click", selector="e8")).notes
        assert any(note.startswith("a new window was closed") for note in popup), popup
        with pytest.raises(UrlNotAllowed, match=r"led to http://127\.0\.0\.1:9000/secret, which was refused"):
            await desk.do("click", selector="e9")
        await desk.open()
        download = (await desk.do("click", selector="text=File")).notes
        assert any("downloads are the person's" in note for note in download), download
        with pytest.raises(FetchFailed, match="downloads are the person's"):
            await desk.open("/file")
        assert "the server answered with HTTP 404" in (await desk.open("/missing")).notes
        assert [file.name for file in tmp_path.iterdir()] == []


@needs_chromium
@pytest.mark.parametrize(
    ("selector", "said"), [("text=Nag", "one dialog after the other"), ("text=Hang", "no longer answers")]
)
async def test_a_page_that_never_rests_ends_in_words_and_the_next_one_opens(
    tmp_path: Path, selector: str, said: str
) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.open()
        with pytest.raises(FetchFailed, match=said):
            await desk.do("click", selector=selector, timeout=2.0)
        assert "Yak shop" in (await desk.open()).llm_content


@needs_chromium
async def test_large_pages_and_crashes_are_said(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        desk.server.answers["/many"] = reply(
            "<h1>Top</h1>" + "".join(f"<a href=/{n}>link {n}</a>" for n in range(1_000))
        )
        many = await desk.open("/many")
        body = many.llm_content.split("\n\n", 1)[1]
        assert len(body) <= MAX_CHARACTERS and "lines left out" in body
        assert body.startswith("# Top\ne1 link") and body.endswith("/999")
        desk.server.answers["/disturbed"] = reply("<p>a</p><script>JSON.stringify = () => '{\"total\": 1}'</script>")
        with pytest.raises(FetchFailed, match="scripts disturb its outline"):
            await desk.open("/disturbed")
        assert (await desk.do("text")).llm_content == "a"
        desk.server.answers["/large"] = reply(
            "<p id=p>words</p><script>const d = document.createElement('div'); d.innerHTML = '<b></b>'.repeat(100_000);"
            "document.body.append(d)</script>"
        )
        assert "too many for an outline" in (await desk.open("/large")).llm_content
        assert (await desk.do("text", selector="#p")).llm_content == "words"
        with pytest.raises(FetchFailed, match="the page crashed"):
            await crash(desk)
        assert "Yak shop" in (await desk.open()).llm_content


async def crash(desk: Desk) -> None:
    """Kill what draws the page, while something on it is waited for."""
    waiting = asyncio.ensure_future(desk.do("wait", selector="#never"))
    processes = {process.pid: process for process in await asyncio.to_thread(running_processes)}

    def is_ours(pid: int) -> bool:
        return pid == os.getpid() or (pid in processes and is_ours(processes[pid].parent))

    for process in processes.values():
        if is_ours(process.pid) and b"--type=renderer" in Path(f"/proc/{process.pid}/cmdline").read_bytes():
            os.kill(process.pid, signals.SIGKILL)
    await waiting


@needs_chromium
async def test_the_browser_ends_when_it_is_idle_and_nothing_of_it_stays(tmp_path: Path) -> None:
    async with open_desk(tmp_path, idle_seconds=0.2) as desk:
        await desk.open("/other")
        async with asyncio.timeout(20):
            while desk.session.page is not None:
                await asyncio.sleep(0.05)
        with pytest.raises(InvalidArguments, match="no page is open"):
            await desk.do("text")
        assert (await desk.do("close")).llm_content == "No browser was open"


async def test_what_is_missing_or_never_allowed_is_said_before_anything_starts(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        for action, said in {"open": "url", "click": "selector", "type": "selector and text", "press": "text"}.items():
            with pytest.raises(InvalidArguments, match=f"{said}: action={action} needs it"):
                await desk.do(action)
        for url in ("file:///etc/passwd", "http://127.0.0.1:9000/", "chrome://settings", "http://169.254.169.254/"):
            with pytest.raises((UrlNotAllowed, InvalidArguments)):
                await desk.do("open", url=url)
        assert desk.session.page is None


def test_without_its_parts_the_tool_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(chromium, "MACOS_PROGRAMS", ())
    assert BROWSER not in builtin_tools(browser_without_sandbox=True)
    assert chromium.why_no_browser(without_sandbox=True) is not None


@needs_chromium
async def test_the_setting_brings_the_tool_to_root_and_the_browser_ends_with_the_core(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    async with running_server() as server:
        server.answers["/"] = reply("<title>Yaks</title>")
        listed = f'[policy.web]\nallow_domains = ["127.0.0.1:{server.port}"]\n'
        config.write_text(f"[web]\nbrowser_without_sandbox = true\n{listed}")
        options = Options(workspace=tmp_path, config_file=config)
        async with open_core(configure(options), Attendance.YES) as core:
            arguments: JsonObject = {"action": "open", "url": server.origin}
            judged = await core.executor.explain("browser", arguments)
            assert (judged.decision, judged.risk) == (Decision.ASK, Risk.HIGH)
            result = await core.executor.execute("browser", arguments)
            assert result.ok and result.llm_content.startswith("Yaks\n"), result
            assert core.browser.page is not None
        assert core.browser.page is None
