"""Reading and searching the terminal in the dashboard, by keys alone."""

from __future__ import annotations

import pytest
from textual import events

from ollm_tui.tui.bindings import key_groups
from ollm_tui.tui.protocol.command_intents import SendReply, TypeKeys
from ollm_tui.tui.screens.help_screen import HelpScreen
from tests.tui.pilot import SHELL, agents_command, stage, terminal_of, wait_until

SIZES = pytest.mark.parametrize("size", [(120, 40), (80, 24)])
LINES = b"".join(b"line %d\r\n" % n for n in range(200))


@SIZES
async def test_the_terminal_is_read_and_searched_by_keys_alone_at_every_size(size: tuple[int, int]) -> None:
    async with stage(size) as here:
        view = await terminal_of(here, SHELL, output=LINES)
        await here.press("f5", "slash")
        sent = b"".join(one.data for one in here.backend.of(TypeKeys))
        assert sent == b"\x1b[15~/", "it is the program's while that has the keyboard"
        await here.press("ctrl+right_square_bracket", "f5")
        await wait_until(here.pilot, lambda: view.reader is not None)
        size_before = (view.engine.screen.columns, view.engine.screen.lines)
        await here.press("slash", *"line 7")
        await wait_until(here.pilot, lambda: "11/11" in here.text)
        assert "line 79" in here.text
        assert (view.engine.screen.columns, view.engine.screen.lines) == size_before
        await here.press("up")
        assert "10/11" in here.text
        await here.press("enter", "N")
        assert "9/11" in here.text
        assert "line 77" in here.text
        await here.press("n")
        assert "10/11" in here.text
        await here.press("escape")
        assert "10/11" not in here.text
        assert view.reader is not None
        await here.press("escape", "x")
        assert here.backend.of(TypeKeys)[-1].data == b"x"
        assert "line 199" in here.text


async def test_the_search_key_seeks_in_the_terminal_from_there_and_in_the_chat_from_elsewhere() -> None:
    async with stage() as here:
        await terminal_of(here, SHELL, output=LINES)
        await here.press("ctrl+right_square_bracket", "ctrl+f")
        assert here.app.dashboard.chat.has_focus_within
        await here.press("escape", "f5", "ctrl+f", *"line 19")
        await wait_until(here.pilot, lambda: "11/11" in here.text)
        assert here.app.dashboard.term.has_focus_within


async def test_the_search_line_never_covers_the_match() -> None:
    async with stage() as here:
        view = await terminal_of(here, SHELL, output=LINES + b"the last row")
        await here.press("ctrl+right_square_bracket", "f5", "slash", *"last")
        await wait_until(here.pilot, lambda: "1/1" in here.text)
        rows = here.text.splitlines()
        [match] = [y for y, row in enumerate(rows) if "the last row" in row]
        [searched] = [y for y, row in enumerate(rows) if "1/1" in row]
        assert match != searched
        assert view.region.y <= searched < match == view.region.bottom - 1
        await here.press("escape", "escape")
        await here.press("ctrl+right_square_bracket", "f5", "slash")
        await wait_until(here.pilot, lambda: "1/1" in here.text)  # what was sought last


async def test_with_tabs_the_search_line_takes_their_place() -> None:
    async with stage() as here:
        view = await terminal_of(here, SHELL, agents_command(), output=LINES)
        await here.press("ctrl+right_square_bracket", "f5", "slash", *"line 1")
        await wait_until(here.pilot, lambda: "/111" in here.text)
        [searched] = [y for y, row in enumerate(here.text.splitlines()) if "/111" in row]
        assert searched == view.region.y - 1


async def test_another_tab_and_the_way_back_to_typing_end_reading_and_search() -> None:
    async with stage() as here:
        view = await terminal_of(here, SHELL, agents_command(), output=LINES)
        await here.press("ctrl+right_square_bracket", "f5", "slash", *"line 1")
        await wait_until(here.pilot, lambda: "/111" in here.text)
        await here.press("f7")
        assert view.reader is None
        assert "/111" not in here.text
        await here.press("f7", "f5", "slash", *"x", "ctrl+t")
        assert here.app.dashboard.term.captures_keys


async def test_what_is_sought_and_not_there_is_said() -> None:
    async with stage() as here:
        await terminal_of(here, SHELL, output=LINES)
        await here.press("ctrl+right_square_bracket", "f5", "slash", *"[/no such]")
        await wait_until(here.pilot, lambda: "none" in here.text)


async def test_the_help_names_the_keys_of_reading() -> None:
    async with stage() as here:
        await here.press("f1")
        assert isinstance(here.app.screen, HelpScreen)
        ids = {binding.id for _, bindings in key_groups() for binding in bindings}
        assert {"terminal.read", "terminal.find", "terminal.mark", "terminal.take_over", "search.close"} <= ids


async def test_focus_of_the_window_is_reported_to_programs_that_ask() -> None:
    async with stage() as here:
        await terminal_of(here, SHELL, output=b"\x1b[?1004h")
        here.app.post_message(events.AppBlur())
        await here.settle()
        here.app.post_message(events.AppFocus())
        await here.settle()
        assert b"".join(one.data for one in here.backend.of(SendReply)) == b"\x1b[O\x1b[I"
        assert not here.backend.of(TypeKeys)
