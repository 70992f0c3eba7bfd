"""A tool call in the conversation: one line with its state, and a foldable body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ollm_tui.core.base.escape import visible, visible_block
from ollm_tui.core.bus.states import CallOutcome, CallState
from ollm_tui.tui.durations import clock_text, duration_text
from ollm_tui.tui.styled_text import StyledLine, TextRole, line, lines_of, spread
from ollm_tui.tui.values import CallEntry
from ollm_tui.tui.widgets.block_painting import Block, BlockPainter, LinesBlock, Strip
from ollm_tui.tui.widgets.call_preview import preview_lines

if TYPE_CHECKING:
    from ollm_tui.core.bus.confirmation import Preview
    from ollm_tui.core.bus.notices import Confirmation

OUTCOME_WORDS = {
    CallOutcome.OK: ("ok", TextRole.OK),
    CallOutcome.FAILED: ("FAIL", TextRole.ERROR),
    CallOutcome.DENIED: ("DENIED", TextRole.ERROR),
    CallOutcome.EXPIRED: ("EXPIRED", TextRole.ERROR),
    CallOutcome.CANCELLED: ("STOPPED", TextRole.WARNING),
}
NAME_CELLS = 12
LINE_CELLS = 90
"""On wide screens the state stays this near to the call."""
BODY_INDENT = 4
BODY_LINES = 400
CHUNK = 50


@dataclass(frozen=True)
class ToolCallHead:
    """A call's first line, always shown."""

    tool: str
    summary: str
    state: tuple[str, TextRole]
    folded: bool
    after: str

    def paint(self, painter: BlockPainter, width: int) -> list[Strip]:
        """Draw the line."""
        fold = "> " if self.folded else "v "
        left = line(
            (fold, TextRole.MUTED),
            (f"{visible(self.tool):<{NAME_CELLS - 1}} ", TextRole.STRONG),
            (visible(self.summary), TextRole.PLAIN),
        )
        right = line(self.state, (self.after, TextRole.MUTED))
        return painter.lines((spread(left, right, min(width - 1, LINE_CELLS)),), width)

    def estimate(self, width: int) -> int:
        """Return its one row."""
        return 1


def call_head(entry: CallEntry, *, folded: bool, question: Confirmation | None, now: float) -> ToolCallHead:
    """Return a call's first line; `question` is the open one, `now` monotonic seconds."""
    return ToolCallHead(entry.tool, entry.summary, state_word(entry), folded, _after(entry, question, now))


def state_word(entry: CallEntry) -> tuple[str, TextRole]:
    """Return how a call stands or ended, in one word."""
    if entry.outcome is not None:
        return OUTCOME_WORDS[entry.outcome]
    return ("WAIT", TextRole.WARNING) if entry.state is CallState.WAITING else ("RUN", TextRole.ACCENT)


def call_body(entry: CallEntry, preview: Preview | None) -> list[Block]:
    """Return what folds; `preview` shows what would happen, or happened."""
    body = _body(entry, preview)
    return [LinesBlock(tuple(body[at : at + CHUNK])) for at in range(0, len(body), CHUNK)]


def _after(entry: CallEntry, question: Confirmation | None, now: float) -> str:
    if entry.state is CallState.WAITING and question is not None:
        left = question.seconds_left(now)
        clock = "  HELD" if question.held else "" if left is None else f"  {clock_text(left)}"
        return f" #{question.ordinal}{clock}"
    words = ""
    if entry.exit_code not in (None, 0):
        words += f" exit {entry.exit_code}"
    if entry.duration_ms is not None:
        words += f"  {duration_text(entry.duration_ms)}"
    return words


def _body(entry: CallEntry, preview: Preview | None) -> list[StyledLine]:
    rows: list[StyledLine] = []
    if preview is not None:
        rows += preview_lines(preview)
    elif entry.arguments and not entry.output:
        rows += lines_of(visible_block(entry.arguments), TextRole.MUTED)
    if entry.output:
        if rows:
            rows.append(line())
        shown = lines_of(
            visible_block(entry.output), TextRole.ERROR if entry.outcome is CallOutcome.FAILED else TextRole.PLAIN
        )
        hidden = len(shown) - BODY_LINES
        if hidden > 0:
            shown[BODY_LINES // 2 : -BODY_LINES // 2] = [line((f"... {hidden} lines ...", TextRole.MUTED))]
        rows += shown
    rows += [line((f"note: {visible(note)}", TextRole.MUTED)) for note in entry.notes]
    if entry.verdict:
        rows.append(line((visible(entry.verdict), TextRole.MUTED)))
    return [_indented(one) for one in rows] or [line((" " * BODY_INDENT + "nothing to show yet", TextRole.MUTED))]


def _indented(one: StyledLine) -> StyledLine:
    return line(" " * BODY_INDENT, *((span.text, span.role) for span in one.spans), hang=one.hang + BODY_INDENT)
