"""Pane layout by window size, as CSS classes; no widgets."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

WIDE_COLUMNS = 100
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


@dataclass(frozen=True)
class Arrangement:
    """Size, narrow tab, zoomed pane and sidebar setting."""

    columns: int = 80
    rows: int = 24
    tab: Pane = Pane.CHAT
    zoomed: Pane | None = None
    sidebar: bool = True
    in_terminal: bool = False
    """Whether the terminal has the focus; it is then always visible."""
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
    def shares_height(self) -> bool:
        """Return whether the terminal stands below other panes."""
        return self.wide and self.zoomed is None

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
                return self.sidebar
            case Pane.TERM:
                return self.rows >= TALL_ROWS or self.in_terminal

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
        names |= {f"-show-{pane.value}" for pane in Pane if self.in_sight(pane)}
        if not self.in_sight(Pane.CHAT):
            names.add("-chatless")
        if not (self.in_sight(Pane.QUEUE) or self.in_sight(Pane.TODO)):
            names.add("-sideless")
        return frozenset(names)


ALL_CLASSES = frozenset(
    {"-wide", "-narrow", "-too-small", "-small", "-low", "-zoomed", "-chatless", "-sideless"}
    | {f"-show-{pane.value}" for pane in Pane}
)
