"""The conversation as one scrollable surface: takes changes, paints live answers calmly, lets a person mark entries."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.timer import Timer

from ollm_tui.tui.conversation_entries import (
    AnswerGrew,
    CallEntry,
    Change,
    ConversationCleared,
    EntriesChanged,
    Entry,
    NoteEntry,
)
from ollm_tui.tui.values import ConfirmationQueueSnapshot
from ollm_tui.tui.widgets.entry_blocks import EntryComposer, source_of
from ollm_tui.tui.widgets.scroll_surface import ScrollSurface

LIVE_INTERVAL = 0.05
"""Seconds between two paintings of a growing answer, at least: 20 a second are enough to read by."""

LIVE_SHARE = 4
"""A painting that took t is followed by at least this many t of rest: keys come first."""


class Transcript(ScrollSurface):
    """Entries in order. Takes `Change`s; emits what a person does with an entry."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "choose(1)", "Next", id="chat.next", tooltip="Mark the next entry", show=False),
        Binding("k,up", "choose(-1)", "Previous", id="chat.previous", tooltip="Mark the entry before", show=False),
        Binding("enter,space", "fold", "Fold", id="chat.toggle", tooltip="Open or fold the marked entry", show=False),
        Binding("c", "copy", "Copy", id="chat.copy", tooltip="Copy the marked entry to the clipboard", show=False),
        Binding("g,home", "top", "Top", id="chat.top", tooltip="Go to the beginning", show=False),
        Binding("G,end", "follow", "End", id="chat.end", tooltip="Go to the end and follow it", show=False),
        Binding("pageup", "page(-1)", "Page up", id="chat.page_up", tooltip="Scroll one page up", show=False),
        Binding("pagedown", "page(1)", "Page down", id="chat.page_down", tooltip="Scroll one page down", show=False),
    ]

    class CopyAsked(Message):
        """An entry's text should go to the clipboard."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._composer = EntryComposer(now)
        super().__init__(self._composer.blocks_of, "transcript")
        self._growth: list[AnswerGrew] = []
        self._growth_timer: Timer | None = None
        self._last_cost = 0.0
        self._last_paint = 0.0

    def apply(self, change: Change) -> None:
        """Take a change; growth of a live answer is painted at most 20 times a second."""
        match change:
            case AnswerGrew():
                self._growth.append(change)
                self._paint_growth_soon()
            case EntriesChanged(entries):
                self._take_growth()
                for entry in entries:
                    if self.document.upsert(entry) and not self.following:
                        self.new_below += 1
                self.settle()
            case ConversationCleared(entries):
                self._growth.clear()
                self._composer.forget()
                self.document.clear()
                for entry in entries:
                    self.document.upsert(entry)
                self.forget_place()
                self.settle()

    def show_queue(self, queue: ConfirmationQueueSnapshot) -> None:
        """Calls that wait show their question's number and clock."""
        before, self._composer.queue = self._composer.queue, queue
        known = {item.id: item for item in before.items}
        changed = {item.call_id for item in queue.items if known.pop(item.id, None) is not item}
        changed.update(item.call_id for item in known.values())
        for call_id in changed:
            self.document.refresh_entry(call_id)
        if changed:
            self.settle()

    def tick(self) -> None:
        """A second has passed: clocks of waiting calls go on, as far as they are in sight."""
        first = self.scroll_offset.y
        ticking = False
        for entry in self.document.entries_within(first, first + self.size.height):
            question = self._composer.queue.of_call(entry.id)
            if question is not None and question.deadline is not None:
                self.document.refresh_entry(entry.id)
                ticking = True
        if ticking:
            self.settle()

    @property
    def empty(self) -> bool:
        return not self.document.passages

    @property
    def chosen_entry(self) -> Entry | None:
        passages = self.document.passages
        return passages[self.chosen].entry if self.chosen is not None and self.chosen < len(passages) else None

    def action_choose(self, step: int) -> None:
        count = len(self.document.passages)
        if not count:
            return
        if self.chosen is None:
            row = self.scroll_offset.y + (min(self.size.height, self.document.height) - 1 if step < 0 else 0)
            self.chosen = min(self.document.place_of(row).passage, count - 1)
        else:
            self.chosen = max(0, min(count - 1, self.chosen + step))
        self.reveal(self.chosen)

    def action_fold(self) -> None:
        entry = self.chosen_entry
        if entry is not None:
            self._composer.toggle(entry)
            self.document.refresh_entry(entry.id)
            self.following = False
            self.settle()

    def fold_all(self) -> None:
        """Open everything, or fold everything again."""
        self._composer.open_all(not self._composer.all_open)
        for passage in self.document.passages:
            self.document.refresh_entry(passage.entry.id)
        self.settle()

    def action_copy(self) -> None:
        entry = self.chosen_entry or (self.document.passages[-1].entry if self.document.passages else None)
        if entry is not None:
            self.post_message(self.CopyAsked(source_of(entry)))

    def action_top(self) -> None:
        self.following = False
        self.go_to(0)

    def action_follow(self) -> None:
        self.chosen = None
        self.following = True
        self.new_below = 0
        self.settle()

    def action_page(self, step: int) -> None:
        """Scroll by pages; from the prompt too."""
        self.go_to(self.scroll_offset.y + step * max(1, self.size.height - 2))

    def find(self, words: str, step: int) -> bool:
        """Mark the next entry (`step` 1) or the one before (-1) that has `words` in it; False when none has."""
        passages = self.document.passages
        wanted = words.casefold()
        start = self.chosen if self.chosen is not None else (len(passages) if step < 0 else -1)
        for offset in range(1, len(passages) + 1):
            place = (start + step * offset) % len(passages)
            if wanted in _searchable(passages[place].entry):
                self.chosen = place
                self.reveal(place)
                return True
        return False

    def on_click(self, event: events.Click) -> None:
        place = self.document.place_of(event.y + self.scroll_offset.y)
        if place.passage >= len(self.document.passages):
            return
        passage = self.document.passages[place.passage]
        self.chosen = place.passage
        foldable = isinstance(passage.entry, CallEntry) or (isinstance(passage.entry, NoteEntry) and passage.entry.body)
        if foldable and place.row == passage.gap:
            self.action_fold()

    def _paint_growth_soon(self) -> None:
        if self._growth_timer is not None:
            return
        rest = self._last_paint + max(LIVE_INTERVAL, LIVE_SHARE * self._last_cost) - time.monotonic()
        if rest <= 0:
            self._paint_growth()
        else:
            self._growth_timer = self.set_timer(rest, self._paint_growth)

    def _paint_growth(self) -> None:
        self._growth_timer = None
        started = time.monotonic()
        self._take_growth()
        self.settle()
        self._last_paint = time.monotonic()
        self._last_cost = self._last_paint - started

    def _take_growth(self) -> None:
        merged: dict[str, tuple[list[str], list[str]]] = {}
        for change in self._growth:
            text, reasoning = merged.setdefault(change.id, ([], []))
            text.append(change.text)
            reasoning.append(change.reasoning)
        self._growth.clear()
        for entry_id, (text, reasoning) in merged.items():
            self.document.grow(AnswerGrew(entry_id, "".join(text), "".join(reasoning)))


def _searchable(entry: Entry) -> str:
    summary = f"{entry.tool} {entry.summary}" if isinstance(entry, CallEntry) else ""
    return f"{summary}\n{source_of(entry)}".casefold()
