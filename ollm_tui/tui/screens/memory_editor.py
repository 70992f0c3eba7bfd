"""The editor of the memory screen: one text, its key where it is a new one, and what was changed under it."""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Input, TextArea

from ollm_tui.core.memory import MemoryScope
from ollm_tui.tui.editable import Editable, written_out
from ollm_tui.tui.ink import Ink, line
from ollm_tui.tui.memory_values import MemoryName
from ollm_tui.tui.widgets.inkbox import InkBox
from ollm_tui.tui.widgets.long_text import LongText

MOST_CHARS = 2_000_000
"""Longer texts are only shown: the text area needs its time for each key then."""

_WRAPPED_CHARS, _WRAPPED_LINE = 100_000, 5_000
"""Up to here lines are folded at the edge; laying out more of them takes too long for each key."""

CHANGED = "Changed elsewhere while you edit. Nothing is lost: ^T shows the other text, ^S saves yours over it."
GONE = "Deleted elsewhere while you edit. Nothing is lost: ^S saves yours again."


class SafeArea(TextArea):
    """A text area into which a paste brings nothing that the screen would obey."""

    async def _on_paste(self, event: events.Paste) -> None:
        # Textual runs the base's handler next.
        event.text = written_out(event.text.replace("\r\n", "\n").replace("\r", "\n"))


class MemoryEditor(Vertical):
    """Holds what the text was when editing began; `expected` moves on when a change elsewhere was shown."""

    def __init__(self, name: MemoryName | None, scope: MemoryScope, stored: str | None, editable: Editable) -> None:
        """`name` None asks for the key of a new memory of `scope`."""
        super().__init__(id="memory-editor")
        self.expected = stored
        self._memory = name
        self._scope = scope
        self._editable = editable
        self._theirs: str | None = None
        self._key = Input(placeholder="Key, one line: what it is about", id="memory-key", compact=True)
        short = len(editable.text) <= _WRAPPED_CHARS and all(
            len(one) <= _WRAPPED_LINE for one in editable.text.split("\n")
        )
        self._area = SafeArea(
            editable.text,
            id="memory-area",
            compact=True,
            soft_wrap=short,
            show_line_numbers=True,
            tab_behavior="indent",
        )
        self._area.cursor_blink = self._key.cursor_blink = False
        self._other = LongText("memory-other")
        self._said = InkBox("memory-conflict")

    def compose(self) -> ComposeResult:
        if self._memory is None:
            yield self._key
        yield self._area
        yield self._other
        yield self._said

    def on_mount(self) -> None:
        self._other.display = self._said.display = False
        self._first.focus()

    @property
    def title(self) -> str:
        """What is edited, in words."""
        if self._memory is not None:
            return f"Edit {self._memory.key}  {self._memory.scope.value}"
        return "New memory" if self._scope is MemoryScope.WORKSPACE else "New memory, for all your workspaces"

    @property
    def memory(self) -> MemoryName | None:
        """What is edited; None while a new memory has no key yet."""
        key = self._key.value
        return self._memory or (MemoryName(key, self._scope) if key.strip() else None)

    @property
    def value(self) -> str:
        """The text as it would be saved."""
        return self._editable.read_back(self._area.text)

    @property
    def touched(self) -> bool:
        """Whether leaving would lose something."""
        return self._area.text != self._editable.text or bool(self._key.value)

    @property
    def conflicting(self) -> bool:
        """Something was changed under the edit, and not saved over yet."""
        return self._said.display

    def ask_for_key(self) -> None:
        self._key.focus()

    def show_conflict(self, stored: str | None) -> None:
        """Another text, or none, stands there now; the next saving expects that."""
        self.expected = self._theirs = stored
        self._said.display = True
        self._said.show_lines([line((CHANGED if stored is not None else GONE, Ink.WARNING), prose=True)])
        if stored is None:
            self.show_theirs(shown=False)

    def show_theirs(self, *, shown: bool | None = None) -> None:
        """Show the other text instead of one's own, or go back."""
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
        event.stop()
        self._area.focus()

    @property
    def _first(self) -> Input | TextArea:
        return self._area if self._memory is not None else self._key
