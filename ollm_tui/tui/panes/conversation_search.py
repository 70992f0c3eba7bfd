"""The search line of the conversation: marks what has the words, counts it, goes from hit to hit."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.timer import Timer
from textual.widgets import Input, Static

from ollm_tui.core.base.escape import visible
from ollm_tui.tui.entry_texts import has_words, is_stored
from ollm_tui.tui.protocol.intents import FindEntry
from ollm_tui.tui.values import Entry
from ollm_tui.tui.widgets.transcript import Transcript

COUNT_SECONDS = 0.15
"""What was typed is counted once nothing more was for that long: all texts are looked through."""


class ConversationSearch(Horizontal):
    """Search line below the conversation; hits are marked while it is there."""

    def __init__(self, transcript: Transcript) -> None:
        super().__init__(id="chat-search")
        self._transcript = transcript
        self._input = Input(placeholder="Search; Enter finds, Esc leaves", id="search", compact=True)
        self._input.cursor_blink = False  # an idle screen stays still
        self._hits = Static(markup=False, id="chat-hits")
        self._pause: Timer | None = None
        self._step = -1

    def compose(self) -> ComposeResult:
        """Yield the input and the count."""
        yield self._input
        yield self._hits

    @property
    def words(self) -> str:
        """What is searched for."""
        return self._input.value

    def ask(self) -> None:
        """Show the line and focus its input."""
        self.display = True
        self._input.focus()
        self._transcript.seek(self.words)

    def end(self) -> None:
        """Hide the line; nothing is marked any more."""
        self.display = False
        self._transcript.seek("")

    def find(self, step: int) -> None:
        """Go to the next (1) or previous (-1) hit: in the marked entry, else in another; the log has long ones."""
        self._step = step
        if self._transcript.step_to_hit(step):
            self.show_hits()
            return
        entries = [item.entry for item in self._transcript.document.items]
        search = find_entry(entries, self._transcript.chosen, self.words, step)
        if search.entries:
            self.post_message(search)
        else:
            self.show_found(search.otherwise)

    def show_found(self, entry_id: str) -> None:
        """Go to the entry that was found; say so where there is none."""
        if not self._transcript.show_found(entry_id, self._step):
            self.notify(f"Nothing contains {visible(self.words)!r}.", markup=False)
        self.show_hits()

    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    def show_hits(self) -> None:
        """Show how many entries have the words, which of them is marked, and the keys."""
        self._hits.update(f" {self._count()}  {'Enter' if self._input.has_focus else 'n/N'}  Esc ")

    def _count(self) -> str:
        words, transcript = self.words.casefold(), self._transcript
        if not words:
            return ""
        items = transcript.document.items
        found = [at for at, item in enumerate(items) if has_words(item.entry, words)]
        total = f"{len(found):,}{'+' if any(is_stored(item.entry) for item in items) else ''}"
        if transcript.chosen not in found or self._input.has_focus:
            return f"{total} {'entry' if total == '1' else 'entries'}"
        at, hits = transcript.found.number
        return f"{found.index(transcript.chosen) + 1:,}/{total}{f', line {at} of {hits}' if hits > 1 else ''}"

    def on_input_changed(self, event: Input.Changed) -> None:
        """Mark what has the words while they are typed."""
        event.stop()
        self._transcript.seek(event.value)
        if self._pause is not None:
            self._pause.stop()
        self._pause = self.set_timer(COUNT_SECONDS, self.show_hits)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Go to the last hit, and from the line to the text, where n and N go on."""
        event.stop()
        if self.words:
            self._transcript.focus()
            self.find(-1)


def find_entry(entries: Sequence[Entry], marked: int | None, words: str, step: int) -> FindEntry:
    """Return the next (1) or previous (-1) entry with these words.

    Entries before it whose text only the log has come along, to be searched there.
    """
    wanted = words.casefold()
    start = marked if marked is not None else (len(entries) if step < 0 else -1)
    stored: list[Entry] = []
    found = ""
    for offset in range(1, len(entries) + 1):
        entry = entries[(start + step * offset) % len(entries)]
        if has_words(entry, wanted):
            found = entry.id
            break
        if is_stored(entry):
            stored.append(entry)
    return FindEntry(words, tuple(stored), found)
