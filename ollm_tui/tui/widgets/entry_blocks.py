"""Entries of the conversation as blocks: heading, text, reasoning, calls, notes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ollm_tui.core.base.escape import visible, visible_block
from ollm_tui.tui.entry_texts import is_stored
from ollm_tui.tui.styled_text import TextRole, line, lines_of
from ollm_tui.tui.terminal_references import folded_references
from ollm_tui.tui.values import AnswerEntry, CallEntry, ConfirmationQueueSnapshot, Entry, NoteEntry, NoteKind, UserEntry
from ollm_tui.tui.widgets.block_painting import Block, CodeBlock, LinesBlock, ProseBlock
from ollm_tui.tui.widgets.markdown_blocks import BlockSplitter, Code, Prose
from ollm_tui.tui.widgets.tool_call_view import call_body, call_head

if TYPE_CHECKING:
    from ollm_tui.core.bus.confirmation import Preview


@dataclass
class _Growing:
    """How far a live answer's text has been split."""

    taken: int
    splitter: BlockSplitter


@dataclass(frozen=True)
class _Waiting:
    """The cached body of a waiting call, whose clock ticks each second."""

    entry: CallEntry
    preview: Preview | None
    body: list[Block]


class EntryComposer:
    """Turns entries into blocks; knows folds, questions, and the split of live answers."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._toggled: set[str] = set()
        self._growing: dict[str, _Growing] = {}
        self._waiting: dict[str, _Waiting] = {}
        self.queue = ConfirmationQueueSnapshot()
        self.asking: frozenset[str] = frozenset()
        """Calls whose command waits for the person."""
        self.all_open = False

    def blocks_of(self, entry: Entry) -> list[Block]:
        """Return an entry's blocks."""
        if is_stored(entry) and not (isinstance(entry, CallEntry) and self.folded(entry)):
            return [LinesBlock((line(("...", TextRole.MUTED)),))]  # for as long as its text is read back
        match entry:
            case UserEntry():
                return _user_blocks(entry, folded=self.folded(entry))
            case AnswerEntry():
                return self._answer_blocks(entry)
            case CallEntry():
                return self._call_blocks(entry)
            case NoteEntry():
                return [_note_block(entry, folded=self.folded(entry))]

    def folded(self, entry: Entry) -> bool:
        """Whether only the first line shows."""
        match entry:
            case CallEntry() | AnswerEntry() | NoteEntry() | UserEntry():
                natural = not self.all_open
            case _:
                return False
        return natural != (entry.id in self._toggled)

    def toggle(self, entry: Entry) -> None:
        """Fold an entry, or open it."""
        self._toggled ^= {entry.id}

    def open_all(self, open_: bool) -> None:
        """Open or fold everything, single choices included."""
        self.all_open = open_
        self._toggled.clear()

    def forget(self) -> None:
        """Drop all state, for another conversation."""
        self._growing.clear()
        self._waiting.clear()
        self._toggled.clear()

    def _call_blocks(self, entry: CallEntry) -> list[Block]:
        question, folded = self.queue.of_call(entry.id), self.folded(entry)
        asks = entry.id in self.asking
        head = call_head(entry, folded=folded, question=question, now=self._now(), asks=asks)
        known = self._waiting.pop(entry.id, None)
        if folded:
            return [head]
        preview = entry.preview if question is None else question.details.preview
        if known is None or known.entry is not entry or known.preview is not preview:
            known = _Waiting(entry, preview, call_body(entry, preview))
        if question is not None:
            self._waiting[entry.id] = known
        return [head, *known.body]

    def _answer_blocks(self, entry: AnswerEntry) -> list[Block]:
        facts = [f"{entry.tokens} tok"] if entry.tokens is not None else []
        if entry.seconds is not None:
            facts.append(f"{entry.seconds:.1f} s")
        after = "   ".join(facts)
        head = line(
            (visible(entry.model).upper(), TextRole.ACCENT),
            (f"  {entry.time}" if entry.time else "", TextRole.MUTED),
            (f"   {after}" if after else "", TextRole.MUTED),
        )
        blocks: list[Block] = [LinesBlock((head,))]
        if entry.reasoning:
            blocks.append(_reasoning_block(entry, folded=self.folded(entry)))
        blocks += markdown_blocks(self._parts(entry))
        if entry.partial:
            blocks.append(LinesBlock((line(("[cut off here]", TextRole.WARNING)),)))
        return blocks

    def _parts(self, entry: AnswerEntry) -> list[Prose | Code]:
        growing = self._growing.get(entry.id)
        if growing is None or growing.taken > len(entry.text):
            growing = self._growing[entry.id] = _Growing(0, BlockSplitter())
        growing.splitter.feed(entry.text[growing.taken :])
        growing.taken = len(entry.text)
        tail = growing.splitter.tail
        parts = [*growing.splitter.closed, tail] if tail is not None else list(growing.splitter.closed)
        if not entry.live:
            del self._growing[entry.id]
        return parts


def markdown_blocks(parts: Iterable[Prose | Code]) -> Iterator[Block]:
    """Yield the blocks of split markdown; all but the first stand apart."""
    for index, part in enumerate(parts):
        match part:
            case Prose(text):
                yield ProseBlock(text, index > 0)
            case Code(text, language, joins):
                yield CodeBlock(text, language, index > 0 and not joins)


def _user_blocks(entry: UserEntry, *, folded: bool) -> list[Block]:
    words = "  queued" if entry.queued else f"  {entry.time}" if entry.time else ""
    head = line(("YOU", TextRole.PRIMARY), (words, TextRole.MUTED))
    text = folded_references(entry.text) if folded else entry.text
    return [LinesBlock((head, *lines_of(visible_block(text), prose=True)))]


def _reasoning_block(entry: AnswerEntry, *, folded: bool) -> Block:
    count = len(entry.reasoning.split())
    head = line((f"{'>' if folded else 'v'} reasoning  {count} words", TextRole.MUTED))
    if folded:
        return LinesBlock((head,))
    return LinesBlock(
        (head, *lines_of(visible_block(entry.reasoning.strip("\n")), TextRole.MUTED, indent=2, prose=True))
    )


def _note_block(entry: NoteEntry, *, folded: bool) -> Block:
    mark, role = {
        NoteKind.NOTICE: ("- ", TextRole.MUTED),
        NoteKind.GREETING: ("", TextRole.PLAIN),
        NoteKind.ERROR: ("! ", TextRole.ERROR),
    }[entry.kind]
    if entry.body:
        mark = "> " if folded else "v "
    rows = visible_block(entry.text).split("\n")
    if not folded and entry.body:
        rows += ["", *visible_block(entry.body).split("\n"), ""]
    blank = " " * len(mark)
    return LinesBlock(
        tuple(
            line((f"{blank if index else mark}{row}", role), hang=len(mark) + _indent(row), prose=True)
            for index, row in enumerate(rows)
        )
    )


def _indent(row: str) -> int:
    """Return where a list item's text begins: its continuations hang there."""
    found = re.match(r" *(?:\d+[.)] +|[-*] +)?", row)
    return found.end() if found else 0
