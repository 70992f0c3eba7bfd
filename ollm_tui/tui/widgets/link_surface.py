"""Links in the conversation: underlined where somebody points, opened by ctrl and a click or by keys."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from ollm_tui.tui.bindings import KeyGroup, register_keys
from ollm_tui.tui.entry_texts import source_of
from ollm_tui.tui.links import (
    FileName,
    Link,
    LinkAsked,
    LinkPointer,
    WebLink,
    candidate_at,
    candidates_in,
    existing_file,
)
from ollm_tui.tui.widgets.block_painting import PROSE_CELLS
from ollm_tui.tui.widgets.conversation_layout import BlocksOf
from ollm_tui.tui.widgets.scroll_surface import GUTTER, ScrollSurface

_POINTED = Style(underline=True, bold=True)
"""Markdown's own addresses are underlined anyway."""
MOST_JOINED = 40
"""Rows before and after the one pointed at that may be one line with it."""
MOST_ROWS = 1_000
MOST_LINKS = 200
"""Of an entry, that the keys go through."""


@dataclass(frozen=True)
class RowPart:
    """Characters of a row of the document, and the text that stood there."""

    row: int
    start: int
    text: str


Parts = tuple[RowPart, ...]
Found = tuple[Parts, WebLink | FileName]


@register_keys(KeyGroup.CHAT, 2)
class LinkSurface(ScrollSurface):
    """A conversation whose addresses and `path:line` of files that exist can be opened."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l", "next_link", "Link", id="chat.next_link", tooltip="Point at the next link there", show=False),
        Binding("o", "open_link", "Open", id="chat.open_link", tooltip="Open the link, or ctrl+click it", show=False),
    ]

    class LinkPointed(Message):
        """Another link is pointed at, or none."""

    def __init__(self, blocks_of: BlocksOf, name: str) -> None:
        super().__init__(blocks_of, name)
        self.links: LinkPointer[Parts] = LinkPointer(self, self._link_changed)

    @property
    def pointed_link(self) -> Link | None:
        """The link that is pointed at and stands where it stood."""
        parts = self.links.span or ()
        return self.links.link if all(map(self._stands, parts)) else None

    def action_next_link(self) -> None:
        """Point at the next link of the marked entry, else of the last."""
        self.run_worker(self._to_next_link(opens_one=False), group="next link", exclusive=True, exit_on_error=False)

    def action_open_link(self) -> None:
        """Open the link that is pointed at, or the only one of the marked entry."""
        if (link := self.pointed_link) is not None:
            self.post_message(LinkAsked(link))
        else:
            self.run_worker(self._to_next_link(opens_one=True), group="next link", exclusive=True, exit_on_error=False)

    async def _to_next_link(self, *, opens_one: bool) -> None:
        found = self._links_of_entry()
        folders = tuple(self.links.folders())

        def existing() -> list[tuple[Parts, Link]]:
            links = ((at, one if isinstance(one, WebLink) else existing_file(one, folders)) for at, one in found)
            return [(at, link) for at, link in links if link is not None]

        links = await asyncio.to_thread(existing)
        if not links:
            self.notify("There is no link in this entry.", markup=False)
            return
        spans = [at for at, _ in links]
        span, link = links[(spans.index(self.links.span) + 1) % len(links) if self.links.span in spans else 0]
        self.links.show(span, link)
        row, height = span[0].row, self.size.height
        if not self.scroll_offset.y <= row < self.scroll_offset.y + height:
            self.following = False
            self.go_to(row - height // 2)
        if opens_one and len(links) == 1:
            self.post_message(LinkAsked(link))

    def _links_of_entry(self) -> list[Found]:
        """Return what may be links in the marked entry, else the last, as far as it is gone through."""
        index = self.chosen if self.chosen is not None else len(self.document.items) - 1
        if not 0 <= index < len(self.document.items):
            return []
        row = self.document.top_of(index)
        while self.document.measure(row, row + MOST_ROWS):
            pass  # heights were estimated
        self.update_layout()
        end = min(row + self.document.items[index].height, row + MOST_ROWS)
        found: list[Found] = []
        while row < end and len(found) < MOST_LINKS:
            rows = self._rows_of_line(row)
            found += self._links_in(rows)
            row = rows[-1][0] + 1
        return found[:MOST_LINKS]

    # Under the mouse

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Underline the link under the mouse."""
        self.links.point(*(self._found_at(event.x, event.y) or (None, None)))

    def on_leave(self) -> None:
        """Point at nothing."""
        self.links.point()

    def on_click(self, event: events.Click) -> None:
        """Open the link that was clicked with ctrl held."""
        if event.ctrl and self.text_selection is None:
            found = self._found_at(event.x, event.y)
            self.links.follow(None if found is None else found[1])

    def watch_chosen(self) -> None:
        """Point at nothing in another entry."""
        self.links.point()

    def _found_at(self, x: int, y: int) -> Found | None:
        row = y + self.scroll_offset.y
        strip = self.document.strip_at(row)
        if strip is None or x < GUTTER:
            return None
        index = len(strip.crop(0, x - GUTTER).text)
        rows = self._rows_of_line(row)
        before = sum(len(text) for at, _, text in rows if at < row)
        [(skipped, _)] = [(skipped, text) for at, skipped, text in rows if at == row]
        whole = candidate_at("".join(text for _, _, text in rows), before + index - skipped)
        if whole is not None:
            found = _parts(rows, whole.start, whole.end), whole.target
            if self._is_one(found):
                return found
        alone = candidate_at(strip.text, index)
        return None if alone is None else (_parts([(row, 0, strip.text)], alone.start, alone.end), alone.target)

    def _links_in(self, rows: list[tuple[int, int, str]]) -> Iterator[Found]:
        """Yield what may be links in rows: of all of them as one line, else of each."""
        text = "".join(part for _, _, part in rows)
        whole = [(_parts(rows, one.start, one.end), one.target) for one in candidates_in(text)]
        if all(map(self._is_one, whole)):
            yield from whole
            return
        for row in rows:
            yield from ((_parts([row], one.start, one.end), one.target) for one in candidates_in(row[2]))

    def _rows_of_line(self, row: int) -> list[tuple[int, int, str]]:
        """Return row, blanks left out and text of the rows that may be one wrapped line with this one."""
        first = last = row
        index = self.document.position_at(row).index
        while first > row - MOST_JOINED and self._may_go_on(first - 1, index):
            first -= 1
        while last < row + MOST_JOINED and self._may_go_on(last, index):
            last += 1
        rows: list[tuple[int, int, str]] = []
        for at in range(first, last + 1):
            text = self._text_of(at)
            skipped = len(text) - len(text.lstrip()) if at > first else 0  # continuations hang
            rows.append((at, skipped, text[skipped:]))
        return rows

    def _may_go_on(self, row: int, index: int) -> bool:
        """Return whether a row is full, and the next one of the same entry."""
        if cell_len(self._text_of(row)) < min(self._width, PROSE_CELLS) - 1:
            return False
        return all(self.document.position_at(at).index == index for at in (row, row + 1))

    def _is_one(self, found: Found) -> bool:
        """Return whether a link over several rows stands like that in what was drawn."""
        parts = found[0]
        if len(parts) == 1:
            return True
        entry = self.document.items[self.document.position_at(parts[0].row).index].entry
        return "".join(part.text for part in parts) in source_of(entry)

    def _text_of(self, row: int) -> str:
        strip = self.document.strip_at(row)
        return "" if strip is None else strip.text.rstrip()

    def _stands(self, part: RowPart) -> bool:
        return self._text_of(part.row)[part.start : part.start + len(part.text)] == part.text

    # Drawing

    def render_line(self, y: int) -> Strip:
        """Draw a row, with the link that is pointed at."""
        strip = super().render_line(y)
        row = y + self.scroll_offset.y
        for part in self.links.span or ():
            if part.row == row and self._stands(part):
                begin = GUTTER + cell_len(self._text_of(row)[: part.start])
                end = begin + cell_len(part.text)
                link = strip.crop(begin, end).apply_style(_POINTED)
                strip = Strip.join([strip.crop(0, begin), link, strip.crop(end)])
        return strip

    def _link_changed(self) -> None:
        self.refresh()
        self.post_message(self.LinkPointed())


def _parts(rows: list[tuple[int, int, str]], start: int, end: int) -> Parts:
    """Return where characters of joined rows stand."""
    parts: list[RowPart] = []
    begin = 0
    for row, skipped, text in rows:
        first, last = max(start - begin, 0), min(end - begin, len(text))
        if first < last:
            parts.append(RowPart(row, skipped + first, text[first:last]))
        begin += len(text)
    return tuple(parts)
