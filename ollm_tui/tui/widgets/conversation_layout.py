"""The conversation laid out in rows, without a screen: entries, blocks, heights, strips.

Blocks never in sight have estimated heights; painting corrects them, and the view then keeps its position. Entries
long out of sight keep their height alone: they are laid out again when they come into sight, and a long text that the
log has is read back from there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from textual.strip import Strip

from ollm_tui.tui.entry_texts import is_stored, text_size, without_text
from ollm_tui.tui.styled_text import line
from ollm_tui.tui.values import AnswerEntry, AnswerGrew, CallEntry, Entry, NoteEntry
from ollm_tui.tui.widgets.block_painting import Block, BlockPainter, LinesBlock

PAINTED_BLOCKS = 1_500
"""Blocks whose strips are cached."""

LAID_OUT_ENTRIES = 500
"""Entries whose blocks and texts are kept."""

KEPT_TEXT = 20_000_000
"""Characters of these texts; beyond it fewer entries are kept, though never less than LEAST_ENTRIES."""

LEAST_ENTRIES = 200


@dataclass(eq=False)
class BlockSlot:
    """A block with its height and, while painted, its strips."""

    block: Block
    height: int
    strips: list[Strip] | None = None


@dataclass(eq=False)
class LaidOutEntry:
    """An entry with its blocks, after `gap` blank rows; without blocks it keeps its height."""

    entry: Entry
    gap: int
    slots: list[BlockSlot] = field(default_factory=list[BlockSlot])
    rows: int = 0
    """Rows of the blocks that are not kept."""

    @property
    def height(self) -> int:
        """Rows it takes, the gap included."""
        return self.gap + (sum(slot.height for slot in self.slots) if self.slots else self.rows)


@dataclass(frozen=True)
class RowPosition:
    """A row of an entry, valid while heights above it change."""

    index: int
    row: int


BlocksOf = Callable[[Entry], Sequence[Block]]


class PaintedBlocks:
    """Blocks painted at a width; the strips painted last are kept."""

    def __init__(self) -> None:
        self.width = 80
        self._painter: BlockPainter | None = None
        self._painted: OrderedDict[int, BlockSlot] = OrderedDict()

    def restyle(self, painter: BlockPainter, width: int) -> None:
        """Forget all strips, and paint like this from now on."""
        self._painter, self.width = painter, width
        for slot in self._painted.values():
            slot.strips = None
        self._painted.clear()

    def slot(self, block: Block) -> BlockSlot:
        """Return a place for a block that is not painted yet."""
        return BlockSlot(block, block.estimate(self.width))

    def paint(self, slot: BlockSlot) -> bool:
        """Paint a block; return whether its height was estimated wrong."""
        if slot.strips is not None or self._painter is None:
            return False
        slot.strips = slot.block.paint(self._painter, self.width)
        self._painted[id(slot)] = slot
        while len(self._painted) > PAINTED_BLOCKS:
            _, oldest = self._painted.popitem(last=False)
            oldest.strips = None
        changed = slot.height != len(slot.strips)
        slot.height = len(slot.strips)
        return changed

    def forget(self, slots: Iterable[BlockSlot]) -> None:
        """Forget blocks that are gone."""
        for slot in slots:
            self._painted.pop(id(slot), None)


class KeptEntries:
    """Entries whose blocks and texts are kept, last used last."""

    def __init__(self) -> None:
        self._sizes: OrderedDict[int, int] = OrderedDict()
        self._characters = 0

    def __iter__(self) -> Iterator[int]:
        return iter(self._sizes)

    def clear(self) -> None:
        """Keep nothing."""
        self._sizes.clear()
        self._characters = 0

    def use(self, index: int, size: int) -> list[int]:
        """Keep an entry of this size; return those kept no longer."""
        self._characters += size - self._sizes.get(index, 0)
        self._sizes[index] = size
        self._sizes.move_to_end(index)
        dropped: list[int] = []
        while len(self._sizes) > (LAID_OUT_ENTRIES if self._characters <= KEPT_TEXT else LEAST_ENTRIES):
            oldest, gone = self._sizes.popitem(last=False)
            self._characters -= gone
            dropped.append(oldest)
        return dropped


class ConversationLayout:
    """Entries by id in order, rows by number; knows no scrolling."""

    def __init__(self, blocks_of: BlocksOf) -> None:
        self._blocks_of = blocks_of
        self.items: list[LaidOutEntry] = []
        self._index: dict[str, int] = {}
        self._tops: list[int] = [0]
        self._stale_from = 0
        self._painted = PaintedBlocks()
        self._kept = KeptEntries()
        """Entries with blocks, by index."""
        self._missing: dict[str, Entry] = {}
        self._asked: set[str] = set()

    def clear(self) -> None:
        """Remove all entries."""
        for item in self.items:
            self._painted.forget(item.slots)
        self.items.clear()
        self._index.clear()
        self._kept.clear()
        self._missing.clear()
        self._asked.clear()
        self._tops, self._stale_from = [0], 0

    def upsert(self, entry: Entry) -> bool:
        """Append an entry, or replace the one with its id; True when it is new."""
        index = self._index.get(entry.id)
        if index is None:
            before = self.items[-1].entry if self.items else None
            self._index[entry.id] = len(self.items)
            item = LaidOutEntry(entry, _gap(before, entry))
            self.items.append(item)
            self._stale_from = min(self._stale_from, len(self.items) - 1)
        else:
            item = self.items[index]
            item.entry = entry
        self.refresh_entry(entry.id)
        return index is None

    def restore(self, entry: Entry) -> None:
        """Give an entry its text again, which was read back."""
        self._asked.discard(entry.id)
        index = self._index.get(entry.id)
        if index is not None and is_stored(self.items[index].entry):
            self.items[index].entry = entry
            self.refresh_entry(entry.id)

    def take_missing(self) -> tuple[Entry, ...]:
        """Return the entries that came into sight without their texts, each until that is restored once."""
        missing = tuple(self._missing.values())
        self._asked.update(self._missing)
        self._missing.clear()
        return missing

    def index_of(self, entry_id: str) -> int | None:
        """Return where an entry stands."""
        return self._index.get(entry_id)

    def grow(self, change: AnswerGrew) -> None:
        """Append to a live answer; unknown ids are ignored."""
        index = self._index.get(change.id)
        if index is None:
            return
        entry = self.items[index].entry
        if isinstance(entry, AnswerEntry):
            self.items[index].entry = replace(
                entry, text=entry.text + change.text, reasoning=entry.reasoning + change.reasoning
            )
            self.refresh_entry(change.id)

    def refresh_entry(self, entry_id: str) -> None:
        """Lay an entry out again; unchanged blocks keep their strips."""
        index = self._index.get(entry_id)
        if index is None:
            return
        item = self.items[index]
        old = item.slots
        slots: list[BlockSlot] = []
        for position, block in enumerate(self._blocks_of(item.entry)):
            if position < len(old) and old[position].block == block:
                slots.append(old[position])
            else:
                self._painted.forget(old[position : position + 1])
                slots.append(self._painted.slot(block))
        self._painted.forget(old[len(slots) :])
        item.slots = slots
        self._stale_from = min(self._stale_from, index)
        self._keep(index)

    def refresh_all(self) -> None:
        """Lay all entries out again; those out of sight when they come into it."""
        for index in list(self._kept):
            self.refresh_entry(self.items[index].entry.id)

    def restyle(self, painter: BlockPainter, width: int) -> None:
        """Drop everything painted, for another theme or width."""
        before = self._painted.width
        self._painted.restyle(painter, width)
        if width != before:
            for item in self.items:
                if not item.slots:
                    item.rows = max(1, round(item.rows * before / width))
                for slot in item.slots:
                    slot.height = slot.block.estimate(width)
        self._stale_from = 0

    @property
    def height(self) -> int:
        """Rows of all entries."""
        return self._tops_now()[-1]

    def top_of(self, index: int) -> int:
        """Return an entry's first row, its gap included."""
        return self._tops_now()[index]

    def position_at(self, row: int) -> RowPosition:
        """Return the position of a row, to find it again later."""
        if not self.items:
            return RowPosition(0, 0)
        tops = self._tops_now()
        index = min(bisect_right(tops, max(0, row)) - 1, len(self.items) - 1)
        return RowPosition(index, row - tops[index])

    def row_of(self, position: RowPosition) -> int:
        """Return the current row of a position."""
        if not self.items:
            return 0
        index = min(position.index, len(self.items) - 1)
        return self.top_of(index) + min(position.row, self.items[index].height)

    def entries_within(self, first: int, last: int) -> list[Entry]:
        """Return the entries in rows `first` to `last`."""
        indexes = range(self.position_at(first).index, self.position_at(last).index + 1)
        return [self.items[index].entry for index in indexes if index < len(self.items)]

    def measure(self, first: int, last: int) -> bool:
        """Paint rows `first` to `last`; True when a height was estimated wrong."""
        index = self.position_at(first).index
        changed = False
        while index < len(self.items):
            top = self.top_of(index)
            if top > last:
                break
            row, height = top + self.items[index].gap, self.items[index].height
            slots = self._slots(index)
            changed |= height != self.items[index].height
            for slot in slots:
                if row <= last and row + max(1, slot.height) > first and self._painted.paint(slot):
                    changed = True
                    self._stale_from = min(self._stale_from, index)
                row += slot.height
            index += 1
        return changed

    def strip_at(self, row: int) -> Strip | None:
        """Return a row's strip; None where it is blank."""
        if not 0 <= row < self.height:
            return None
        position = self.position_at(row)
        item = self.items[position.index]
        rest = position.row - item.gap
        if rest < 0:
            return None
        for slot in self._slots(position.index):
            if rest < slot.height:
                self._painted.paint(slot)
                strips = slot.strips or []
                return strips[rest] if rest < len(strips) else None
            rest -= slot.height
        return None

    def _slots(self, index: int) -> list[BlockSlot]:
        """Return an entry's blocks, laid out again where they were not kept."""
        item = self.items[index]
        if not item.slots:
            item.slots = [self._painted.slot(block) for block in self._blocks_of(item.entry)]
            for slot in item.slots:
                self._painted.paint(slot)
            blank = item.gap + item.rows - item.height if is_stored(item.entry) else 0
            if blank > 0:  # what stands below holds its place until the text is there
                item.slots.append(BlockSlot(LinesBlock((line(),) * blank), blank))
            if item.height != item.gap + item.rows:
                self._stale_from = min(self._stale_from, index)
        if is_stored(item.entry) and item.entry.id not in self._asked:
            self._missing[item.entry.id] = item.entry
        self._keep(index)
        return item.slots

    def _keep(self, index: int) -> None:
        """Keep the blocks of the entries used last."""
        for oldest in self._kept.use(index, text_size(self.items[index].entry)):
            item = self.items[oldest]
            item.entry = without_text(item.entry)
            item.rows = item.height - item.gap
            self._painted.forget(item.slots)
            item.slots = []

    def _tops_now(self) -> list[int]:
        stale = self._stale_from
        if stale < len(self.items) or len(self._tops) != len(self.items) + 1:
            stale = min(stale, len(self._tops) - 1)
            heights = (item.height for item in self.items[stale:])
            self._tops[stale:] = accumulate(heights, initial=self._tops[stale] if stale else 0)
        self._stale_from = len(self.items)
        return self._tops


def _gap(before: Entry | None, entry: Entry) -> int:
    """Return the blank rows between entries: calls stand close, messages apart."""
    if before is None:
        return 0
    close = (CallEntry, NoteEntry)
    return 0 if isinstance(before, close) and isinstance(entry, close) else 1
