"""Editor of the memory screen: any text, exactly reversible, with conflict detection."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Input, TextArea
from textual.widgets.text_area import Selection

from ollm_tui.core.base.escape import visible_block
from ollm_tui.core.memory import MemoryScope
from ollm_tui.tui.styled_text import TextRole, line
from ollm_tui.tui.values import MemoryName
from ollm_tui.tui.widgets.line_view import LongText
from ollm_tui.tui.widgets.text_box import TextBox

PART_CHARS = 50_000
"""A text area lays out its whole text several times; a longer one is edited part by part, so that no key waits."""

_WRAPPED_LINE = 5_000
"""Longer lines are not wrapped: that takes seconds for each key."""

CHANGED = "Changed elsewhere while you edit. Nothing is lost: ^T shows the other text, ^S saves yours over it."
GONE = "Deleted elsewhere while you edit. Nothing is lost: ^S saves yours again."


class SafeArea(TextArea):
    """Text area with sanitized pastes; reports keys that lead beyond its part."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+home", "to_edge(-1)", "Top", show=False),
        Binding("ctrl+end", "to_edge(1)", "End", show=False),
    ]

    @dataclass
    class Beyond(Message):
        """A key leads out of this part: to the next (1) or the one before (-1), or all the way `to_the_end`."""

        step: int
        to_the_end: bool = False

    def action_to_edge(self, step: int) -> None:
        """Go to the beginning or end of the text."""
        self.move_cursor((0, 0) if step < 0 else self.document.end)
        self.post_message(self.Beyond(step, to_the_end=True))

    def action_cursor_up(self, select: bool = False) -> None:
        """Move up, into the part before at the top."""
        before = self.selection
        super().action_cursor_up(select)
        self._look_beyond(before, -1)

    def action_cursor_down(self, select: bool = False) -> None:
        """Move down, into the next part at the bottom."""
        before = self.selection
        super().action_cursor_down(select)
        self._look_beyond(before, 1)

    def action_cursor_page_up(self) -> None:
        """Move a page up, into the part before at the top."""
        before = self.selection
        super().action_cursor_page_up()
        self._look_beyond(before, -1)

    def action_cursor_page_down(self) -> None:
        """Move a page down, into the next part at the bottom."""
        before = self.selection
        super().action_cursor_page_down()
        self._look_beyond(before, 1)

    def _look_beyond(self, before: Selection, step: int) -> None:
        if self.selection == before:  # the key could not move the cursor: this part ends here
            self.post_message(self.Beyond(step))

    async def _on_paste(self, event: events.Paste) -> None:
        # Textual runs the handler of the base class next.
        event.text = written_out(event.text.replace("\r\n", "\n").replace("\r", "\n"))


class MemoryEditor(Vertical):
    """Holds what the text was when editing began; `expected` moves on when a change elsewhere was shown."""

    class PartShown(Message):
        """Another part of a long text is edited now."""

    def __init__(self, name: MemoryName | None, scope: MemoryScope, stored: str | None, editable: Editable) -> None:
        """`name` None asks for the key of a new memory of `scope`."""
        super().__init__(id="memory-editor")
        self.expected = stored
        self._memory = name
        self._scope = scope
        self._editable = editable
        self._parts = parts_of(editable.text)
        self._at = 0
        self._touched = False
        self._theirs: str | None = None
        self._key = Input(placeholder="Key, one line: what it is about", id="memory-key", compact=True)
        self._area = SafeArea(
            self._parts[0],
            id="memory-area",
            compact=True,
            soft_wrap=_may_wrap(self._parts[0]),
            show_line_numbers=True,
            tab_behavior="indent",
        )
        self._area.cursor_blink = self._key.cursor_blink = False
        self._other = LongText("memory-other")
        self._said = TextBox("memory-conflict")

    def compose(self) -> ComposeResult:
        """Compose key, text, the other text and message."""
        if self._memory is None:
            yield self._key
        yield self._area
        yield self._other
        yield self._said

    def on_mount(self) -> None:
        """Focus the text, or the key of a new memory."""
        self._other.display = self._said.display = False
        (self._area if self._memory is not None else self._key).focus()

    @property
    def title(self) -> str:
        """Return what is edited, in words."""
        if self._memory is None:
            return "New memory" if self._scope is MemoryScope.WORKSPACE else "New memory, for all your workspaces"
        count = len(self._parts)
        part = f"  part {self._at + 1} of {count}, lines {self._first_line} on" if count > 1 else ""
        return f"Edit {self._memory.key}  {self._memory.scope.value}{part}"

    @property
    def memory(self) -> MemoryName | None:
        """Return the edited memory; None while a new one has no key."""
        key = self._key.value
        return self._memory or (MemoryName(key, self._scope) if key.strip() else None)

    async def value(self) -> str:
        """Return the text to save."""
        self._keep_part()
        return await asyncio.to_thread(self._editable.read_back, "".join(self._parts))

    @property
    def touched(self) -> bool:
        """Return whether leaving would lose something."""
        self._keep_part()
        return self._touched or bool(self._key.value)

    @property
    def conflicting(self) -> bool:
        """Return whether a change made elsewhere is still unresolved."""
        return self._said.display

    def ask_for_key(self) -> None:
        """Focus the key input."""
        self._key.focus()

    def show_conflict(self, stored: str | None) -> None:
        """Show a change made elsewhere; the next save expects that text."""
        self.expected = self._theirs = stored
        self._said.display = True
        self._said.show_lines([line((CHANGED if stored is not None else GONE, TextRole.WARNING), prose=True)])
        if stored is None:
            self.show_theirs(shown=False)

    def show_theirs(self, *, shown: bool | None = None) -> None:
        """Switch between the stored text and the edited one."""
        wanted = not self._other.display if shown is None else shown
        if self._theirs is None and wanted:
            return
        self._other.display, self._area.display = wanted, not wanted
        if wanted:
            self._other.show_text(self._theirs or "")
            self._other.focus()
        else:
            self._area.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Go on from the key to the text."""
        event.stop()
        self._area.focus()

    @on(SafeArea.Beyond)
    def _go_beyond(self, event: SafeArea.Beyond) -> None:
        event.stop()
        last = len(self._parts) - 1
        part = (0 if event.step < 0 else last) if event.to_the_end else max(0, min(last, self._at + event.step))
        if part == self._at:
            return
        self._keep_part()
        self._at = part
        self._area.soft_wrap = _may_wrap(self._parts[part])
        self._area.text = self._parts[part]
        at_end = (event.step > 0) == event.to_the_end
        self._area.move_cursor(self._area.document.end if at_end else (0, 0))
        self.post_message(self.PartShown())

    def _keep_part(self) -> None:
        text = self._area.text
        if text != self._parts[self._at]:
            self._parts[self._at] = text
            self._touched = True

    @property
    def _first_line(self) -> int:
        return 1 + sum(part.count("\n") for part in self._parts[: self._at])


def parts_of(text: str) -> list[str]:
    """Return `text` in parts of about PART_CHARS, split between lines if possible."""
    parts: list[str] = []
    at = 0
    while len(text) - at > PART_CHARS:
        line_end = text.rfind("\n", at + PART_CHARS // 2, at + PART_CHARS) + 1
        end = line_end or at + PART_CHARS
        parts.append(text[at:end])
        at = end
    return [*parts, text[at:]]


def _may_wrap(text: str) -> bool:
    return all(len(one) <= _WRAPPED_LINE for one in text.split("\n"))


_UNSURE = re.compile(r"[^\n\t\x20-\x7e]|⟨(?=U\+)")
_WRITTEN = re.compile(r"⟨U\+([0-9A-F]{4,6})⟩")


@dataclass(frozen=True)
class Editable:
    """A text as edited; `crlf`: all its lines end as on Windows."""

    text: str
    crlf: bool = False

    @classmethod
    def of(cls, value: str) -> Editable:
        """Return a value in its editable form."""
        ends = value.count("\r\n")
        crlf = ends > 0 and ends == value.count("\n") == value.count("\r")
        return cls(written_out(value.replace("\r\n", "\n") if crlf else value), crlf)

    def read_back(self, text: str) -> str:
        """Return the value that an edited text represents."""
        value = _WRITTEN.sub(_character, text)
        return value.replace("\n", "\r\n") if self.crlf else value


def written_out(text: str) -> str:
    """Return `text` with control and invisible characters written out."""
    return _UNSURE.sub(lambda found: _drawn(found[0]), text)


@lru_cache(maxsize=4096)
def _drawn(character: str) -> str:
    # A bracket that looks like the start of an escape is escaped too, so that reading back is exact.
    safe = character != "⟨" and visible_block(character) == character
    return character if safe else f"⟨U+{ord(character):04X}⟩"


def _character(found: re.Match[str]) -> str:
    code = int(found[1], 16)
    return chr(code) if code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF else found[0]
