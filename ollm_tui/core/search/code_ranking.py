"""Ask a code index: the places whose words answer a query, best first, and those near to it in meaning."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ollm_tui.core.search.code_tables import PLACE_BITS, in_parts

MOST_TERMS = 32
A_FILE = 3
"""Most places of one file among the results, so that one file does not fill them."""
LIKELY_FILES = 30
"""Files, best first, whose places are looked at: each place costs 2 µs; 60 found nothing more for 240 questions."""
CANDIDATES = 300
"""Places that are looked at more closely for a query."""

# What a file is about: all of its words, and those that name and describe what is in it. One statement, so that of the
# thousands of files with one of the words only the best become objects here.
_LIKELY = """
SELECT id, path, score * (1 - test * :less) AS score, 1 - test * :less FROM (
    SELECT id, SUM(score) AS score FROM (
        SELECT rowid AS id, bm25(whole, 3.0, 2.0, 1.0) AS score FROM whole WHERE whole MATCH :match
        UNION ALL SELECT rowid, bm25(outline) FROM outline WHERE outline MATCH :match)
    GROUP BY id)
JOIN files USING (id) WHERE ({below}) ORDER BY 3 LIMIT :likely
"""
_PLACES = f"""
SELECT rowid, bm25(words, 3.0, 4.0, 1.0) AS score FROM words WHERE words MATCH :match
AND rowid >> {PLACE_BITS} IN (SELECT value FROM json_each(:files)) ORDER BY score LIMIT :candidates
"""
_NEAR = f"""
SELECT chunks.id, path FROM chunks JOIN files ON files.id = chunks.id >> {PLACE_BITS}
WHERE chunks.id IN (SELECT value FROM json_each(:near)) AND ({{below}})
"""
_EVENNESS = 60
"""Of reciprocal rank fusion (Cormack, Clarke, Büttcher 2009): how little the very first ranks count more."""
_FILE_COUNTS = 2.0
"""How much more what the whole file is about counts than the place in it; its next best places count as well."""
_TESTS_COUNT_LESS = 0.3
"""By how much, unless a question is about tests: they say the same words as the code, and more often."""
_TEST_WORDS = frozenset(["test", "tests", "tested", "testing", "fixture", "fixtures", "spec", "specs"])
_TERM = re.compile(r"[^\W_]+")
_SMALL_WORDS = """
    a an and are as at be by can do does for from has have how i if in into is it its of on one or so some such than
    that the their them then there these this to was we what when where which while who with without you
"""
"""Words that stand in every question and say nothing about the code."""


class RankedPlace(NamedTuple):
    """A place of an index by its number, and the path of its file."""

    number: int
    path: bytes


@dataclass
class _LikelyFile:
    """A file that may answer; what scores less is better, as in FTS5."""

    path: bytes
    score: float
    factor: float
    """What its places count."""
    places: list[tuple[float, int]]
    """Score and number, best first."""

    @property
    def total(self) -> float:
        """What each of its places scores more."""
        return _FILE_COUNTS * self.score + sum(score for score, _ in self.places[1:A_FILE])


@dataclass(frozen=True)
class Condition:
    """A condition on `files.path`, and its parameters."""

    sql: str
    values: dict[str, bytes]


def terms_of(query: str) -> list[str]:
    """Return the words of a query that say something, names of code in their parts."""
    small = _SMALL_WORDS.split()
    words = [word.lower() for word in _TERM.findall(in_parts(query))]
    return list(dict.fromkeys(word for word in words if word not in small) or dict.fromkeys(words))[:MOST_TERMS]


def condition_of(below: Sequence[bytes]) -> Condition:
    """Return what is true of the files in some files or directories; of all where there are none."""
    values: dict[str, bytes] = {}
    for number, path in enumerate(below):
        values |= {f"at{number}": path, f"from{number}": path + b"/", f"to{number}": path + b"0"}
    place = "path = :at{0} OR (path > :from{0} AND path < :to{0})"
    return Condition(" OR ".join(place.format(number) for number in range(len(below))) or "TRUE", values)


def places_by_words(db: sqlite3.Connection, terms: Sequence[str], inside: Condition) -> list[RankedPlace]:
    """Return the places with words of a query, best first."""
    if not terms:
        return []
    match = " OR ".join(f'"{term}"' for term in terms)
    less = 0.0 if _TEST_WORDS.intersection(terms) else _TESTS_COUNT_LESS
    asked = {"match": match, "less": less, "likely": LIKELY_FILES, **inside.values}
    files = {
        number: _LikelyFile(path, score, factor, [])
        for number, path, score, factor in db.execute(_LIKELY.format(below=inside.sql), asked)
    }
    asked = {"match": match, "files": json.dumps(list(files)), "candidates": CANDIDATES}
    for number, score in db.execute(_PLACES, asked):
        file = files[number >> PLACE_BITS]
        file.places.append((score * file.factor, number))
    found = [
        (score + total, RankedPlace(number, file.path))
        for file in files.values()
        for total in (file.total,)
        for score, number in file.places
    ]
    return [place for _, place in sorted(found, key=lambda each: each[0])]


def places_by_number(db: sqlite3.Connection, numbers: Sequence[int], inside: Condition) -> list[RankedPlace]:
    """Return places in the order of their numbers, without those elsewhere or gone."""
    rows = db.execute(_NEAR.format(below=inside.sql), {"near": json.dumps(numbers), **inside.values})
    paths: dict[int, bytes] = dict(rows.fetchall())
    return [RankedPlace(number, paths[number]) for number in numbers if number in paths]


def fused(*rankings: Sequence[RankedPlace]) -> list[RankedPlace]:
    """Merge rankings of the same places by what they rank."""
    scores: dict[RankedPlace, float] = {}
    for ranking in rankings:
        for rank, place in enumerate(ranking):
            scores[place] = scores.get(place, 0.0) + 1 / (_EVENNESS + rank)
    return sorted(scores, key=scores.__getitem__, reverse=True)


def first_of_each(ranked: Sequence[RankedPlace], limit: int) -> list[RankedPlace]:
    """Return the first places, but for further ones of a file that has enough of them."""
    found: list[RankedPlace] = []
    count: dict[bytes, int] = {}
    for place in ranked:
        if len(found) == limit:
            break
        count[place.path] = count.get(place.path, 0) + 1
        if count[place.path] <= A_FILE:
            found.append(place)
    return found
