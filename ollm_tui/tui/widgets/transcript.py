"""The conversation widget: applies changes, paces live answers, lets a person mark entries."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.timer import Timer

from ollm_tui.tui.bindings import KeyGroup, register_keys
from ollm_tui.tui.entry_texts import source_of
from ollm_tui.tui.protocol.intents import StopTask
from ollm_tui.tui.styled_text import copy_text
from ollm_tui.tui.values import (
    AnswerGrew,
    CallEntry,
    Change,
    ConfirmationQueueSnapshot,
    ConversationCleared,
    EntriesChanged,
    EntriesRead,
    Entry,
    NoteEntry,
)
from ollm_tui.tui.widgets.entry_blocks import EntryComposer
from ollm_tui.tui.widgets.link_surface import LinkSurface
from ollm_tui.tui.widgets.scroll_surface import ScrollSurface

TASK = "task"
"""The tool whose calls are sub-agents."""

LIVE_INTERVAL = 0.05
"""Least seconds between paintings of a growing answer."""

LIVE_SHARE = 4
"""After a painting that took t, pause at least this many t: keys come first."""


class AnswerGrowth:
    """Pieces of live answers, painted so seldom that keys come first."""

    def __init__(self, surface: ScrollSurface) -> None:
        self._surface = surface
        self._pieces: list[AnswerGrew] = []
        self._timer: Timer | None = None
        self._last_cost = 0.0
        self._last_paint = 0.0

    def add(self, change: AnswerGrew) -> None:
        """Add a piece; it is painted now or soon."""
        self._pieces.append(change)
        if self._timer is not None:
            return
        rest = self._last_paint + max(LIVE_INTERVAL, LIVE_SHARE * self._last_cost) - time.monotonic()
        if rest <= 0:
            self._paint()
        else:
            self._timer = self._surface.set_timer(rest, self._paint)

    def clear(self) -> None:
        """Drop the pieces."""
        self._pieces.clear()

    def into_document(self) -> None:
        """Hand the pieces over, those of one answer in one."""
        merged: dict[str, tuple[list[str], list[str]]] = {}
        for change in self._pieces:
            text, reasoning = merged.setdefault(change.id, ([], []))
            text.append(change.text)
            reasoning.append(change.reasoning)
        self._pieces.clear()
        for entry_id, (text, reasoning) in merged.items():
            self._surface.document.grow(AnswerGrew(entry_id, "".join(text), "".join(reasoning)))

    def _paint(self) -> None:
        self._timer = None
        started = time.monotonic()
        self.into_document()
        self._surface.update_layout()
        self._last_paint = time.monotonic()
        self._last_cost = self._last_paint - started


@register_keys(KeyGroup.CHAT)
class Transcript(LinkSurface):
    """Entries in order; applies `Change`s and posts what a person does with entries."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "choose(1)", "Next", id="chat.next", tooltip="Mark the next entry", show=False),
        Binding("k,up", "choose(-1)", "Previous", id="chat.previous", tooltip="Mark the previous entry", show=False),
        Binding("enter,space", "fold", "Fold", id="chat.toggle", tooltip="Open or fold the marked entry", show=False),
        Binding("c", "copy", "Copy", id="chat.copy", tooltip="Copy the marked entry to the clipboard", show=False),
        Binding("u", "undo", "Undo", id="chat.undo", tooltip="Show what the marked call changed; undo it"),
        Binding("escape", "stop_task", "Stop it", id="chat.stop", tooltip="Stop the marked sub-agent alone"),
        Binding("g,home", "top", "Top", id="chat.top", tooltip="Go to the beginning", show=False),
        Binding("G,end", "follow", "End", id="chat.end", tooltip="Go to the end and follow it", show=False),
        Binding("pageup", "page(-1)", "Page up", id="chat.page_up", tooltip="Scroll one page up", show=False),
        Binding("pagedown", "page(1)", "Page down", id="chat.page_down", tooltip="Scroll one page down", show=False),
    ]

    class UndoAsked(Message):
        """The person wants to see what a call changed, to undo it."""

        def __init__(self, call_id: str) -> None:
            super().__init__()
            self.call_id = call_id

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._composer = EntryComposer(now)
        super().__init__(self._composer.blocks_of, "transcript")
        self._growth = AnswerGrowth(self)

    def apply(self, change: Change) -> None:
        """Apply a change; a growing answer is painted at most 20 times a second."""
        match change:
            case AnswerGrew():
                self._growth.add(change)
            case EntriesChanged(entries):
                self._growth.into_document()
                for entry in entries:
                    if self.document.upsert(entry) and not self.following:
                        self.new_below += 1
                self.update_layout()
            case EntriesRead(entries):
                for entry in entries:
                    self.document.restore(entry)
                self.update_layout()
            case ConversationCleared(entries):
                self._growth.clear()
                self._composer.forget()
                self.document.clear()
                for entry in entries:
                    self.document.upsert(entry)
                self.reset_position()
                self.update_layout()

    def show_queue(self, queue: ConfirmationQueueSnapshot) -> None:
        """Show the questions of waiting calls with number and clock."""
        before, self._composer.queue = self._composer.queue, queue
        known = {item.id: item for item in before.items}
        changed = {item.call_id for item in queue.items if known.pop(item.id, None) is not item}
        changed.update(item.call_id for item in known.values())
        for call_id in changed:
            self.document.refresh_entry(call_id)
        if changed:
            self.update_layout()

    def show_asking(self, calls: frozenset[str]) -> None:
        """Show which calls' commands wait for the person."""
        before, self._composer.asking = self._composer.asking, calls
        for call_id in before ^ calls:
            self.document.refresh_entry(call_id)
        if before != calls:
            self.update_layout()

    def tick(self) -> None:
        """Update the clocks of waiting calls in sight."""
        first = self.scroll_offset.y
        ticking = False
        for entry in self.document.entries_within(first, first + self.size.height):
            question = self._composer.queue.of_call(entry.id)
            if question is not None and question.deadline is not None:
                self.document.refresh_entry(entry.id)
                ticking = True
        if ticking:
            self.update_layout()

    @property
    def chosen_entry(self) -> Entry | None:
        """The marked entry."""
        items = self.document.items
        return items[self.chosen].entry if self.chosen is not None and self.chosen < len(items) else None

    def action_choose(self, step: int) -> None:
        """Mark the next or previous entry, at first one in sight."""
        count = len(self.document.items)
        if not count:
            return
        if self.chosen is None:
            row = self.scroll_offset.y + (min(self.size.height, self.document.height) - 1 if step < 0 else 0)
            self.chosen = min(self.document.position_at(row).index, count - 1)
        else:
            self.chosen = max(0, min(count - 1, self.chosen + step))
        self.reveal(self.chosen)
        self.refresh_bindings()

    def action_fold(self) -> None:
        """Fold or open the marked entry."""
        entry = self.chosen_entry
        if entry is not None:
            self._composer.toggle(entry)
            self.document.refresh_entry(entry.id)
            self.following = False
            self.update_layout()

    def fold_all(self) -> None:
        """Open everything, or fold everything again."""
        self._composer.open_all(not self._composer.all_open)
        self.document.refresh_all()
        self.update_layout()

    def action_copy(self) -> None:
        """Copy the marked entry, else the last."""
        entry = self.chosen_entry or (self.document.items[-1].entry if self.document.items else None)
        if entry is not None:
            copy_text(self, source_of(entry))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether a key works now.

        Only a finished call can be undone, and only a running sub-agent stopped.
        """
        entry = self.chosen_entry
        if action == "stop_task":
            return isinstance(entry, CallEntry) and entry.outcome is None and entry.tool == TASK
        return action != "undo" or (isinstance(entry, CallEntry) and entry.outcome is not None)

    def action_stop_task(self) -> None:
        """Stop the marked sub-agent."""
        entry = self.chosen_entry
        if isinstance(entry, CallEntry):
            self.post_message(StopTask(entry.id))

    def action_undo(self) -> None:
        """Show what the marked call changed."""
        entry = self.chosen_entry
        if isinstance(entry, CallEntry):
            self.post_message(self.UndoAsked(entry.id))

    def action_top(self) -> None:
        """Go to the beginning."""
        self.following = False
        self.go_to(0)

    def action_follow(self) -> None:
        """Go to the end and follow it."""
        self.chosen = None
        self.following = True
        self.new_below = 0
        self.update_layout()

    def action_page(self, step: int) -> None:
        """Scroll by pages; the prompt does it too."""
        self.go_to(self.scroll_offset.y + step * max(1, self.size.height - 2))

    def seek(self, words: str) -> None:
        """Mark what has words in it; nothing for none."""
        self.found.seek(words)
        self.refresh()

    def step_to_hit(self, step: int) -> bool:
        """Go to another hit in the marked entry; False where it has none left."""
        position = self.found.step(self.chosen, step)
        if position is not None:
            self.reveal_row(position)
        return position is not None

    def show_found(self, entry_id: str, step: int) -> bool:
        """Mark the entry that was found, at its first hit or its last (-1); False where that is nothing."""
        index = self.document.index_of(entry_id)
        if index is None:
            return False
        self.chosen = index
        self.reveal_row(self.found.begin(index, step))
        return True

    def on_click(self, event: events.Click) -> None:
        """Mark the clicked entry; on its first line fold it."""
        position = self.document.position_at(event.y + self.scroll_offset.y)
        if position.index >= len(self.document.items) or event.ctrl:
            return
        item = self.document.items[position.index]
        self.chosen = position.index
        foldable = isinstance(item.entry, CallEntry) or (isinstance(item.entry, NoteEntry) and item.entry.body)
        if foldable and position.row == item.gap:
            self.action_fold()
