"""Previews of calls as styled lines: diff, command, deletion, request or text, always whole."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from ollm_tui.core.base.escape import visible, visible_block
from ollm_tui.tui.styled_text import TAB_SIZE, StyledLine, TextRole, line, lines_of

if TYPE_CHECKING:
    from ollm_tui.core.base.results import JsonObject
    from ollm_tui.core.bus.confirmation import CommandPreview, DeletionPreview, Preview, UrlPreview
    from ollm_tui.core.files.diff import FileDiff

MANY_BLANKS = 9
"""So many blanks in a command are counted instead of drawn."""


def preview_lines(preview: Preview) -> list[StyledLine]:
    """Return what a call will do, line by line."""
    match preview.kind:
        case "diff":
            return _diff_lines(preview.diff, created=preview.created)
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
    return {"diff": "Diff", "command": "Command", "deletion": "Deletes", "url": "Request", "text": "Details"}[
        preview.kind
    ]


def _diff_lines(diff: FileDiff, *, created: bool = False) -> list[StyledLine]:
    """Return hunks with signs; a wrapped line hangs behind its sign."""
    rows: list[StyledLine] = []
    if created:
        rows.append(line(("new file", TextRole.MUTED)))
    roles = {"+": TextRole.ADDED, "-": TextRole.REMOVED}
    for hunk in diff.hunks:
        rows.append(line((hunk.header, TextRole.HUNK)))
        for one in hunk.lines:
            sign, text = one[:1], visible(one[1:].replace("\t", " " * TAB_SIZE))
            rows.append(line((f"{sign} {text}", roles.get(sign, TextRole.PLAIN)), hang=2))
    return rows or [line(("no lines change", TextRole.MUTED))]


def _command_lines(preview: CommandPreview) -> list[StyledLine]:
    """Return the exact command, then where it runs and its parts."""
    source = preview.command.split("\n")
    width = len(str(len(source)))
    rows: list[StyledLine] = []
    for number, one in enumerate(source, 1):
        text = _counted_blanks(visible(one))
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


def _counted_blanks(text: str) -> str:
    """Replace long runs of blanks, which could hide a command's end, by their count."""
    return re.sub(f" {{{MANY_BLANKS},}}", lambda run: f"⟨{len(run[0])} blanks⟩", text)
