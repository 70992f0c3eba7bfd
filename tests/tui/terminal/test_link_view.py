"""Links in the terminal: underlined where they are pointed at, opened with ctrl and a click or from reading mode."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual import events, on

from ollm_tui.tui.links import FileLink, LinkAsked, LinkToPrompt, WebLink
from tests.tui.terminal.test_reading_pointer import Reading
from tests.tui.terminal.test_terminal_view import COLUMNS, SIZE, CountingView, Host, until

ADDRESS = b"https://example.org/a"


class LinkHost(Host):
    """Keeps what is asked for."""

    @on(LinkAsked)
    @on(LinkToPrompt)
    def keep_link(self, message: LinkAsked | LinkToPrompt) -> None:
        self.messages.append(message)


class Linked(Reading):
    async def hover(self, x: int, y: int) -> None:
        """Point at a cell of the program's."""
        await self.pilot.hover(self.view, offset=(x + 1, y + 1))

    async def click(self, x: int, y: int, *, control: bool = True, shift: bool = False) -> None:
        await self.pilot.mouse_down(self.view, offset=(x + 1, y + 1), control=control, shift=shift)
        await self.pilot.mouse_up(self.view, offset=(x + 1, y + 1), control=control, shift=shift)

    @property
    def underlined(self) -> list[str]:
        return [
            segment.text
            for strip in self.view.frame.strips
            for segment in strip
            if segment.style and segment.style.underline and segment.text.strip()
        ]

    def asked(self, kind: type[LinkAsked] | type[LinkToPrompt] = LinkAsked) -> list[object]:
        return [message.link for message in self.app.messages if isinstance(message, kind)]


@asynccontextmanager
async def linked(output: bytes, folder: Path | None = None) -> AsyncGenerator[Linked]:
    app = LinkHost(CountingView())
    async with app.run_test(size=SIZE) as pilot:
        app.view.links.folders = lambda: [folder] if folder else []
        app.view.focus()
        await pilot.pause()
        here = Linked(app, pilot)
        await here.feed(output + b"\x1b[?25l")
        app.sent()
        yield here


async def test_an_address_is_underlined_under_the_mouse_and_opens_with_ctrl_and_a_click() -> None:
    async with linked("日本 ".encode() + ADDRESS + b", and more") as here:
        assert here.underlined == []
        await here.hover(4, 0)
        assert here.underlined == []
        await here.hover(5, 0)
        assert here.underlined == ["https://example.org/a"]
        await here.click(5, 0, control=False)
        assert here.asked() == []
        await here.click(25, 0)
        await until(here.asked, here.pilot)
        assert here.asked() == [WebLink("https://example.org/a", "https://example.org/a")]
        await here.hover(26, 0)
        assert here.underlined == []
        assert here.app.sent() == b"", "nothing of it is the program's"


async def test_a_file_is_underlined_only_where_it_exists(tmp_path: Path) -> None:
    (tmp_path / "a.py").touch()
    async with linked(b"b.py:3: x\r\na.py:3:7: x", tmp_path) as here:
        await here.hover(0, 0)
        await until(lambda: not here.view.links._looking, here.pilot)
        assert here.underlined == []
        await here.hover(0, 1)
        await until(lambda: here.underlined == ["a.py:3:7"], here.pilot)
        await here.click(7, 1)
        await until(here.asked, here.pilot)
        assert here.asked() == [FileLink(tmp_path / "a.py", 3, 7)]


async def test_rows_of_a_wrapped_line_are_one_link_also_half_in_the_scrollback() -> None:
    address = b"https://example.org/" + b"x" * (2 * COLUMNS) + b"?end"
    async with linked(b"one " + address + b" two") as here:
        await here.hover(2, 1)
        assert "".join(here.underlined) == address.decode()
        await here.feed(b"\r\n" * 8)
        await here.hover(0, 0)
        await here.click(0, 0)
        await until(here.asked, here.pilot)
        assert here.asked() == [WebLink(address.decode(), address.decode())]


async def test_a_hyperlink_leads_where_the_program_said_and_not_where_its_text_does() -> None:
    output = b"\x1b]8;;https://evil.example/\x07https://bank.\x1b[1mexample/\x1b]8;;\x07 rest"
    async with linked(output) as here:
        await here.hover(3, 0)
        await here.click(3, 0)
        await until(here.asked, here.pilot)
        [link] = here.asked()
        assert link == WebLink("https://evil.example/", "https://bank.example/")
        assert isinstance(link, WebLink) and link.differs


@pytest.mark.parametrize("scheme", ["mailto:a@b", "file://elsewhere/etc/passwd", "https://user@evil.example/"])
async def test_a_hyperlink_to_anything_else_is_none_whatever_its_text_says(scheme: str) -> None:
    async with linked(f"\x1b]8;;{scheme}\x07https://bank.example/\x1b]8;;\x07".encode()) as here:
        await here.hover(3, 0)
        assert here.view.links.link is None
        await here.click(3, 0)
        assert here.asked() == []


async def test_a_program_with_the_mouse_gets_the_click_unless_shift_is_held() -> None:
    async with linked(ADDRESS + b"\x1b[?1003;1006h") as here:
        here.app.sent()
        await here.hover(3, 0)
        assert here.underlined == []
        await here.click(3, 0)
        assert here.asked() == []
        assert b"\x1b[<16;4;1M" in here.app.sent()
        await here.click(3, 0, shift=True)
        await until(here.asked, here.pilot)


async def test_other_text_under_the_mouse_is_no_longer_underlined() -> None:
    async with linked(ADDRESS) as here:
        await here.hover(3, 0)
        assert here.underlined
        await here.feed(b"\x1b[5;1Helsewhere")
        assert here.underlined
        await here.feed(b"\x1b[1;1Hother")
        assert here.underlined == []
        await here.feed(b"\r\n" + ADDRESS)
        await here.hover(3, 1)
        assert here.underlined
        here.view.post_message(events.Leave(here.view))
        await here.pilot.pause()
        assert here.underlined == []


async def test_a_flood_is_not_searched_for_links(monkeypatch: pytest.MonkeyPatch) -> None:
    async with linked(b"") as here:
        await here.hover(3, 3)
        monkeypatch.setattr("ollm_tui.tui.terminal.link_view.candidate_at", lambda *_: pytest.fail("looked for"))
        for _ in range(20):
            await here.feed((ADDRESS + b" a.py:3 ") * 500)
        assert here.underlined == []


async def test_reading_opens_the_link_at_the_pointer_and_puts_it_into_the_prompt(tmp_path: Path) -> None:
    (tmp_path / "a.py").touch()
    async with linked(b"a.py:3\r\nnothing\r\n" + ADDRESS, tmp_path) as here:
        here.view.read()
        await here.press("home", "0")
        await until(lambda: here.view.links.link == FileLink(tmp_path / "a.py", 3), here.pilot)
        await here.press("enter")
        await until(here.asked, here.pilot)
        assert here.asked() == [FileLink(tmp_path / "a.py", 3)]
        await here.press("j", "enter")
        await until(lambda: not here.view.workers, here.pilot)
        assert here.view.links.link is None and len(here.asked()) == 1
        await here.press("j")
        assert "".join(here.underlined) == ADDRESS.decode()
        await here.press("p")
        await until(lambda: here.asked(LinkToPrompt), here.pilot)
        assert here.view.reader is None and here.underlined == []
        assert here.app.sent() == b""
