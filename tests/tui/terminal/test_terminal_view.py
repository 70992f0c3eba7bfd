"""The terminal widget in a running app: what it draws, what it sends, and what it leaves to the app."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest
from rich.cells import cell_len
from rich.color import Color
from textual import events, on
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.geometry import Offset, Region
from textual.message import Message
from textual.pilot import Pilot
from textual.selection import Selection
from textual.theme import Theme
from textual.widgets import Input, Static

from ollm_tui.tui.terminal.terminal_engine import TerminalEngine
from ollm_tui.tui.terminal.terminal_view import TerminalView
from tests.tui.terminal.screens import shown

COLUMNS, LINES = 40, 10


class CountingView(TerminalView):
    """Notes which regions were asked to be drawn again."""

    def __init__(self, engine: TerminalEngine | None = None, *, interactive: bool = True, gutter: bool = False) -> None:
        super().__init__(engine, gutter=gutter)
        self.id = "terminal"
        self.interactive = interactive
        self.refreshed: list[tuple[Region, ...]] = []

    def refresh(self, *regions: Region, **options: bool) -> CountingView:
        if self.is_mounted and not options.get("layout"):
            self.refreshed.append(regions)
        return super().refresh(*regions, **options)  # type: ignore[return-value]  # Self of the base class


class Host(App[None]):
    """An app as the dashboard is one: priority keys of its own, handed over while a terminal captures keys."""

    CSS = "CountingView { border: round red; } Input { height: 1; border: none; }"
    BINDINGS = [  # noqa: RUF012  # as Textual declares it
        Binding("f6", "note('f6')", priority=True),
        Binding("f8", "note('f8')", priority=True),
        Binding("f1", "note('f1')"),
    ]

    def __init__(self, view: CountingView) -> None:
        super().__init__()
        self.view = view
        self.messages: list[Message] = []
        self.noted: list[str] = []
        self.copied: list[str] = []

    def compose(self) -> ComposeResult:
        yield self.view
        yield Input()
        yield Static(id="title", markup=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if isinstance(self.focused, TerminalView) and self.focused.captures_keys:
            return parameters == ("f8",) if action == "note" else action not in ("quit", "command_palette")
        return True

    def action_note(self, what: str) -> None:
        self.noted.append(what)

    def copy_to_clipboard(self, text: str) -> None:
        self.copied.append(text)

    @on(TerminalView.Input)
    @on(TerminalView.DeviceReply)
    @on(TerminalView.Resized)
    @on(TerminalView.TitleChanged)
    @on(TerminalView.Bell)
    @on(TerminalView.Reported)
    @on(TerminalView.Scrolled)
    def keep(self, message: Message) -> None:
        self.messages.append(message)
        if isinstance(message, TerminalView.TitleChanged):
            self.query_one("#title", Static).update(message.title)

    def of(self, kind: type[Message]) -> list[Message]:
        return [message for message in self.messages if isinstance(message, kind)]

    def sent(self) -> bytes:
        """All bytes for the program since the last call."""
        bytes_for_it = (TerminalView.Input, TerminalView.DeviceReply)
        data = b"".join(message.data for message in self.messages if isinstance(message, bytes_for_it))
        self.messages = [message for message in self.messages if not isinstance(message, bytes_for_it)]
        return data


def host(engine: TerminalEngine | None = None, *, interactive: bool = True, gutter: bool = False) -> Host:
    return Host(CountingView(engine, interactive=interactive, gutter=gutter))


SIZE = (COLUMNS + 2, LINES + 4)


async def until(condition: Callable[[], object], pilot: Pilot[None], timeout: float = 20.0) -> None:
    """Wait for `condition()`; the test fails when it does not come."""
    end = asyncio.get_running_loop().time() + timeout
    while not condition():
        assert asyncio.get_running_loop().time() < end, "it did not happen in time"
        await pilot.pause(0.01)


async def drawn(view: TerminalView, pilot: Pilot[None]) -> None:
    """Wait until everything that was fed is on the screen."""
    await until(lambda: not view.engine.wake_pending, pilot)
    await pilot.pause()


async def test_output_fed_by_another_thread_appears() -> None:
    app = host()
    async with app.run_test(size=SIZE) as pilot:
        threading.Thread(target=app.view.engine.feed, args=("héllo\r\n日本 ok".encode(),)).start()
        await until(lambda: shown(app.view)[:2] == ["héllo", "日本 ok"], pilot)
        assert app.view.engine.screen.columns == COLUMNS
        assert app.view.engine.screen.lines == LINES


async def test_every_line_is_exactly_as_wide_as_the_screen() -> None:
    app = host()
    lines = ["⚠️|", "👨‍👩‍👧|", "👍🏽|", "🇫🇷|", "日本|", "q\u0301\u0302|", "\xad|", "\U0001f1eb|", "각|"]
    async with app.run_test(size=SIZE) as pilot:
        app.view.engine.feed("\r\n".join(lines).encode())
        await until(lambda: shown(app.view)[8] == "각|", pilot)
        for strip in app.view.frame.strips:
            assert strip.cell_length == COLUMNS
            assert cell_len(strip.text) == COLUMNS
        bars = [cell_len(line[: line.index("|")]) for line in shown(app.view)[:9]]
        assert bars == [1, 2, 2, 2, 4, 1, 1, 1, 2]


async def test_a_key_echo_redraws_one_line_and_rest_redraws_nothing() -> None:
    app = host()
    async with app.run_test(size=SIZE) as pilot:
        app.view.engine.feed(b"one\r\ntwo\r\n$ ")
        await until(lambda: shown(app.view)[2] == "$", pilot)
        await drawn(app.view, pilot)
        app.view.refreshed.clear()
        app.view.engine.feed(b"x")
        await until(lambda: shown(app.view)[2] == "$ x", pilot)
        assert app.view.refreshed == [(Region(0, 2, COLUMNS, 1),)]
        app.view.refreshed.clear()
        await pilot.pause(0.25)
        assert app.view.refreshed == []
        assert app.view.frames.timer is None


async def test_a_flood_is_drawn_at_most_thirty_times_a_second() -> None:
    app = host()
    async with app.run_test(size=SIZE) as pilot:
        await drawn(app.view, pilot)
        app.view.refreshed.clear()
        loop = asyncio.get_running_loop()
        start = loop.time()

        def flood() -> None:
            for number in range(600):
                app.view.engine.feed(f"{number}\r\n".encode() * 20)

        thread = threading.Thread(target=flood)
        thread.start()
        await until(lambda: not thread.is_alive(), pilot)
        await until(lambda: "599" in shown(app.view), pilot)
        frames = len(app.view.refreshed)
        assert 1 <= frames <= (loop.time() - start) * 30 + 2


async def test_lines_that_only_scrolled_are_not_made_anew() -> None:
    app = host()
    async with app.run_test(size=SIZE) as pilot:
        app.view.engine.feed(b"".join(b"\x1b[31mrow %d\x1b[m\r\n" % n for n in range(LINES)))
        await until(lambda: "row 9" in shown(app.view), pilot)
        before = app.view.engine.screen.rows[3].drawn
        app.view.engine.feed(b"\r\n")
        await until(lambda: shown(app.view)[0] == "row 2", pilot)
        assert before is not None
        assert app.view.engine.screen.rows[2].drawn is before


async def test_a_synchronised_update_is_not_shown_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ollm_tui.tui.terminal.view_frame.SYNC_SECONDS", 1.0)
    app = host()
    async with app.run_test(size=SIZE) as pilot:
        app.view.engine.feed(b"old")
        await until(lambda: shown(app.view)[0] == "old", pilot)
        app.view.engine.feed(b"\x1b[?2026h\x1b[2J\x1b[Hhalf")
        await pilot.pause(0.05)
        assert shown(app.view)[0] == "old"
        app.view.engine.feed(b" and half\x1b[?2026l")
        await until(lambda: shown(app.view)[0] == "half and half", pilot)
        app.view.engine.feed(b"\x1b[?2026h\r\x1b[Knever ended")
        await until(lambda: shown(app.view)[0] == "never ended", pilot)


async def test_the_program_gets_every_key_but_two() -> None:
    app = host()
    async with app.run_test(size=SIZE) as pilot:
        app.view.focus()
        await pilot.pause()
        app.sent()
        keys = [
            "a",
            "space",
            "enter",
            "tab",
            "shift+tab",
            "escape",
            "ctrl+c",
            "ctrl+q",
            "ctrl+p",
            "ctrl+z",
            "up",
            "f1",
            "f6",
            "f10",
        ]
        await pilot.press(*keys)
        expected = b"a \r\t\x1b[Z\x1b\x03\x11\x10\x1a\x1b[A\x1bOP\x1b[17~\x1b[21~"
        assert app.sent() == expected
        await pilot.press("f8")
        assert app.sent() == b""
        assert app.noted == ["f8"]
        assert app.is_running


async def test_without_focus_the_app_has_its_keys() -> None:
    app = host()
    async with app.run_test(size=SIZE) as pilot:
        app.query_one(Input).focus()
        await pilot.pause()
        assert not app.view.captures_keys
        await pilot.press("f6", "x")
        assert app.noted == ["f6"]
        assert app.sent() == b""


async def test_answers_of_the_terminal_go_to_the_program() -> None:
    app = host()
    async with app.run_test(size=SIZE) as pilot:
        app.sent()
        app.view.engine.feed(b"\x1b[c\x1b]11;?\x07")
        await until(lambda: len(app.of(TerminalView.DeviceReply)) == 1, pilot)
        assert not app.of(TerminalView.Input), "nobody typed"
        background = app.view.rich_style.bgcolor
        assert background is not None
        levels = "/".join(f"{level:02x}{level:02x}" for level in background.get_truecolor())
        assert app.sent() == b"\x1b[?62;4;22c" + f"\x1b]11;rgb:{levels}\x1b\\".encode()


async def test_title_bell_and_reports_become_messages_and_no_title_is_markup() -> None:
    app = host()
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        app.view.engine.feed(b"\x1b]0;[/foo] [@click=app.quit]x[/]\x07\x07\x1b]133;D;3\x07")
        await until(lambda: app.of(TerminalView.Reported), pilot)
        assert [message.title for message in app.messages if isinstance(message, TerminalView.TitleChanged)] == [
            "[/foo] [@click=app.quit]x[/]"
        ]
        assert len(app.of(TerminalView.Bell)) == 1
        assert str(app.query_one("#title", Static).render()) == "[/foo] [@click=app.quit]x[/]"


async def test_hostile_text_on_the_screen_is_text() -> None:
    app = host()
    async with app.run_test(size=SIZE) as pilot:
        app.view.engine.feed(b"[/foo] [bold]x[/] [@click=app.quit]boo[/]")
        await until(lambda: shown(app.view)[0] == "[/foo] [bold]x[/] [@click=app.quit]boo[/]"[:COLUMNS], pilot)


async def test_the_size_follows_the_widget_and_is_told_once_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ollm_tui.tui.terminal.canvas.RESIZE_SECONDS", 0.5)
    app = host()
    async with app.run_test(size=SIZE) as pilot:
        await until(lambda: app.of(TerminalView.Resized), pilot)
        app.messages.clear()
        await pilot.resize_terminal(30, 9)
        await pilot.resize_terminal(32, 11)
        await until(lambda: app.of(TerminalView.Resized), pilot)
        sizes = [
            (message.columns, message.lines) for message in app.messages if isinstance(message, TerminalView.Resized)
        ]
        assert sizes == [(30, 7)]
        assert (app.view.engine.screen.columns, app.view.engine.screen.lines) == (30, 7)
        assert all(strip.cell_length == 30 for strip in app.view.frame.strips)


async def test_the_sixteen_colours_come_from_the_theme() -> None:
    app = host()
    async with app.run_test(size=SIZE) as pilot:
        for name, red in (("one", "#aa0001"), ("two", "#bb0002")):
            theme = Theme(name, primary="#336699", variables={"ansi-red": red, "ansi-bright-green": "#00ff77"})
            app.register_theme(theme)
            app.theme = name
            await pilot.pause()
            app.view.engine.feed(b"\x1bc\x1b[31mred\x1b[92mgreen\x1b[38;5;196mfixed\x1b[38;2;1;2;3mtrue")
            await until(lambda red=red: _colours(app.view)[:1] == [Color.parse(red)], pilot)
            assert _colours(app.view)[1:] == [Color.parse("#00ff77"), Color.from_ansi(196), Color.from_rgb(1, 2, 3)]


def _colours(view: TerminalView) -> list[Color | None]:
    segments = [segment for segment in view.frame.strips[0] if segment.text.strip() and segment.style]
    return [segment.style.color for segment in segments if segment.style is not None]


async def test_the_cursor_is_drawn_where_it_stands() -> None:
    app = host()
    async with app.run_test(size=SIZE) as pilot:
        app.view.focus()
        await pilot.pause()
        app.view.engine.feed("a日b\x1b[1;2H".encode())
        await until(lambda: _reversed(app.view) == ["日"], pilot)
        app.view.engine.feed(b"\x1b[1;1H")
        await until(lambda: _reversed(app.view) == ["a"], pilot)
        app.view.engine.feed(b"\x1b[2;5H")
        await until(lambda: _reversed(app.view) == [" "], pilot)
        app.view.engine.feed(b"\x1b[?25l")
        await until(lambda: _reversed(app.view) == [], pilot)


def _reversed(view: TerminalView) -> list[str]:
    return [segment.text for strip in view.frame.strips for segment in strip if segment.style and segment.style.reverse]


# Scrolling


async def test_the_wheel_and_page_keys_move_in_the_scrollback_and_typing_returns() -> None:
    app = host()
    async with app.run_test(size=SIZE) as pilot:
        app.view.focus()
        app.view.engine.feed(b"".join(b"line %d\r\n" % n for n in range(50)))
        await until(lambda: "line 49" in shown(app.view), pilot)
        app.sent()
        app.view.post_message(_mouse(events.MouseScrollUp, app.view, 3, 3))
        await until(lambda: app.view.frame.back, pilot)
        assert shown(app.view)[0] == "line 38"
        await pilot.press("pageup")
        assert shown(app.view)[0] == "line 29"
        app.view.engine.feed(b"more\r\n")
        await drawn(app.view, pilot)
        assert shown(app.view)[0] == "line 29"
        await pilot.press("pagedown", "up", "home")
        assert shown(app.view)[0] == "line 0"
        assert app.sent() == b""
        await pilot.press("x")
        assert not app.view.frame.back
        assert app.sent() == b"x"
        assert shown(app.view)[-2] == "more"
        scrolled = [message.lines for message in app.messages if isinstance(message, TerminalView.Scrolled)]
        assert scrolled[0] == 3
        assert scrolled[-1] == 0


async def test_page_keys_belong_to_the_program_at_the_bottom() -> None:
    app = host()
    async with app.run_test(size=SIZE) as pilot:
        app.view.focus()
        app.view.engine.feed(b"x\r\n" * 50)
        await drawn(app.view, pilot)
        app.sent()
        await pilot.press("pageup", "end")
        assert app.sent() == b"\x1b[5~\x1b[F"


async def test_the_wheel_sends_arrows_to_a_full_screen_program() -> None:
    app = host()
    async with app.run_test(size=SIZE) as pilot:
        app.view.engine.feed(b"\x1b[?1049h")
        app.sent()
        app.view.post_message(_mouse(events.MouseScrollDown, app.view, 3, 3))
        await until(lambda: app.of(TerminalView.Input), pilot)
        assert app.sent() == b"\x1b[B" * 3


# Mouse and selection


def _mouse(
    kind: type[events.MouseEvent], view: TerminalView, x: int, y: int, *, button: int = 0, shift: bool = False
) -> events.MouseEvent:
    region = view.region
    return kind(view, x, y, 0, 0, button, shift, False, False, region.x + x, region.y + y)


async def test_the_program_gets_mouse_reports_inside_the_border() -> None:
    app = host()
    async with app.run_test(size=SIZE) as pilot:
        app.view.engine.feed(b"\x1b[?1002;1006h")
        assert not app.view.allow_select
        app.sent()
        await pilot.mouse_down(app.view, offset=(5, 3))
        await pilot.hover(app.view, offset=(7, 3))
        await pilot.mouse_up(app.view, offset=(7, 3))
        assert app.sent() == b"\x1b[<0;5;3M\x1b[<32;7;3M\x1b[<0;7;3m"
        app.view.post_message(_mouse(events.MouseScrollUp, app.view, 5, 3))
        await until(lambda: app.of(TerminalView.Input), pilot)
        assert app.sent() == b"\x1b[<64;5;3M"
        await pilot.mouse_down(app.view, offset=(5, 3), shift=True)
        assert app.sent() == b""


async def test_a_selection_has_the_text_without_border_and_joins_broken_lines() -> None:
    app = host()
    async with app.run_test(size=SIZE) as pilot:
        app.view.engine.feed(b"first line   \r\n" + b"x" * (COLUMNS + 5) + "\r\n日本 end".encode())
        await until(lambda: shown(app.view)[3] == "日本 end", pilot)
        assert app.view.allow_select
        selection = Selection(Offset(6, 0), Offset(4, 3))
        assert app.view.get_selection(selection) == ("line\n" + "x" * (COLUMNS + 5) + "\n日本 e", "\n")
        app.view.engine.feed(b"\r\n" * LINES)
        await drawn(app.view, pilot)
        assert app.view.get_selection(selection) == ("line\n" + "x" * (COLUMNS + 5) + "\n日本 e", "\n")


async def test_dragging_selects_and_the_selection_is_seen() -> None:
    app = host()
    async with app.run_test(size=SIZE) as pilot:
        app.view.engine.feed(b"alpha beta\r\ngamma delta")
        await until(lambda: shown(app.view)[1] == "gamma delta", pilot)
        await pilot.mouse_down(app.view, offset=(7, 1))
        await pilot.hover(app.view, offset=(5, 2))
        await pilot.mouse_up(app.view, offset=(5, 2))
        await until(lambda: app.copied == ["beta\ngamma"], pilot)
        await drawn(app.view, pilot)
        assert app.screen.get_selected_text() == "beta\ngamma"
        style = app.screen.get_component_rich_style("screen--selection")
        marked = [
            segment
            for strip in app.view.frame.strips
            for segment in strip
            if segment.style and segment.style.bgcolor == style.bgcolor
        ]
        assert "".join(segment.text for segment in marked).split() == ["beta", "gamma"]
        assert all(segment.style and segment.style.color != segment.style.bgcolor for segment in marked)


# Paste, focus, clipboard, views without a program


async def test_a_paste_is_made_safe_and_bracketed_on_request() -> None:
    app = host()
    async with app.run_test(size=SIZE) as pilot:
        app.view.focus()
        app.view.engine.feed(b"\x1b[?2004h")
        await pilot.pause()
        app.sent()
        app.view.post_message(events.Paste("a\x1b[201~\nb"))
        await until(lambda: app.of(TerminalView.Input), pilot)
        assert app.sent() == b"\x1b[200~a[201~\rb\x1b[201~"


async def test_focus_changes_are_reported_where_asked_for() -> None:
    app = host()
    async with app.run_test(size=SIZE) as pilot:
        app.view.engine.feed(b"\x1b[?1004h")
        app.query_one(Input).focus()
        await pilot.pause()
        app.sent()
        app.view.focus()
        await pilot.pause()
        app.query_one(Input).focus()
        await pilot.pause()
        assert app.sent() == b"\x1b[I\x1b[O"


async def test_a_clipboard_write_needs_permission() -> None:
    app = host()
    async with app.run_test(size=SIZE) as pilot:
        app.view.engine.feed(b"\x1b]52;c;aGk=\x07")
        await drawn(app.view, pilot)
        assert app.copied == []
        app.view.engine.screen.allow_clipboard = True
        app.view.engine.feed(b"\x1b]52;c;aGk=\x07")
        await until(lambda: app.copied == ["hi"], pilot)
        app.view.engine.feed(b"\x1b]52;c;" + b"eHh4" * 40_000 + b"\x07")
        app.view.engine.feed(b"".join(b"\x1b]52;c;eA==\x07" for _ in range(200)) + b"\x1b]52;c;?\x07\x1b]52;c;eW8=\x07")
        await until(lambda: app.copied[-1] == "yo", pilot)
        assert app.copied == ["hi", "yo"], "what is too long is dropped, and of many at once the last one counts"
        assert app.sent() == b"", "and what is on the clipboard is told to nobody"


async def test_a_view_without_a_program_scrolls_and_leaves_the_keys_to_the_app() -> None:
    engine = TerminalEngine(COLUMNS, LINES)
    engine.feed(b"".join(b"line %d\r\n" % n for n in range(50)))
    app = host(engine, interactive=False)
    async with app.run_test(size=SIZE) as pilot:
        app.view.focus()
        await pilot.pause()
        assert not app.view.captures_keys
        await pilot.press("pageup")
        assert shown(app.view)[0] == "line 32"
        await pilot.press("a", "f1", "f6")
        assert app.sent() == b""
        assert app.noted == ["f1", "f6"]


async def test_an_engine_outlives_its_view() -> None:
    engine = TerminalEngine(COLUMNS, LINES)
    app = host(engine)
    async with app.run_test(size=SIZE) as pilot:
        engine.feed(b"kept")
        await until(lambda: shown(app.view)[0] == "kept", pilot)
        await app.view.remove()
        engine.feed(b" on")
        assert (engine.on_wake, engine.on_event, engine.on_reply) == (None, None, None)
        second = CountingView(engine)
        app.view = second
        await app.mount(second)
        await until(lambda: shown(second)[:1] == ["kept on"], pilot)


async def test_a_hidden_view_draws_nothing_and_is_up_to_date_when_shown() -> None:
    app = host()
    async with app.run_test(size=SIZE) as pilot:
        app.view.engine.feed(b"one")
        await until(lambda: shown(app.view)[0] == "one", pilot)
        app.view.display = False
        await pilot.pause(0.1)
        app.view.engine.feed(b" two")
        app.view.engine.feed(b" three")
        await pilot.pause(0.1)
        assert shown(app.view)[0] == "one"
        app.view.display = True
        await until(lambda: shown(app.view)[0] == "one two three", pilot)
        app.view.engine.feed(b" four")
        await until(lambda: shown(app.view)[0] == "one two three four", pilot)


async def test_a_program_that_ended_takes_its_cursor_and_the_keys_with_it() -> None:
    app = host()
    async with app.run_test(size=SIZE) as pilot:
        app.view.focus()
        app.view.engine.feed(b"$ ")
        await until(lambda: len(_reversed(app.view)) == 1, pilot)
        app.view.interactive = False
        await until(lambda: _reversed(app.view) == [], pilot)
        assert not app.view.captures_keys
