"""The conversation laid out in rows, without a screen: entries, their blocks, heights, and what is painted of them.

Blocks that were never in sight have estimated heights; painting corrects them, and the view then keeps its place.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from textual.strip import Strip

from ollm_tui.tui.conversation_entries import AnswerEntry, AnswerGrew, CallEntry, Entry, NoteEntry
from ollm_tui.tui.widgets.block_painting import Block, BlockPainter

PAINTED_BLOCKS = 1_500
"""Blocks whose strips are kept."""


@dataclass(eq=False)
class Slot:
    """One block in its place."""

    block: Block
    height: int
    strips: list[Strip] | None = None


@dataclass(eq=False)
class Passage:
    """One entry in its place; `gap` blank rows stand before it."""

    entry: Entry
    gap: int
    slots: list[Slot] = field(default_factory=list[Slot])

    @property
    def height(self) -> int:
        return self.gap + sum(slot.height for slot in self.slots)


@dataclass(frozen=True)
class RowPosition:
    """A row that stays what it is while heights above it change."""

    passage: int
    row: int


BlocksOf = Callable[[Entry], Sequence[Block]]


class ConversationLayout:
    """Entries by id in order; rows by number. Knows no scrolling."""

    def __init__(self, blocks_of: BlocksOf) -> None:
        self._blocks_of = blocks_of
        self.passages: list[Passage] = []
        self._index: dict[str, int] = {}
        self._tops: list[int] = [0]
        self._stale_from = 0
        self._width = 80
        self._painter: BlockPainter | None = None
        self._painted: OrderedDict[int, Slot] = OrderedDict()

    # -- content -----------------------------------------------------------------------------------------------------

    def clear(self) -> None:
        self.passages.clear()
        self._index.clear()
        self._painted.clear()
        self._tops, self._stale_from = [0], 0

    def index_of(self, entry_id: str) -> int | None:
        return self._index.get(entry_id)

    def upsert(self, entry: Entry) -> bool:
        """Put an entry at the end, or in the place of the one with its id. True when it is new."""
        index = self._index.get(entry.id)
        if index is None:
            before = self.passages[-1].entry if self.passages else None
            self._index[entry.id] = len(self.passages)
            passage = Passage(entry, _gap(before, entry))
            self.passages.append(passage)
            self._stale_from = min(self._stale_from, len(self.passages) - 1)
        else:
            passage = self.passages[index]
            passage.entry = entry
        self.refresh_entry(entry.id)
        return index is None

    def grow(self, change: AnswerGrew) -> None:
        """Append to a live answer; unknown ids are ignored."""
        index = self._index.get(change.id)
        if index is None:
            return
        entry = self.passages[index].entry
        if isinstance(entry, AnswerEntry):
            grown = AnswerEntry(
                id=entry.id,
                model=entry.model,
                text=entry.text + change.text,
                reasoning=entry.reasoning + change.reasoning,
                time=entry.time,
                live=entry.live,
            )
            self.passages[index].entry = grown
            self.refresh_entry(change.id)

    def refresh_entry(self, entry_id: str) -> None:
        """Lay an entry out anew; blocks that did not change keep what was painted."""
        index = self._index.get(entry_id)
        if index is None:
            return
        passage = self.passages[index]
        old = passage.slots
        slots: list[Slot] = []
        for place, block in enumerate(self._blocks_of(passage.entry)):
            if place < len(old) and old[place].block == block:
                slots.append(old[place])
            else:
                slots.append(Slot(block, block.estimate(self._width)))
        passage.slots = slots
        self._stale_from = min(self._stale_from, index)

    def restyle(self, painter: BlockPainter, width: int) -> None:
        """Another theme or width: nothing painted holds any more."""
        rewrap = width != self._width
        self._painter = painter
        self._width = width
        self._painted.clear()
        for passage in self.passages:
            for slot in passage.slots:
                slot.strips = None
                if rewrap:
                    slot.height = slot.block.estimate(width)
        self._stale_from = 0

    # -- rows --------------------------------------------------------------------------------------------------------

    @property
    def height(self) -> int:
        return self._tops_now()[-1]

    def top_of(self, index: int) -> int:
        """The first row of a passage, its gap included."""
        return self._tops_now()[index]

    def place_of(self, row: int) -> RowPosition:
        """What stands at a row, to find it again later."""
        if not self.passages:
            return RowPosition(0, 0)
        tops = self._tops_now()
        index = min(bisect_right(tops, max(0, row)) - 1, len(self.passages) - 1)
        return RowPosition(index, row - tops[index])

    def row_of(self, place: RowPosition) -> int:
        if not self.passages:
            return 0
        index = min(place.passage, len(self.passages) - 1)
        return self.top_of(index) + min(place.row, self.passages[index].height)

    def entries_within(self, first: int, last: int) -> list[Entry]:
        """What stands in rows `first` to `last`."""
        places = range(self.place_of(first).passage, self.place_of(last).passage + 1)
        return [self.passages[index].entry for index in places if index < len(self.passages)]

    def measure(self, first: int, last: int) -> bool:
        """Paint what lies in rows `first` to `last`; True when a height came out other than estimated."""
        index = self.place_of(first).passage
        changed = False
        while index < len(self.passages):
            top = self.top_of(index)
            if top > last:
                break
            row = top + self.passages[index].gap
            for slot in self.passages[index].slots:
                if row <= last and row + max(1, slot.height) > first and self._paint(slot):
                    changed = True
                    self._stale_from = min(self._stale_from, index)
                row += slot.height
            index += 1
        return changed

    def strip_at(self, row: int) -> Strip | None:
        """The cells of a row; None where it is blank."""
        if not 0 <= row < self.height:
            return None
        place = self.place_of(row)
        passage = self.passages[place.passage]
        rest = place.row - passage.gap
        if rest < 0:
            return None
        for slot in passage.slots:
            if rest < slot.height:
                self._paint(slot)
                strips = slot.strips or []
                return strips[rest] if rest < len(strips) else None
            rest -= slot.height
        return None

    def _paint(self, slot: Slot) -> bool:
        if slot.strips is not None or self._painter is None:
            return False
        slot.strips = slot.block.paint(self._painter, self._width)
        self._painted[id(slot)] = slot
        while len(self._painted) > PAINTED_BLOCKS:
            _, oldest = self._painted.popitem(last=False)
            oldest.strips = None
        changed = slot.height != len(slot.strips)
        slot.height = len(slot.strips)
        return changed

    def _tops_now(self) -> list[int]:
        stale = self._stale_from
        if stale < len(self.passages) or len(self._tops) != len(self.passages) + 1:
            stale = min(stale, len(self._tops) - 1)
            heights = (passage.height for passage in self.passages[stale:])
            self._tops[stale:] = accumulate(heights, initial=self._tops[stale] if stale else 0)
        self._stale_from = len(self.passages)
        return self._tops


def _gap(before: Entry | None, entry: Entry) -> int:
    """Calls stand close together, messages apart."""
    if before is None:
        return 0
    close = (CallEntry, NoteEntry)
    return 0 if isinstance(before, close) and isinstance(entry, close) else 1
