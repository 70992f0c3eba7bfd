"""Widget of its own: whole questions, and which of them were seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

from ollm_tui.core.base.escape import visible
from ollm_tui.core.bus.states import ConfirmationState
from ollm_tui.tui.question_groups import subject
from ollm_tui.tui.styled_text import StyledLine, TextRole, line
from ollm_tui.tui.widgets.row_list import DoubleClickList, ListRow
from ollm_tui.tui.widgets.tool_call_view import MANY_BLANKS, argument_lines, preview_lines

if TYPE_CHECKING:
    from ollm_tui.core.bus.notices import Confirmation

INDENT = 8  # a mark and a number
"""Cells in front of what a question is about."""


class QuestionList(DoubleClickList):
    """Questions in full."""

    class Seen(Message):
        """More questions have been in sight as a whole."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.whole: set[str] = set()
        """The ids of questions whose every line has been in sight."""
        self._lines_seen: dict[str, set[int]] = {}
        """Lines seen of the others, at the current width."""

    def measure(self, width: int) -> int:
        """Wrap anew; what was seen in part at another width must be seen again."""
        if width != self.row_width:
            self._lines_seen.clear()
        return super().measure(width)

    def _check_end(self) -> None:
        """Note which lines are in sight."""
        top, height = self.scroll_offset.y, self.scrollable_content_region.height
        before = len(self.whole)
        for row_id, first, last in self.rows_between(top, top + height):
            if row_id not in self.whole:
                seen = self._lines_seen.setdefault(row_id, set())
                seen.update(range(max(first, top) - first, min(last, top + height) - first))
                if len(seen) == last - first:
                    self.whole.add(row_id)
                    del self._lines_seen[row_id]
        if len(self.whole) > before:
            self.post_message(self.Seen())


ENDED_MARKS = {
    ConfirmationState.APPROVED: ("yes ", TextRole.OK),
    ConfirmationState.DENIED: ("no  ", TextRole.ERROR),
    ConfirmationState.EXPIRED: ("late", TextRole.MUTED),
    ConfirmationState.CANCELLED: ("gone", TextRole.MUTED),
}
"""Words in place of a mark, as wide, so that rows do not move."""


def question_row(item: Confirmation, *, marked: bool, sent: bool) -> ListRow:
    """Return the row of a question with its whole effect."""
    mark = ENDED_MARKS.get(item.state)
    if mark is None:
        mark = ("... " if sent else "[x] " if marked else "[ ] ", TextRole.ACCENT if marked else TextRole.MUTED)
    head = line(
        mark,
        (f"#{item.ordinal:<3}", TextRole.MUTED),
        (visible(subject(item)), TextRole.STRONG if item.pending else TextRole.MUTED),
        hang=INDENT,
    )
    return ListRow(item.id, (head, *_effect(item)), wrap=True)


def _effect(item: Confirmation) -> list[StyledLine]:
    """Return what the first line leaves out; nothing for a plain command."""
    details, preview = item.details, item.details.preview
    lines: list[StyledLine] = []
    if preview is not None and preview.kind == "command":
        plain = len(preview.parts) <= 1 and visible(preview.command) == preview.command
        if plain and " " * MANY_BLANKS not in preview.command:
            return []
    elif preview is None or preview.kind != "diff":
        lines.append(line((visible(details.description), TextRole.MUTED)))
    lines += argument_lines(details.args) if preview is None else preview_lines(preview)
    return [
        line(" " * INDENT, *((span.text, span.role) for span in one.spans), hang=INDENT + one.hang) for one in lines
    ]
