"""The menu above the prompt: what may stand in place of the word before the cursor; the prompt keeps the keys."""

from __future__ import annotations

from collections.abc import Sequence

from ollm_tui.core.base.escape import visible
from ollm_tui.tui.styled_text import TextRole, line
from ollm_tui.tui.widgets.prompt_completion import Choice
from ollm_tui.tui.widgets.row_list import ListRow, RowList

MOST_ROWS = 8


class PromptMenu(RowList):
    """Rows of choices, the marked one in colour; never has the focus."""

    can_focus = False

    def __init__(self) -> None:
        super().__init__("prompt-menu")
        self._shown: tuple[Choice, ...] = ()
        self.display = False

    @property
    def marked(self) -> Choice | None:
        """The choice that Enter and Tab take, while the menu is open."""
        at = self.chosen_id
        return self._shown[int(at)] if self._shown and at else None

    def show_choices(self, choices: Sequence[Choice]) -> None:
        """Show the choices, the first marked; none closes the menu."""
        if tuple(choices) == self._shown:
            return
        self._shown = tuple(choices)
        named = [choice for choice in choices if choice.summary]
        width = max((len(choice.text) + len(choice.argument) + 2 for choice in named), default=0)
        rows: list[ListRow] = []
        for at, choice in enumerate(choices):
            summary = " " * (width - len(choice.text) - len(choice.argument)) + choice.summary
            text = line(f" {visible(choice.text)} ", (choice.argument, TextRole.ACCENT), (summary, TextRole.MUTED))
            rows.append(ListRow(str(at), (text,)))
        self.show_rows(rows)
        self.display = bool(rows)
        self.styles.height = min(len(rows), MOST_ROWS)
        self.action_move(-len(rows))

    def row_role(self, row: int) -> TextRole:
        """Mark the chosen row."""
        first, last = self.span
        return TextRole.CHOSEN if first <= row < last else TextRole.PLAIN
