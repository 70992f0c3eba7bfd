"""A tool call: its line, its foldable body, and its whole preview."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ollm_tui.core.base.escape import visible, visible_block
from ollm_tui.core.bus.states import CallOutcome, CallState
from ollm_tui.tui.durations import clock_text, duration_text
from ollm_tui.tui.styled_text import StyledLine, StyledSpan, TextRole, line, lines_of, spread
from ollm_tui.tui.values import CallEntry
from ollm_tui.tui.widgets.block_painting import PROSE_CELLS, Block, BlockPainter, LinesBlock, PictureBlock, Strip
from ollm_tui.tui.widgets.diff_view import diff_lines, totals

if TYPE_CHECKING:
    from ollm_tui.core.base.results import JsonObject
    from ollm_tui.core.bus.confirmation import CommandPreview, DeletionPreview, Preview, UrlPreview
    from ollm_tui.core.bus.notices import Confirmation

OUTCOME_WORDS = {
    CallOutcome.OK: ("ok", TextRole.OK),
    CallOutcome.FAILED: ("FAIL", TextRole.ERROR),
    CallOutcome.DENIED: ("DENIED", TextRole.ERROR),
    CallOutcome.EXPIRED: ("EXPIRED", TextRole.ERROR),
    CallOutcome.CANCELLED: ("STOPPED", TextRole.WARNING),
}
NAME_CELLS = 12
STATE_CELLS = 8
LEAST_RESULT_CELLS = 8
BODY_INDENT = 4
BODY_LINES = 400
CHUNK = 50
MANY_BLANKS = 9
"""So many blanks in a command are counted instead of drawn."""


@dataclass(frozen=True)
class ToolCallHead:
    """A call's first line, always shown."""

    tool: str
    summary: str
    state: tuple[str, TextRole]
    folded: bool
    after: str
    result: str = ""

    def paint(self, painter: BlockPainter, width: int) -> list[Strip]:
        """Draw the line."""
        fold = "> " if self.folded else "v "
        left = line(
            (fold, TextRole.MUTED),
            (f"{visible(self.tool):<{NAME_CELLS - 1}} ", TextRole.STRONG),
            (visible(self.summary), TextRole.PLAIN),
        )
        right = line(self.state, (self.after, TextRole.MUTED))
        shared = min(width - 1, PROSE_CELLS)
        room = shared - left.cells - right.cells - 4  # what the call is stands before what came of it
        if self.result and room >= LEAST_RESULT_CELLS:
            result = line((visible(self.result), TextRole.MUTED)).cut(room)
            right = line(*((one.text, one.role) for one in (*result.spans, StyledSpan("  "), *right.spans)))
        return painter.lines((spread(left, right, shared),), width)

    def estimate(self, width: int) -> int:
        """Return its one row."""
        return 1


def call_head(
    entry: CallEntry, *, folded: bool, question: Confirmation | None, now: float, asks: bool = False
) -> ToolCallHead:
    """Return a call's first line; `question` is the open one, `now` monotonic seconds; `asks` as in `state_word`."""
    after = " ^T" if asks and entry.outcome is None else _after(entry, question, now)
    return ToolCallHead(entry.tool, entry.summary, state_word(entry, asks=asks), folded, after, entry.result)


def state_word(entry: CallEntry, *, asks: bool = False) -> tuple[str, TextRole]:
    """Return how a call stands or ended, in one word; `asks` while its command waits for the person."""
    if entry.outcome is not None:
        return OUTCOME_WORDS[entry.outcome]
    if asks:
        return "INPUT", TextRole.WARNING
    if CallState.WAITING in (entry.state, *(step.state for step in entry.steps)):
        return "WAIT", TextRole.WARNING
    return ("WAIT", TextRole.MUTED) if entry.state is CallState.JUDGED else ("RUN", TextRole.ACCENT)


def call_body(entry: CallEntry, preview: Preview | None) -> list[Block]:
    """Return what folds; `preview` shows what would happen, or happened."""
    body = _body(entry, preview)
    blocks: list[Block] = [LinesBlock(tuple(body[at : at + CHUNK])) for at in range(0, len(body), CHUNK)]
    return [*blocks, PictureBlock(entry.picture)] if entry.picture else blocks


def _after(entry: CallEntry, question: Confirmation | None, now: float) -> str:
    if entry.state is CallState.WAITING and question is not None:
        left = question.seconds_left(now)
        clock = "  HELD" if question.held else "" if left is None else f"  {clock_text(left)}"
        return f" #{question.ordinal} F8{clock}"
    words = ""
    if entry.exit_code not in (None, 0):
        words += f" exit {entry.exit_code}"
    if entry.place is not None and entry.place.startswith("caged"):
        words += " caged"
    if entry.duration_ms is not None:
        words += f"  {duration_text(entry.duration_ms)}"
    return words


def _body(entry: CallEntry, preview: Preview | None) -> list[StyledLine]:
    rows = [_step_line(step) for step in entry.steps]
    if preview is not None:
        if preview.kind == "diff":
            rows.append(line((preview_title(preview), TextRole.MUTED)))
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
    if entry.place is not None:
        rows.append(line((f"ran {visible(entry.place)}", TextRole.MUTED)))
    if entry.verdict:
        rows.append(line((visible(entry.verdict), TextRole.MUTED)))
    return [_indented(one) for one in rows] or [line((" " * BODY_INDENT + "nothing to show yet", TextRole.MUTED))]


def _step_line(step: CallEntry) -> StyledLine:
    """Return a call of a sub-agent on one line."""
    number = f" #{step.ordinal} F8" if step.state is CallState.WAITING and step.ordinal is not None else ""
    state, role = state_word(step)
    name = (f"{visible(step.tool):<{NAME_CELLS - 1}} ", TextRole.STRONG)
    result = f"  {visible(step.result)}" if step.result else ""
    after = (number or f"{result}{_after(step, None, 0)}", TextRole.MUTED)
    return line((f"{state:<{STATE_CELLS}}", role), name, visible(step.summary), after, hang=STATE_CELLS + NAME_CELLS)


def _indented(one: StyledLine) -> StyledLine:
    spans = ((span.text, span.role) for span in one.spans)
    return line(" " * BODY_INDENT, *spans, hang=one.hang + BODY_INDENT, fill=one.fill)


def preview_lines(preview: Preview) -> Iterable[StyledLine]:
    """Return what a call will do, line by line."""
    match preview.kind:
        case "diff":
            return diff_lines(preview.diff)
        case "command":
            return _command_lines(preview)
        case "deletion":
            return _deletion_lines(preview)
        case "url":
            return _request_lines(preview)
        case "text":
            return lines_of(visible_block(preview.text))


def preview_title(preview: Preview) -> str:
    """Return the title of the preview's box."""
    if preview.kind == "diff":
        return f"{'New file' if preview.created else 'Diff'}  {totals(preview.diff)}"
    return {"command": "Command", "deletion": "Deletes", "url": "Request", "text": "Details"}[preview.kind]


def _command_lines(preview: CommandPreview) -> list[StyledLine]:
    """Return the exact command, then where it runs and its parts."""
    source = preview.command.split("\n")
    width = len(str(len(source)))
    rows: list[StyledLine] = []
    for number, one in enumerate(source, 1):
        text = counted_blanks(visible(one))
        if len(source) == 1:
            rows.append(line((text, TextRole.STRONG)))
        else:
            rows.append(line((f"{number:>{width}} ", TextRole.MUTED), (text, TextRole.STRONG), hang=width + 1))
    parts = len(preview.parts)
    facts = ["in the workspace" if preview.cwd == "." else f"in {visible(preview.cwd)}"]
    if parts > 1:
        facts.append(f"{parts} commands")
    facts.append(f"{len(preview.command)} characters")
    if len(source) > 1:
        facts.append(f"{len(source)} lines")
    rows.append(line())
    rows.append(line(("   ".join(facts), TextRole.MUTED), prose=True))
    if parts > 1:
        rows += [line(("  - ", TextRole.MUTED), visible(part), hang=4) for part in preview.parts]
    return rows


def _deletion_lines(preview: DeletionPreview) -> list[StyledLine]:
    entries = "1 entry" if preview.count == 1 else f"{preview.count} entries"
    rows = [line((f"{entries}, {_size_text(preview.total_size)}, to the trash", TextRole.STRONG))]
    rows += [
        line(("- ", TextRole.REMOVED), visible(file.path), (f"  {_size_text(file.size)}", TextRole.MUTED), hang=2)
        for file in preview.files
    ]
    hidden = preview.count - len(preview.files)
    if hidden > 0:
        rows.append(line((f"... and {hidden} more", TextRole.WARNING)))
    return rows


def _request_lines(preview: UrlPreview) -> list[StyledLine]:
    """Return a request, the host first: that a person must know."""
    rows = [
        line((f"{visible(preview.method)} to ", TextRole.MUTED), (visible(preview.host), TextRole.STRONG), hang=2),
        line(visible(preview.url), hang=2),
    ]
    if preview.scheme != "https" and not preview.on_this_machine:
        rows.append(line((f"sent as {visible(preview.scheme)}, readable on the way", TextRole.WARNING)))
    rows += [
        line((f"{visible(name)}: ", TextRole.ACCENT), visible(value), hang=2) for name, value in preview.headers.items()
    ]
    if preview.body is not None:
        rows += [line(), line((f"body, {len(preview.body)} characters:", TextRole.MUTED))]
        rows += lines_of(visible_block(preview.body), indent=2)
    return rows


def argument_lines(arguments: JsonObject) -> list[StyledLine]:
    """Return a call's arguments; texts of several lines as they are."""
    if not arguments:
        return [line(("no arguments", TextRole.MUTED))]
    rows: list[StyledLine] = []
    for name, value in arguments.items():
        shown = visible(name)
        if isinstance(value, str) and "\n" in value:
            rows.append(line((f"{shown}:", TextRole.ACCENT)))
            rows += lines_of(visible_block(value), indent=2)
        else:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            rows.append(line((f"{shown}: ", TextRole.ACCENT), visible(text), hang=2))
    return rows


def _size_text(size: int) -> str:
    """Return bytes as people read them."""
    amount = float(size)
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"


def counted_blanks(text: str) -> str:
    """Replace long runs of blanks, which could hide a command's end, by their count."""
    return re.sub(f" {{{MANY_BLANKS},}}", lambda run: f"⟨{len(run[0])} blanks⟩", text)
