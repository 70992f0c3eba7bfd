"""Finding memories by their words: BM25 over SQLite's full-text index, and plain text where no word fits."""

from __future__ import annotations

import re
import sqlite3
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from ollm_tui.core.memory.tables import UNSPACED, Place, marks, searchable, unspaced_letter
from ollm_tui.core.storage.sqlite_file import is_index_damage

SNIPPET_CHARS = 240
"""How much of a value a search shows around the first word found."""

_SEARCHED_WORDS = 32

_BY_WORDS = """SELECT m.number FROM memory_index JOIN memories m ON m.number = memory_index.rowid
    WHERE memory_index MATCH ? AND m.place IN ({marks}) ORDER BY bm25(memory_index, 3.0, 1.0), m.number LIMIT ?"""

_BY_TEXT = """SELECT number FROM memories
    WHERE place IN ({marks}) AND (instr({fold}(key), ?) OR instr({fold}(value), ?)) ORDER BY key LIMIT ?"""


class IndexDamaged(Exception):
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
            raise IndexDamaged from error
        raise


def _lower(text: str) -> str:
    """As SQLite's `lower`: the letters of ASCII alone."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)
