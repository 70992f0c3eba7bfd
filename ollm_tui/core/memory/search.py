"""Searching memory: by words, by meaning where there is a model, and both made one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.clock import Clock
from ollm_tui.core.memory.embedding import Embedder, EmbeddingFailed
from ollm_tui.core.memory.entries import Found, MemoryScope, Ranking, Remembered, SearchOutcome
from ollm_tui.core.memory.fusion import fused
from ollm_tui.core.memory.meaning import Meaning, Nearest
from ollm_tui.core.memory.tables import REBUILD_WORDS, SCHEMA, Place, marks
from ollm_tui.core.memory.words import IndexDamaged, WordMatches, match_words, snippet_of
from ollm_tui.core.storage.store import Store


class MemorySearch:
    """Finds memories in the tables; `scopes` says what each place stands for. Without `embedder` by words alone."""

    def __init__(
        self, store: Store, scopes: Mapping[Place, MemoryScope], clock: Clock, embedder: Embedder | None
    ) -> None:
        self._store = store
        self._scopes = scopes
        self._meaning = Meaning(store, embedder, clock) if embedder is not None else None

    def search(self, query: str, places: Sequence[Place], limit: int, signal: AbortSignal) -> SearchOutcome:
        """Blocks, with a model for seconds. A model that fails is a note, and the words still count.

        Raises OperationCancelled, StorageFailed.
        """
        words = self._match_words(query, places, limit)
        ranking, nearest, notes = Ranking.KEYWORD_ONLY, Nearest(()), ()
        if self._meaning is not None:
            try:
                nearest = self._meaning.nearest(query, places, limit, signal)
            except EmbeddingFailed as failure:
                notes = (f"{Ranking.KEYWORD_ONLY}: the semantic model failed: {failure}.",)
            else:
                ranking, notes = Ranking.WORDS_AND_MEANING, _notes_about(nearest)
        order = fused(words, nearest.numbers)[:limit]
        entries = self._entries([number for number, _ in order])
        found = [
            Found(entries[number], snippet_of(entries[number].value, query), by)
            for number, by in order
            if number in entries
        ]
        return SearchOutcome(tuple(found), ranking, notes)

    def _match_words(self, query: str, places: Sequence[Place], limit: int) -> WordMatches:
        try:
            with self._store.read(SCHEMA) as db:
                return match_words(db, query, places, limit)
        except IndexDamaged:
            with self._store.write(SCHEMA) as db:
                db.execute(REBUILD_WORDS)
                return match_words(db, query, places, limit)

    def _entries(self, numbers: Sequence[int]) -> dict[int, Remembered]:
        """Those that are still there."""
        with self._store.read(SCHEMA) as db:
            rows = db.execute(
                f"SELECT number, key, value, place, changed_at FROM memories WHERE number IN ({marks(numbers)})",
                numbers,
            )
            return {row[0]: Remembered(row[1], row[2], self._scopes[row[3]], row[4]) for row in rows}


def _notes_about(nearest: Nearest) -> tuple[str, ...]:
    notes: list[str] = []
    if nearest.unread:
        many = f"{nearest.unread:,} memories are" if nearest.unread > 1 else "1 memory is"
        notes.append(f"{many} not read for meaning yet and found by words alone; the next search goes on")
    if nearest.fault:
        notes.append(f"what was read for meaning could not be kept: {nearest.fault}")
    return tuple(notes)
