"""Links in a terminal: looked for under the mouse and the reading pointer alone, and opened from there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from textual import events, on
from textual.binding import BindingType
from textual.content import Content

from ollm_tui.tui.bindings import KeyGroup, register_keys
from ollm_tui.tui.links import (
    FileName,
    Link,
    LinkAsked,
    LinkToPrompt,
    WebLink,
    candidate_at,
    existing_file,
    hyperlink,
)
from ollm_tui.tui.terminal.canvas import TerminalCanvas
from ollm_tui.tui.terminal.command_view import CommandView
from ollm_tui.tui.terminal.emulator.terminal_modes import MouseReports
from ollm_tui.tui.terminal.reading_view import ReadingView, reading_key
from ollm_tui.tui.terminal.strips import character_at
from ollm_tui.tui.terminal.terminal_engine import TerminalEngine
from ollm_tui.tui.terminal.text_search import TextMatch, parts_of
from ollm_tui.tui.terminal.view_frame import ViewState

Position = tuple[int, int]
"""Line, numbered as in `ViewFrame`, and drawn character."""
Found = tuple[TextMatch, WebLink | FileName]


@register_keys(KeyGroup.READING, 3)
class LinkView(CommandView):
    """A view that underlines the link pointed at, and asks for it to be opened."""

    BINDINGS: ClassVar[list[BindingType]] = [
        reading_key("enter", "open_link", "open_link", "Reading: open the link here, or ctrl+click it"),
        reading_key("p", "link_to_prompt", "link_to_prompt", "Reading: put the link here into the prompt"),
    ]

    def __init__(
        self, engine: TerminalEngine | None = None, *, classes: str | None = None, gutter: bool = False
    ) -> None:
        super().__init__(engine, classes=classes, gutter=gutter)
        self.folders: Callable[[], Sequence[Path]] = lambda: ()
        """Where files are that the program may name."""
        self.link: Link | None = None
        """The link that is pointed at."""
        self._under_pointer: Position | None = None
        self._seen: tuple[int, str] | None = None
        """Row and text of the line pointed at."""
        self._span: TextMatch | None = None
        self._wanted: Found | None = None
        self._looking = False

    def has_mouse(self, event: events.MouseEvent) -> bool:
        """Whether the mouse is ours: the program asked for no reports, Shift is held, or the person reads."""
        ours = not self.interactive or event.shift or self.scroll_mode or self.reader is not None
        return ours or self.modes.mouse is MouseReports.OFF

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enable the keys of links while reading."""
        if action in ("open_link", "link_to_prompt"):
            return self.reader is not None
        return super().check_action(action, parameters)

    def action_open_link(self) -> None:
        """Open the link at the pointer."""
        self._follow_pointer(LinkAsked)

    def action_link_to_prompt(self) -> None:
        """Put the link at the pointer into the prompt."""
        self._follow_pointer(LinkToPrompt)

    def _follow_pointer(self, wish: type[LinkAsked] | type[LinkToPrompt]) -> None:
        if self.reader is not None:
            self._follow(self._found_at(self.reader.position), wish)

    def _follow(self, found: Found | None, wish: type[LinkAsked] | type[LinkToPrompt]) -> None:
        """Post what the person wants with a link, once the disk has told whether it is one."""

        async def follow() -> None:
            link = None if found is None else await self._link_of(found)
            if link is None:
                self.notify("There is no link here.", markup=False)
                return
            if wish is LinkToPrompt:
                self.end_reading()
            self.post_message(wish(link))

        self.run_worker(follow(), group="follow link", exclusive=True, exit_on_error=False)

    # Under the mouse

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Underline the link under the mouse."""
        if self.reader is None:
            self._point(self._position(event) if self.has_mouse(event) else None)

    def on_leave(self) -> None:
        """Point at nothing."""
        if self.reader is None:
            self._point(None)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """Open the link that was clicked with ctrl held."""
        if not (event.ctrl and event.button == 1 and self.has_mouse(event)) or self.selected_text:
            return
        position = self._position(event)
        if position is not None:
            self._follow(self._found_at(position), LinkAsked)

    def _position(self, event: events.MouseEvent) -> Position | None:
        """Return the drawn character under the mouse."""
        row, column = event.y - self.gutter.top, event.x - self.gutter.left
        if not 0 <= row < len(self.frame.strips) or column < 0:
            return None
        return row - self.frame.row_of(0), character_at(self.frame.strips[row].text, column)

    # What is pointed at

    @on(ReadingView.ReadingChanged)
    def _reader_moved(self) -> None:
        if self.reader is not None:
            self._point(self.reader.position)

    def end_reading(self) -> None:
        """Point at nothing, and follow the program again."""
        if self.reader is not None:
            self._point(None)
        super().end_reading()

    def on_terminal_view_wake(self, message: TerminalCanvas.Wake) -> None:
        """Point at nothing once there is other text."""
        if self._under_pointer is not None and self._seen != self._place_of(self._under_pointer):
            self._point(None)

    def _place_of(self, position: Position) -> tuple[int, str]:
        return self.frame.row_of(position[0]), self.frame.line_text(position[0])

    def _point(self, position: Position | None) -> None:
        if position == self._under_pointer:
            return
        self._under_pointer = position
        self._seen = None if position is None else self._place_of(position)
        found = None if position is None else self._found_at(position)
        if found is None:
            self._wanted = None
            self._show()
        elif isinstance(found[1], WebLink):
            self._wanted = None
            self._show(found[0], found[1])
        elif found[0] == self._span:
            self._wanted = None
        else:
            self._show()
            self._wanted = found
            if not self._looking:
                self._looking = True
                self.run_worker(self._look(), group="link", exit_on_error=False)

    async def _look(self) -> None:
        """Ask the disk for the file that is pointed at, for one at a time: a folder may hang."""
        try:
            while (found := self._wanted) is not None:
                link = await self._link_of(found)
                if found is self._wanted:
                    self._wanted = None
                    self._show(found[0], link)
        finally:
            self._looking = False

    def _show(self, span: TextMatch | None = None, link: Link | None = None) -> None:
        span = None if link is None else span
        if (span, link) == (self._span, self.link):
            return
        self._span, self.link = span, link
        self.tooltip = None if link is None else Content(f"ctrl+click opens {link.words}")
        self.schedule_frame()
        if self.reader is not None:
            self.post_message(self.ReadingChanged(self))

    def _found_at(self, position: Position) -> Found | None:
        """Return what may be a link there: what the program made one comes before what looks like one."""
        line = self.frame.logical_line(position[0])
        index = line.index_of(*position)
        for start, end, uri in line.hyperlinks:
            if start <= index < end:
                target = hyperlink(uri, line.text[start:end])
                return None if target is None else (_span(line.rows, line.first, start, end), target)
        found = candidate_at(line.text, index)
        return None if found is None else (_span(line.rows, line.first, found.start, found.end), found.target)

    async def _link_of(self, found: Found) -> Link | None:
        target = found[1]
        if isinstance(target, WebLink):
            return target
        return await asyncio.to_thread(existing_file, target, tuple(self.folders()))

    def view_state(self) -> ViewState:
        """Add the link that is pointed at."""
        return replace(super().view_state(), link=self._span)


def _span(rows: Sequence[str], first: int, start: int, end: int) -> TextMatch:
    parts = parts_of(rows, first, start, end)
    return TextMatch(*parts[0], tuple(parts[1:]))
