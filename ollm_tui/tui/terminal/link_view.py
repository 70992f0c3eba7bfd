"""Links in a terminal, found under the mouse and the reading pointer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from textual import events, on
from textual.binding import BindingType

from ollm_tui.tui.bindings import KeyGroup, register_keys
from ollm_tui.tui.links import FileName, LinkPointer, LinkToPrompt, WebLink, candidate_at, hyperlink
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
        self.links: LinkPointer[TextMatch] = LinkPointer(self, self._link_changed)
        self._under_pointer: Position | None = None
        self._seen: tuple[int, str] | None = None
        """Row and text of the line pointed at."""

    def has_mouse(self, event: events.MouseEvent) -> bool:
        """Whether the mouse is ours: the program asked for no reports, Shift is held, or the person reads."""
        ours = not self.interactive or event.shift or self.frame.back > 0 or self.reader is not None
        return ours or self.engine.input_modes.mouse is MouseReports.OFF

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enable the keys of links while reading."""
        if action in ("open_link", "link_to_prompt"):
            return self.reader is not None
        return super().check_action(action, parameters)

    def action_open_link(self) -> None:
        """Open the link at the pointer."""
        if self.reader is not None:
            self.links.follow(_target(self._found_at(self.reader.position)))

    def action_link_to_prompt(self) -> None:
        """Put the link at the pointer into the prompt."""
        if self.reader is not None:
            self.links.follow(_target(self._found_at(self.reader.position)), LinkToPrompt)

    @on(LinkToPrompt)
    def _leave_for_prompt(self) -> None:
        self.end_reading()

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
            self.links.follow(_target(self._found_at(position)))

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
        self.links.point(*(found or (None, None)))

    def _link_changed(self) -> None:
        self.frames.schedule()
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

    def view_state(self) -> ViewState:
        """Add the link that is pointed at."""
        return replace(super().view_state(), link=self.links.span)


def _span(rows: Sequence[str], first: int, start: int, end: int) -> TextMatch:
    parts = parts_of(rows, first, start, end)
    return TextMatch(*parts[0], tuple(parts[1:]))


def _target(found: Found | None) -> WebLink | FileName | None:
    return None if found is None else found[1]
