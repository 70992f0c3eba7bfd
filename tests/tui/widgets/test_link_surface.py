"""Links in the conversation: pointed at by mouse and keys, whole over wrapped rows, and never made of two texts."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from rich.cells import cell_len
from textual.events import MouseDown, MouseMove, MouseUp

from ollm_tui.core.bus.states import CallOutcome, CallState
from ollm_tui.options import Options
from ollm_tui.tui.links import FileLink, Link, WebLink
from ollm_tui.tui.protocol import updates
from ollm_tui.tui.values import AnswerEntry, CallEntry, ConversationCleared, EntriesChanged, Entry
from ollm_tui.tui.widgets.block_painting import PROSE_CELLS
from tests.tui.pilot import Stage, stage, wait_until

ADDRESS = "https://example.org/a"


def answer(name: str, text: str) -> AnswerEntry:
    return AnswerEntry(name, "m", text)


def same(url: str) -> WebLink:
    return WebLink(url, url)


class Talk:
    """A conversation and what was opened of it."""

    def __init__(self, here: Stage, opened: list[Link]) -> None:
        self.here, self.opened = here, opened
        self.transcript = here.app.dashboard.chat.transcript

    def cell_of(self, text: str) -> tuple[int, int]:
        """Where a text stands on the screen."""
        rows = self.here.text.splitlines()
        region = self.transcript.region
        y = next(y for y in range(region.y, region.bottom) if text in rows[y])  # a tooltip is below it
        return cell_len(rows[y][: rows[y].index(text)]), y

    async def mouse(self, text: str, *kinds: type[MouseMove] | type[MouseDown] | type[MouseUp], ctrl: bool) -> None:
        x, y = self.cell_of(text)
        for kind in kinds:
            button = 0 if kind is MouseMove else 1
            self.here.app.post_message(kind(None, x, y, 0, 0, button, False, False, ctrl, x, y))
        await self.here.settle()

    async def hover(self, text: str) -> None:
        await self.mouse(text, MouseMove, ctrl=False)

    async def click(self, text: str, *, ctrl: bool = True) -> None:
        await self.mouse(text, MouseDown, MouseUp, ctrl=ctrl)

    async def looked(self) -> None:
        """Wait until the disk has told what is a link."""
        await wait_until(self.here.pilot, lambda: all(one.group != "next link" for one in self.transcript.workers))
        await self.here.settle()

    @property
    def underlined(self) -> str:
        """What is drawn as pointed at: Markdown's own addresses are not bold."""
        transcript = self.transcript
        strips = (transcript.render_line(y) for y in range(transcript.size.height))
        return "".join(
            part.text for strip in strips for part in strip if part.style and part.style.underline and part.style.bold
        )


@asynccontextmanager
async def talk(
    monkeypatch: pytest.MonkeyPatch, *entries: Entry, workspace: Path | None = None, size: tuple[int, int] = (120, 40)
) -> AsyncGenerator[Talk]:
    opened: list[Link] = []
    async with stage(size, options=Options(theme="ollm-dark", workspace=workspace)) as here:
        monkeypatch.setattr(here.app.opener, "open", opened.append)
        await here.post(updates.ConversationUpdate(EntriesChanged(entries)))
        await here.press("shift+f6", "f6")
        here.app.dashboard.chat.transcript.focus()
        await here.settle()
        yield Talk(here, opened)


def call(output: str, outcome: CallOutcome = CallOutcome.OK) -> CallEntry:
    return CallEntry("c1", "shell", "make", state=CallState.DONE, outcome=outcome, output=output)


async def test_an_address_is_underlined_under_the_mouse_and_opens_with_ctrl_and_a_click(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with talk(monkeypatch, answer("a", f"日本 see {ADDRESS}, or [docs](https://x.org/y).")) as here:
        await here.hover("see")
        assert here.underlined == ""
        await here.hover(ADDRESS)
        assert here.underlined == ADDRESS
        await here.click(ADDRESS, ctrl=False)
        assert here.opened == []
        await here.click(ADDRESS)
        await wait_until(here.here.pilot, lambda: here.opened == [same(ADDRESS)])
        await here.click("https://x.org/y")
        await wait_until(here.here.pilot, lambda: here.opened[1:] == [same("https://x.org/y")])


async def test_an_address_over_several_rows_is_one_link(monkeypatch: pytest.MonkeyPatch) -> None:
    address = "https://example.org/" + "x" * 300 + "?end"
    async with talk(monkeypatch, answer("a", f"- it is {address} here")) as here:
        await here.hover("?end")
        assert here.underlined == address
        await here.click("https://")
        await wait_until(here.here.pilot, lambda: here.opened == [same(address)])


@pytest.mark.parametrize("more", range(-3, 4))
async def test_what_stands_in_the_next_row_is_no_part_of_an_address(monkeypatch: pytest.MonkeyPatch, more: int) -> None:
    """The row is full to the last cell in one of these, and the next begins with a word."""
    async with stage() as probe:
        await probe.post(updates.ConversationUpdate(EntriesChanged((answer("a", "x"),))))
        width = min(probe.app.dashboard.chat.transcript._width, PROSE_CELLS)
    address = ADDRESS + "y" * (width - len(ADDRESS) + more)
    async with talk(monkeypatch, answer("a", f"{address} then more")) as here:
        await here.hover("https://")
        assert here.underlined == address


async def test_places_in_outputs_are_links_where_the_file_exists(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "a.py").touch()
    output = "b.py:1: gone\na.py:7: wrong\n"
    async with talk(monkeypatch, call(output, CallOutcome.FAILED), workspace=tmp_path) as here:
        await here.here.press("k", "enter")
        await here.hover("b.py:1")
        await wait_until(here.here.pilot, lambda: not here.transcript.links._looking)
        assert here.underlined == ""
        await here.hover("a.py:7")
        await wait_until(here.here.pilot, lambda: here.underlined == "a.py:7")
        folded = here.here.text
        await here.click("a.py:7")
        await wait_until(here.here.pilot, lambda: here.opened == [FileLink(tmp_path / "a.py", 7)])
        assert "gone" in folded and "gone" in here.here.text, "a click with ctrl folds nothing"


async def test_the_links_of_the_marked_entry_are_gone_through_and_opened_by_keys(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "a.py").touch()
    text = f"{ADDRESS}\n\n" + "word\n\n" * 60 + "see `a.py:3` and none.py:4"
    async with talk(monkeypatch, answer("a", text), answer("b", "nothing"), workspace=tmp_path) as here:
        await here.here.press("k", "k", "l")
        await wait_until(here.here.pilot, lambda: here.underlined == ADDRESS)
        assert f"o opens {ADDRESS}" in here.here.text
        await here.here.press("l")
        await wait_until(here.here.pilot, lambda: here.underlined == "a.py:3")
        await here.here.press("o")
        assert here.opened == [FileLink(tmp_path / "a.py", 3)]
        await here.here.press("l")
        await wait_until(here.here.pilot, lambda: here.underlined == ADDRESS)
        await here.here.press("j")
        assert here.underlined == ""
        await here.here.post(updates.ConversationUpdate(ConversationCleared((answer("c", f"go {ADDRESS}"),))))
        await here.here.press("o")
        await wait_until(here.here.pilot, lambda: here.opened[1:] == [same(ADDRESS)])


async def test_a_link_that_is_gone_does_not_open(monkeypatch: pytest.MonkeyPatch) -> None:
    async with talk(monkeypatch, answer("a", ADDRESS), answer("b", ADDRESS)) as here:
        await here.here.press("l")
        await wait_until(here.here.pilot, lambda: here.underlined == ADDRESS)
        await here.here.post(updates.ConversationUpdate(ConversationCleared((answer("c", "nothing"),))))
        await here.here.press("o")
        await here.looked()
        assert here.opened == [] and here.underlined == ""


async def test_hostile_texts_are_shown_marked_and_never_links(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "https://a\u202egro.elpmaxe/ https://a\u200bb.org/ [x](javascript:alert) https://me@evil.example/ \x1b]8;;https://b.c\x07t"
    async with talk(monkeypatch, call(text)) as here:
        await here.here.press("k", "enter")
        await here.hover("me@evil.example")
        assert here.underlined == ""
        await here.here.press("l")
        await here.looked()
        assert here.transcript.links.link is None or here.underlined == "https://b.c"
