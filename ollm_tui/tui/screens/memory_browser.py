"""Reading half of the memory screen: list, search and text (001 R11)."""

from __future__ import annotations

from abc import abstractmethod

from textual import on
from textual.widgets import Input

from ollm_tui.core.base.escape import visible
from ollm_tui.core.memory import MemoryScope
from ollm_tui.tui.protocol.intents import ListMemories, ReadMemory
from ollm_tui.tui.screens.list_and_text import SearchedListScreen
from ollm_tui.tui.styled_text import TextRole, app_of, line
from ollm_tui.tui.values import MemoryListing, MemoryQuery, MemoryRow, MemoryText
from ollm_tui.tui.widgets.row_list import ListRow, RowList

NOTHING_KEPT = "Nothing is remembered yet. n writes a first note; the model keeps notes with its memory tool."
NOTHING_FOUND = "No memory has that in its key or text. Esc shows all again."


def list_row(row: MemoryRow) -> ListRow:
    """Return the two lines of a memory in the list."""
    scope_role = TextRole.ACCENT if row.name.scope is MemoryScope.USER else TextRole.MUTED
    scope = (f"  {row.name.scope.value:<9} ", scope_role)
    said = (f"looks like {row.concern}", TextRole.WARNING) if row.concern else (visible(row.first_line), TextRole.MUTED)
    beside = line((f"{size_words(row.size)}  {row.age:>6}", TextRole.MUTED))
    key = visible(row.name.key) or '""'
    return ListRow(row.name.row_id, (line((key, TextRole.STRONG)), line(scope, said)), beside)


def listed_words(listing: MemoryListing) -> str:
    """Return how many memories there are and how many are shown."""
    scope = f" of {listing.query.scope.value}" if listing.query.scope else ""
    kind = "found" if listing.query.containing else "remembered"
    shown = f", the first {len(listing.rows)} shown" if listing.total > len(listing.rows) else ""
    return f"{listing.total} {kind}{scope}{shown}"


def size_words(size: int) -> str:
    """Return a size in bytes with its unit."""
    if size < 1_000:
        return f"{size} B"
    return f"{size / 1_000:.1f} kB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"


SCOPES: tuple[MemoryScope | None, ...] = (None, *MemoryScope)


class MemoryBrowser(SearchedListScreen):
    """List and text of memories; read only."""

    TITLE_TEXT = "Memory"
    SEARCH = "Search keys and texts"
    FIRST_TEXT = ""

    def __init__(self, containing: str) -> None:
        super().__init__("memory", containing)
        self._query = MemoryQuery(containing)
        self._listing: MemoryListing | None = None
        self._text: MemoryText | None = None

    @abstractmethod
    def _draw(self) -> None:
        """Draw titles and keys."""

    @on(Input.Changed, "#list-search")
    def _searched(self, event: Input.Changed) -> None:
        self._ask(MemoryQuery(event.value, self._query.scope))

    @on(RowList.Moved)
    def _read_marked(self) -> None:
        marked = self._marked
        if marked is None:
            self._text = None
            empty = "" if self._listing is None else NOTHING_FOUND if self._query.containing else NOTHING_KEPT
            self._shown.show_text(empty, role=TextRole.MUTED)
        elif self._text is None or self._text.name != marked.name:
            self.post_message(ReadMemory(marked.name))

    @on(RowList.Opened)
    def _opened(self, event: RowList.Opened) -> None:
        event.stop()
        self._read_marked()
        self._shown.focus()

    def action_scope(self) -> None:
        """List the next scope."""
        following = SCOPES[(SCOPES.index(self._query.scope) + 1) % len(SCOPES)]
        self._ask(MemoryQuery(self._query.containing, following))

    def action_copy(self) -> None:
        """Copy the text to the clipboard."""
        if self._text is not None and self._text.value is not None:
            app_of(self).copy_to_clipboard(self._text.value)
            self.say(f"{len(self._text.value):,} characters copied.", TextRole.OK)
            self._draw()

    def _ask(self, query: MemoryQuery) -> None:
        if query != self._query:
            self._query = query
            self.post_message(ListMemories(query))

    @property
    def _marked(self) -> MemoryRow | None:
        rows = self._listing.rows if self._listing is not None else ()
        return next((row for row in rows if row.name.row_id == self._rows.chosen_id), None)
