"""The one search of memory: by words (BM25) and by meaning, by text where no word fits."""

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
from ollm_tui.core.memory.embedding import NearestVectors, VectorIndex
from ollm_tui.core.memory.entries import (
    REBUILD_WORDS,
    SCHEMA,
    UNSPACED,
    MemoryEntry,
    MemoryMatch,
    MemoryScope,
    MemorySearchResult,
    Ranking,
    ScopeKey,
    placeholders,
    searchable,
    unspaced_letter,
)
from ollm_tui.core.search.embedder import Embedder, EmbeddingError
from ollm_tui.core.storage.sqlite_file import is_index_damage
from ollm_tui.core.storage.store import Store

SNIPPET_CHARS = 240
"""How much of a value a search shows around the first word found."""

SEARCH_DEPTH = 1_000
"""Memories ranked at most, whatever part of them is shown: so every part comes from the same order."""

_SEARCHED_WORDS = 32

_BY_WORDS = """SELECT m.number FROM memory_index JOIN memories m ON m.number = memory_index.rowid
    WHERE memory_index MATCH ? AND m.place IN ({places}) ORDER BY bm25(memory_index, 3.0, 1.0), m.number LIMIT ?"""

_BY_TEXT = "SELECT number FROM memories WHERE place IN ({places}) AND ({hits}) ORDER BY key LIMIT ?"


class IndexDamagedError(Exception):
    """The word index does not fit the memories; it can be rebuilt from them."""


@dataclass(frozen=True)
class WordMatches:
    """Numbers of memories, best first."""

    whole: tuple[int, ...]
    """Those with every word of the query; where no word is found, those with its text."""
    partial: tuple[int, ...]
    """Those with some words."""


@dataclass(frozen=True)
class RankedMemories:
    """Numbers of memories, best first, and what each was found by."""

    found: Mapping[int, Ranking]
    ranking: Ranking
    """What all were ranked by."""
    notes: tuple[str, ...] = ()

    @property
    def numbers(self) -> tuple[int, ...]:
        """Return the numbers, best first."""
        return tuple(self.found)


class RankedSearch:
    """Ranks memories for a query; without `embedder` by words alone. `scopes` names the scope of each key."""

    def __init__(
        self, store: Store, scopes: Mapping[ScopeKey, MemoryScope], clock: Clock, embedder: Embedder | None
    ) -> None:
        self._store = store
        self._scopes = scopes
        self._meaning = VectorIndex(store, embedder, clock) if embedder is not None else None

    def rank(self, query: str, places: Sequence[ScopeKey], signal: AbortSignal) -> RankedMemories:
        """Return up to SEARCH_DEPTH memories; a failing model becomes a note. Raises OperationCancelled."""
        words = self._match_words(query, places)
        ranking, nearest, notes = Ranking.KEYWORD_ONLY, NearestVectors(()), ()
        if self._meaning is not None:
            try:
                nearest = self._meaning.nearest(query, places, SEARCH_DEPTH, signal)
            except EmbeddingError as failure:
                notes = (f"{Ranking.KEYWORD_ONLY}: the semantic model failed: {failure}.",)
            else:
                ranking, notes = Ranking.WORDS_AND_MEANING, _notes_about(nearest)
        return RankedMemories(dict(fused(words, nearest.numbers)[:SEARCH_DEPTH]), ranking, notes)

    def matches(self, ranked: RankedMemories, query: str, limit: int) -> MemorySearchResult:
        """Read the best `limit` memories, each with a snippet."""
        numbers = ranked.numbers[:limit]
        with self._store.read(SCHEMA) as db:
            rows = db.execute(
                f"SELECT number, key, value, place, changed_at FROM memories WHERE number IN ({placeholders(numbers)})",
                numbers,
            )
            entries = {row[0]: MemoryEntry(row[1], row[2], self._scopes[row[3]], row[4]) for row in rows}
        found = [
            MemoryMatch(entries[number], snippet_of(entries[number].value, query), ranked.found[number])
            for number in numbers
            if number in entries
        ]
        return MemorySearchResult(tuple(found), ranked.ranking, ranked.notes)

    def _match_words(self, query: str, places: Sequence[ScopeKey]) -> WordMatches:
        try:
            with self._store.read(SCHEMA) as db:
                return match_words(db, query, places)
        except IndexDamagedError:
            with self._store.write(SCHEMA) as db:
                db.execute(REBUILD_WORDS)
                return match_words(db, query, places)


def match_words(db: sqlite3.Connection, query: str, places: Sequence[ScopeKey]) -> WordMatches:
    """Match any text as a query; nothing in it is an operator. Raises IndexDamagedError."""
    words = words_of(query)
    parts = [part for word in words for part in _parts(word)][:_SEARCHED_WORDS]

    def matching(joint: str, terms: Sequence[str]) -> list[int]:
        expression = joint.join(f'"{searchable(term)}"' for term in terms)
        return _numbers(db, _BY_WORDS.format(places=placeholders(places)), (expression, *places, SEARCH_DEPTH))

    whole = matching(" AND ", words) if words else []
    found = frozenset(whole)
    partial = [one for one in matching(" OR ", parts) if one not in found] if len(parts) > 1 else []
    if not whole and not partial:
        whole = _match_text(db, query.strip(), places)
    return WordMatches(tuple(whole), tuple(partial))


def _match_text(db: sqlite3.Connection, text: str, places: Sequence[ScopeKey]) -> list[int]:
    # SQLite folds the letters of ASCII alone; of the others the usual ways of writing are tried.
    ways = sorted({_lower(way) for way in (text, text.lower(), text.upper(), text.title())})
    # Folding every value takes most of the time, and is not needed where the text has no letters to fold.
    fold = "lower" if any("a" <= letter <= "z" for way in ways for letter in way) else ""
    hits = " OR ".join([f"instr({fold}(key), ?) OR instr({fold}(value), ?)"] * len(ways))
    values = [way for one in ways for way in (one, one)]
    return _numbers(db, _BY_TEXT.format(places=placeholders(places), hits=hits), (*places, *values, SEARCH_DEPTH))


def words_of(query: str) -> list[str]:
    """Return the words of a query; a run of letters without blanks counts as one."""
    return [found.group() for found in _word().finditer(unicodedata.normalize("NFKC", query))][:_SEARCHED_WORDS]


def snippet_of(value: str, query: str) -> str:
    """Return one line of `value` around the first hit of the query, else its beginning."""
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
    """Match a word of a query; accents may follow its letters."""
    return re.compile(rf"[{UNSPACED}]+|[^\W_{UNSPACED}](?:[^\W_{UNSPACED}]|[\u0300-\u036f])*")


def _parts(word: str) -> list[str]:
    """Return what of a word counts by itself: in scripts without blanks each pair of letters."""
    unspaced = unspaced_letter().match(word)
    return ["".join(pair) for pair in pairwise(word)] if unspaced and len(word) > 1 else [word]


def _numbers(db: sqlite3.Connection, statement: str, values: Sequence[ScopeKey | int]) -> list[int]:
    try:
        return [row[0] for row in db.execute(statement, values)]
    except sqlite3.DatabaseError as error:
        if is_index_damage(error):
            raise IndexDamagedError from error
        raise


def _lower(text: str) -> str:
    """Fold as SQLite's `lower`: the letters of ASCII alone."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)


_RANK_OFFSET = 60
"""How little the first ranks count more than later ones; the usual constant of reciprocal rank fusion."""

_PARTIAL_WEIGHT = 0.5
"""Some of the words, often the small ones of a question, say less than all of them or the same meaning."""


def fused(words: WordMatches, meaning: Sequence[int]) -> list[tuple[int, Ranking]]:
    """Merge the rankings: numbers, best first, each once, with what it was found by; ties keep their order."""
    scores: defaultdict[int, float] = defaultdict(float)
    by_words = [*words.whole, *words.partial]
    for rank, number in enumerate(by_words, 1):
        scores[number] += (1.0 if rank <= len(words.whole) else _PARTIAL_WEIGHT) / (_RANK_OFFSET + rank)
    for rank, number in enumerate(meaning, 1):
        scores[number] += 1.0 / (_RANK_OFFSET + rank)
    found = dict.fromkeys(by_words, Ranking.KEYWORD_ONLY)
    for number in meaning:
        found[number] = Ranking.WORDS_AND_MEANING if number in found else Ranking.MEANING_ONLY
    return [(number, found[number]) for number in sorted(scores, key=lambda number: -scores[number])]


def _notes_about(nearest: NearestVectors) -> tuple[str, ...]:
    notes: list[str] = []
    if nearest.unread:
        many = f"{nearest.unread:,} memories are" if nearest.unread > 1 else "1 memory is"
        notes.append(f"{many} not read for meaning yet and found by words alone; the next search goes on")
    if nearest.storage_error:
        notes.append(f"what was read for meaning could not be kept: {nearest.storage_error}")
    return tuple(notes)
