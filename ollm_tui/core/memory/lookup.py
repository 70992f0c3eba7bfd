"""Finding memories by their words: BM25 over SQLite's full-text index, and plain text where no word fits."""

from __future__ import annotations

import re
import sqlite3
import unicodedata
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.clock import Clock
from ollm_tui.core.memory.embedding import Embedder, EmbeddingError
from ollm_tui.core.memory.entries import MemoryEntry, MemoryMatch, MemoryScope, MemorySearchResult, Ranking
from ollm_tui.core.memory.tables import REBUILD_WORDS, SCHEMA, UNSPACED, Place, marks, searchable, unspaced_letter
from ollm_tui.core.memory.vectors import NearestVectors, VectorIndex
from ollm_tui.core.storage.sqlite_file import is_index_damage
from ollm_tui.core.storage.store import Store

SNIPPET_CHARS = 240
"""How much of a value a search shows around the first word found."""

_SEARCHED_WORDS = 32

_BY_WORDS = """SELECT m.number FROM memory_index JOIN memories m ON m.number = memory_index.rowid
    WHERE memory_index MATCH ? AND m.place IN ({marks}) ORDER BY bm25(memory_index, 3.0, 1.0), m.number LIMIT ?"""

_BY_TEXT = """SELECT number FROM memories
    WHERE place IN ({marks}) AND (instr({fold}(key), ?) OR instr({fold}(value), ?)) ORDER BY key LIMIT ?"""


class IndexDamagedError(Exception):
    """The index of words does not fit the memories; it can be made anew from them."""


@dataclass(frozen=True)
class WordMatches:
    """Numbers of memories, best first: those with every word of the query (or its text), then those with some."""

    whole: tuple[int, ...]
    partial: tuple[int, ...]


def words_of(query: str) -> list[str]:
    """The words of a query; a run of writing without blanks counts as one."""
    return [found.group() for found in _word().finditer(unicodedata.normalize("NFKC", query))][:_SEARCHED_WORDS]


def match_words(db: sqlite3.Connection, query: str, places: Sequence[Place], limit: int) -> WordMatches:
    """Any text is a query; nothing in it is an operator. Where no word is found it counts as a piece of text.

    Raises IndexDamaged.
    """
    words = words_of(query)
    parts = [part for word in words for part in _parts(word)][:_SEARCHED_WORDS]

    def matching(joint: str, terms: Sequence[str]) -> list[int]:
        expression = joint.join(f'"{searchable(term)}"' for term in terms)
        return _numbers(db, _BY_WORDS.format(marks=marks(places)), (expression, *places, limit))

    whole = matching(" AND ", words) if words else []
    partial: list[int] = []
    if len(whole) < limit and len(parts) > 1:
        partial = [number for number in matching(" OR ", parts) if number not in whole][: limit - len(whole)]
    if not whole and not partial:
        text = _lower(query.strip())
        # Folding every value takes most of the time, and says nothing where the text has no letters to fold.
        fold = "lower" if any("a" <= letter <= "z" for letter in text) else ""
        whole = _numbers(db, _BY_TEXT.format(marks=marks(places), fold=fold), (*places, text, text, limit))
    return WordMatches(tuple(whole), tuple(partial))


def snippet_of(value: str, query: str) -> str:
    """One line of `value` around the first place where something of the query stands, else its beginning."""
    folded = value.lower()
    words = words_of(query)
    wanted = [query.strip(), *words, *(part for word in words for part in _parts(word))]
    found = next((place for word in wanted if word and (place := folded.find(word.lower())) >= 0), 0)
    start = max(found - SNIPPET_CHARS // 3, 0)
    end = start + SNIPPET_CHARS
    cut = " ".join(value[start:end].split())
    return f"{'... ' if start else ''}{cut}{' ...' if end < len(value) else ''}"


@cache
def _word() -> re.Pattern[str]:
    """A word of a query; accents may follow its letters."""
    return re.compile(rf"[{UNSPACED}]+|[^\W_{UNSPACED}](?:[^\W_{UNSPACED}]|[\u0300-\u036f])*")


def _parts(word: str) -> list[str]:
    """What of a word may be found by itself: of writing without blanks every two letters that stand together."""
    unspaced = unspaced_letter().match(word)
    return ["".join(pair) for pair in pairwise(word)] if unspaced and len(word) > 1 else [word]


def _numbers(db: sqlite3.Connection, statement: str, values: Sequence[Place | int]) -> list[int]:
    try:
        return [row[0] for row in db.execute(statement, values)]
    except sqlite3.DatabaseError as error:
        if is_index_damage(error):
            raise IndexDamagedError from error
        raise


def _lower(text: str) -> str:
    """As SQLite's `lower`: the letters of ASCII alone."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)


_EVENNESS = 60
"""How little the first places count more than the later ones; the usual figure for this method."""

_PARTIAL_WEIGHT = 0.5
"""Some of the words, often the small ones of a question, say less than all of them or the same meaning."""


def fused(words: WordMatches, meaning: Sequence[int]) -> list[tuple[int, Ranking]]:
    """Numbers, best first, each once, with what it was found by; two memories of the same rank keep their order."""
    scores: defaultdict[int, float] = defaultdict(float)
    by_words = [*words.whole, *words.partial]
    for rank, number in enumerate(by_words, 1):
        scores[number] += (1.0 if rank <= len(words.whole) else _PARTIAL_WEIGHT) / (_EVENNESS + rank)
    for rank, number in enumerate(meaning, 1):
        scores[number] += 1.0 / (_EVENNESS + rank)
    found = dict.fromkeys(by_words, Ranking.KEYWORD_ONLY)
    for number in meaning:
        found[number] = Ranking.WORDS_AND_MEANING if number in found else Ranking.MEANING_ONLY
    return [(number, found[number]) for number in sorted(scores, key=lambda number: -scores[number])]


class MemorySearch:
    """Finds memories in the tables; `scopes` says what each place stands for. Without `embedder` by words alone."""

    def __init__(
        self, store: Store, scopes: Mapping[Place, MemoryScope], clock: Clock, embedder: Embedder | None
    ) -> None:
        self._store = store
        self._scopes = scopes
        self._meaning = VectorIndex(store, embedder, clock) if embedder is not None else None

    def search(self, query: str, places: Sequence[Place], limit: int, signal: AbortSignal) -> MemorySearchResult:
        """Blocks, with a model for seconds. A model that fails is a note, and the words still count.

        Raises OperationCancelled, StorageFailed.
        """
        words = self._match_words(query, places, limit)
        ranking, nearest, notes = Ranking.KEYWORD_ONLY, NearestVectors(()), ()
        if self._meaning is not None:
            try:
                nearest = self._meaning.nearest(query, places, limit, signal)
            except EmbeddingError as failure:
                notes = (f"{Ranking.KEYWORD_ONLY}: the semantic model failed: {failure}.",)
            else:
                ranking, notes = Ranking.WORDS_AND_MEANING, _notes_about(nearest)
        order = fused(words, nearest.numbers)[:limit]
        entries = self._entries([number for number, _ in order])
        found = [
            MemoryMatch(entries[number], snippet_of(entries[number].value, query), by)
            for number, by in order
            if number in entries
        ]
        return MemorySearchResult(tuple(found), ranking, notes)

    def _match_words(self, query: str, places: Sequence[Place], limit: int) -> WordMatches:
        try:
            with self._store.read(SCHEMA) as db:
                return match_words(db, query, places, limit)
        except IndexDamagedError:
            with self._store.write(SCHEMA) as db:
                db.execute(REBUILD_WORDS)
                return match_words(db, query, places, limit)

    def _entries(self, numbers: Sequence[int]) -> dict[int, MemoryEntry]:
        """Those that are still there."""
        with self._store.read(SCHEMA) as db:
            rows = db.execute(
                f"SELECT number, key, value, place, changed_at FROM memories WHERE number IN ({marks(numbers)})",
                numbers,
            )
            return {row[0]: MemoryEntry(row[1], row[2], self._scopes[row[3]], row[4]) for row in rows}


def _notes_about(nearest: NearestVectors) -> tuple[str, ...]:
    notes: list[str] = []
    if nearest.unread:
        many = f"{nearest.unread:,} memories are" if nearest.unread > 1 else "1 memory is"
        notes.append(f"{many} not read for meaning yet and found by words alone; the next search goes on")
    if nearest.fault:
        notes.append(f"what was read for meaning could not be kept: {nearest.fault}")
    return tuple(notes)
