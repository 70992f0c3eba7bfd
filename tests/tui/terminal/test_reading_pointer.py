"""Reading a terminal with keys: the pointer, the selection, the search, and what the program gets of it (nothing)."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from textual import events
from textual.pilot import Pilot

from ollm_tui.tui.terminal.strips import StripPainter
from ollm_tui.tui.terminal.terminal_view import TerminalView
from ollm_tui.tui.terminal.text_search import SEARCH_AGAIN_SECONDS
from tests.tui.terminal.screens import shown
from tests.tui.terminal.test_terminal_view import COLUMNS, LINES, SIZE, Host, drawn, host, until


class Reading:
    """A view with focus, and its keys."""

    def __init__(self, app: Host, pilot: Pilot[None]) -> None:
        self.app, self.pilot, self.view = app, pilot, app.view

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def feed(self, data: bytes) -> None:
        self.view.engine.feed(data)
        await drawn(self.view, self.pilot)

    async def find(self, query: str, hits: str) -> None:
        self.view.find(query)
        await until(lambda: self.view.search.hits == hits, self.pilot)

    @property
    def position(self) -> tuple[int, int]:
        assert self.view.reader is not None
        return self.view.reader.position

    @property
    def marked(self) -> list[str]:
        """What is drawn over: pointer, matches, selection."""
        return [
            segment.text
            for strip in self.view.frame.strips
            for segment in strip
            if segment.style and (segment.style.reverse or segment.style.underline)
        ]


@asynccontextmanager
async def reading(output: bytes = b"", *, interactive: bool = True, gutter: bool = False) -> AsyncGenerator[Reading]:
    app = host(interactive=interactive, gutter=gutter)
    async with app.run_test(size=SIZE) as pilot:
        app.view.focus()
        await pilot.pause()
        here = Reading(app, pilot)
        await here.feed(output)
        app.sent()
        yield here


FIFTY = b"".join(b"line %d\r\n" % n for n in range(50))


async def test_while_somebody_reads_no_key_and_no_paste_goes_to_the_program() -> None:
    async with reading(FIFTY) as here:
        assert here.view.captures_keys
        here.view.read()
        assert not here.view.captures_keys
        await here.press("x", "enter", "pageup", "h", "ctrl+d", "5")
        here.view.post_message(events.Paste("rm -rf /\n"))
        await here.press("q")
        assert here.app.sent() == b""
        assert here.view.captures_keys
        await here.press("x")
        assert here.app.sent() == b"x"


async def test_the_pointer_moves_over_screen_and_scrollback_and_the_view_with_it() -> None:
    async with reading(FIFTY) as here:
        here.view.read()
        assert here.position == (50, 0), "where the program's cursor is"
        await here.press("up", "up", "end", "$")
        assert here.position == (50, 0)
        await here.press("home")
        assert (here.position, shown(here.view)[0]) == ((0, 0), "line 0")
        await here.press("$")
        assert here.position == (0, 5)
        await here.press("l", "right", "h")
        assert here.position == (0, 4), "not beyond the end of the line"
        await here.press(*("down",) * LINES)
        assert (here.position, shown(here.view)[-1]) == ((LINES, 4), f"line {LINES}")
        await here.press("pagedown", "k", "j", "0")
        assert here.position == (2 * LINES - 1, 0)
        await here.press("up")
        assert "l" in here.marked


async def test_what_is_read_stays_where_it_is_while_output_goes_on() -> None:
    async with reading(FIFTY) as here:
        here.view.read()
        before = shown(here.view)[:-1]
        await here.feed(b"news\r\n" * 30)
        assert shown(here.view)[:-1] == before
        assert here.position == (50, 0)
        await here.press("escape")
        assert shown(here.view)[-2] == "news"


async def test_keys_select_and_copy_from_a_mark_to_the_pointer() -> None:
    async with reading(b"alpha beta\r\ngamma delta\r\n") as here:
        here.view.read()
        await here.press("home", *("right",) * 6, "space", "down", "left", "left", "y")
        assert here.app.copied == ["beta\ngamma"]
        assert here.view.selected_text == "beta\ngamma"
        await here.press("escape")
        assert here.view.selected_text == ""
        assert here.view.reader is not None, "the selection goes first"
        await here.press("escape")
        assert here.view.reader is None


async def test_whole_lines_are_selected_wherever_in_them_the_pointer_is() -> None:
    async with reading(b"alpha beta\r\ngamma delta\r\nepsilon\r\n") as here:
        here.view.read()
        await here.press("home", "l", "l", "V", "j", "y")
        assert here.app.copied == ["alpha beta\ngamma delta"]
        await here.press("k", "k", "y")
        assert here.app.copied[-1] == "alpha beta"
        await here.press("space", "y")
        assert here.app.copied[-1] == "alpha beta", "the mark is gone, what was selected is not"


async def test_nothing_is_copied_that_was_not_selected() -> None:
    async with reading(b"alpha\r\n") as here:
        here.view.read()
        await here.press("y", "c")
        assert here.app.copied == []


async def test_text_can_be_selected_by_mouse_from_a_program_that_has_the_mouse() -> None:
    async with reading(b"\x1b[?1002;1006halpha beta") as here:
        assert not here.view.allow_select
        here.view.read()
        await here.pilot.mouse_down(here.view, offset=(1, 1))
        await here.pilot.hover(here.view, offset=(5, 1))
        await here.pilot.mouse_up(here.view, offset=(5, 1))
        assert here.app.copied == ["alpha"]
        assert here.app.sent() == b""


# The search


async def test_the_search_goes_to_older_matches_first_and_round() -> None:
    async with reading(FIFTY) as here:
        await here.find("line 4", "11/11")
        assert here.position == (49, 0)
        await here.press("N")
        assert (here.position, here.view.search.hits) == ((48, 0), "10/11")
        for _ in range(9):
            await here.press("N")
        assert (here.position, here.view.search.hits) == ((4, 0), "1/11")
        assert "line 4" in shown(here.view)
        await here.press("N")
        assert here.view.search.hits == "11/11"
        await here.press("n")
        assert (here.position, here.view.search.hits) == ((4, 0), "1/11")


async def test_matches_in_sight_are_marked_and_the_one_at_hand_differently() -> None:
    async with reading(b"needle and needle\r\n") as here:
        await here.find("needle", "2/2")
        await until(lambda: here.marked == ["needle", "n", "eedle"], here.pilot)
        styles = [
            segment.style.reverse
            for segment in here.view.frame.strips[0]
            if segment.style and (segment.style.underline or segment.style.reverse)
        ]
        assert styles == [None, True, True]
        here.view.search.stop()
        await until(lambda: here.marked == ["n"], here.pilot)


async def test_what_is_sought_can_be_changed_letter_by_letter() -> None:
    async with reading(b"one\r\ntwo\r\nthree\r\nfour") as here:
        for query, hits in (("t", "2/2"), ("tw", "1/1"), ("twx", "none"), ("", ""), ("T", "none"), ("o", "3/3")):
            await here.find(query, hits)
        assert here.position == (3, 1), "from where the search began"


async def test_output_that_arrives_is_sought_too_and_moves_nothing() -> None:
    async with reading(FIFTY) as here:
        await here.find("line 4", "11/11")
        await here.press("N")
        position, text = here.position, shown(here.view)[:-1]
        await here.feed(b"line 4 again\r\n" * 20)
        await until(lambda: here.view.search.hits == "10/31", here.pilot)
        assert (here.position, shown(here.view)[:-1]) == (position, text)


async def test_a_flood_while_something_is_sought_costs_a_few_searches_a_second() -> None:
    async with reading(FIFTY) as here:
        await here.find("line 4", "11/11")
        searches = 0
        finder = here.view.search.finder
        assert finder is not None
        find = finder.find

        def counted() -> object:
            nonlocal searches
            searches += 1
            return find()

        finder.find = counted  # type: ignore[method-assign, assignment]  # counts, and does the same
        began = time.monotonic()
        for _ in range(30):
            here.view.engine.feed(b"line 4\r\n" * 200)
            await here.pilot.pause(0.02)
        assert 1 <= searches <= (time.monotonic() - began) / SEARCH_AGAIN_SECONDS + 1
        await until(lambda: here.view.search.hits.endswith("/6011"), here.pilot)


async def test_the_search_key_seeks_while_older_lines_are_shown_and_is_the_programs_at_the_bottom() -> None:
    async with reading(FIFTY) as here:
        asked: list[TerminalView.FindAsked] = []
        here.view.action_ask_find = lambda: asked.append(TerminalView.FindAsked(here.view))  # type: ignore[method-assign]  # notes it
        await here.press("ctrl+f")
        assert (here.app.sent(), asked) == (b"\x06", [])
        here.view.scroll_back(5)
        await here.press("ctrl+f")
        assert here.app.sent() == b""
        assert len(asked) == 1


# What the shell reported


async def test_prompts_are_jumped_to_and_outputs_selected() -> None:
    session = b""
    for n, output in enumerate((b"", b"a\r\nb\r\n", b"c\r\n")):
        session += b"\x1b]133;A\x07$ \x1b]133;B\x07cmd%d\r\n\x1b]133;C\x07%s\x1b]133;D;%d\x07" % (n, output, n)
    session += b"\x1b]7;file://host/home/u/src\x07\x1b]133;A\x07$ "
    async with reading(session) as here:
        assert (here.view.marks.last_exit_code, here.view.marks.directory) == (2, "/home/u/src")
        here.view.read()
        places = []
        for _ in range(3):
            await here.press("left_square_bracket")
            places.append(here.position[0])
        assert places == [4, 1, 0]
        await here.press("o")
        assert here.view.selected_text == "", "it wrote nothing"
        await here.press("right_square_bracket", "o")
        assert here.view.selected_text == "a\nb"
        await here.press("right_square_bracket", "o")
        assert here.view.selected_text == "c"


async def test_another_width_forgets_places_and_selection() -> None:
    async with reading(b"\x1b]133;A\x07$ x\r\n\x1b]133;C\x07out\r\n\x1b]133;D;0\x07" + b"y" * 90) as here:
        here.view.read()
        await here.press("home", "space", "down")
        assert here.view.selected_text
        await here.pilot.resize_terminal(SIZE[0] - 7, SIZE[1])
        await until(lambda: here.view.engine.screen.columns == COLUMNS - 7, here.pilot)
        assert here.view.selected_text == ""
        assert here.view.marks.prompt_before(1_000) is None
        await here.press("up", "down", "home", "0")
        assert here.position == (0, 0)


async def test_what_is_over_can_be_read_searched_and_copied() -> None:
    async with reading(FIFTY, interactive=False) as here:
        await here.find("line 7", "1/1")
        assert here.position == (7, 0)
        await here.press("space", "$", "y")
        assert here.app.copied == ["line 7"]


def test_drawn_text_is_what_a_strip_has() -> None:
    """One coordinate system: positions in `text` are positions in the strip."""
    from tests.tui.terminal.screens import terminal
    from tests.tui.terminal.test_strips import painter

    made = terminal(12, 2, "日本 é👨‍👩‍👧 ⚠️x")
    drawn: StripPainter = painter(made)
    for row in made.screen.rows:
        assert drawn.strip(row).text.rstrip(" ") == drawn.text(row)
