"""Pane layout by window size, as CSS classes; no widgets."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

WIDE_COLUMNS = 100
BROAD_COLUMNS = 190
"""From here on the terminal stands beside the conversation, and each of them is wide enough."""
SMALL_COLUMNS = 60
TALL_ROWS = 30
LOW_ROWS = 16
LEAST_COLUMNS = 40
LEAST_ROWS = 10
LEAST_TERMINAL_ROWS = 5
ROWS_STEP = 2
"""Rows that one key adds to the terminal or takes from it."""


class Pane(StrEnum):
    """The panes in the order of F6 after the prompt."""

    CHAT = "chat"
    QUEUE = "queue"
    TODO = "todo"
    TERM = "term"


SIDE = frozenset({Pane.QUEUE, Pane.TODO})
MAY_BE_EMPTY = SIDE | {Pane.TERM}


@dataclass(frozen=True)
class Arrangement:
    """Size, narrow tab, zoomed pane, sidebar setting, and which panes have nothing to show."""

    columns: int = 80
    rows: int = 24
    tab: Pane = Pane.CHAT
    zoomed: Pane | None = None
    sidebar: bool | None = None
    """Whether the person wants queue and todos in sight; None while neither was asked for."""
    visited: Pane | None = None
    """The pane that the person went to; it is then always visible."""
    empty: frozenset[Pane] = MAY_BE_EMPTY
    """Panes that have had nothing to show since the last message; where there are columns, they are a word each."""
    terminal_rows: int | None = None
    """Height of the terminal where it shares it; None for the usual one."""

    @property
    def wide(self) -> bool:
        """Return whether there is room for two columns."""
        return self.columns >= WIDE_COLUMNS

    @property
    def too_small(self) -> bool:
        """Return whether the window is too small to draw."""
        return self.columns < LEAST_COLUMNS or self.rows < LEAST_ROWS

    @property
    def broad(self) -> bool:
        """Return whether there is room for the terminal beside the conversation."""
        return self.columns >= BROAD_COLUMNS and self.zoomed is None

    @property
    def shares_height(self) -> bool:
        """Return whether the terminal stands below other panes."""
        return self.wide and not self.broad and self.zoomed is None

    def in_sight(self, pane: Pane) -> bool:
        """Return whether a pane is drawn."""
        if self.zoomed is not None:
            return pane is self.zoomed
        if not self.wide:
            return pane is self.tab
        match pane:
            case Pane.CHAT:
                return True
            case Pane.QUEUE | Pane.TODO:
                return self.sidebar if self.sidebar is not None else not self.empty >= SIDE or self.visited in SIDE
            case Pane.TERM:
                room = self.broad or self.rows >= TALL_ROWS
                return self.visited is Pane.TERM or (room and Pane.TERM not in self.empty)

    @property
    def closed(self) -> tuple[Pane, ...]:
        """Return the panes that are a word each since there is nothing in them."""
        if not self.wide or self.zoomed is not None:
            return ()
        hidden = SIDE if self.sidebar is False else frozenset[Pane]()
        return tuple(pane for pane in Pane if pane in self.empty - hidden and not self.in_sight(pane))

    def classes(self) -> frozenset[str]:
        """Return the CSS classes of the screen."""
        names = {"-wide" if self.wide else "-narrow"}
        if self.too_small:
            names.add("-too-small")
        if self.columns < SMALL_COLUMNS:
            names.add("-small")
        if self.rows < LOW_ROWS:
            names.add("-low")
        if self.zoomed is not None:
            names.add("-zoomed")
        if self.broad:
            names.add("-broad")
        names |= {f"-show-{pane.value}" for pane in Pane if self.in_sight(pane)}
        if not self.in_sight(Pane.CHAT):
            names.add("-chatless")
        if self.closed:
            names.add("-closed")
        if not (self.in_sight(Pane.QUEUE) or self.in_sight(Pane.TODO)):
            names.add("-sideless")
        return frozenset(names)


ALL_CLASSES = frozenset(
    {"-wide", "-narrow", "-broad", "-too-small", "-small", "-low", "-zoomed", "-chatless", "-closed", "-sideless"}
    | {f"-show-{pane.value}" for pane in Pane}
)
