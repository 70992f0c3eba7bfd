"""Search by meaning: a vector for each memory."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.clock import Clock
from ollm_tui.core.base.errors import StorageFailed
from ollm_tui.core.memory.entries import SCHEMA, ScopeKey, placeholders
from ollm_tui.core.search.embedder import Comparison, Embedder
from ollm_tui.core.storage.store import Store

HEAD_CHARS = 500
"""How much of a value goes into its vector: longer texts take seconds. The rest is found by words alone."""

READING_SECONDS = 5.0
"""How long one search makes new vectors; the next one goes on."""

_BATCH = 16
"""Vectors stored at once, and so lost at most when the process is killed."""


@dataclass(frozen=True)
class NearestVectors:
    """Numbers of memories whose meaning fits, best first; `unread` counts those without a vector so far."""

    numbers: tuple[int, ...]
    unread: int = 0
    storage_error: str = ""
    """Why vectors could not be stored, if so; they are made again next time."""


@dataclass(frozen=True)
class _Known:
    """The vectors of some scopes, valid as long as the tables have this revision."""

    revision: int
    places: tuple[ScopeKey, ...]
    numbers: tuple[int, ...]
    comparison: Comparison | None
    """None without numbers."""
    unread: tuple[int, ...]


class VectorIndex:
    """The vectors of all memories, by one model. Blocks for seconds: for worker threads only.

    The last ones used stay in memory (1.5 KB each): reading them takes several times as long as comparing.
    """

    def __init__(self, store: Store, embedder: Embedder, clock: Clock) -> None:
        self._store = store
        self._embedder = embedder
        self._clock = clock
        self._last: _Known | None = None

    def nearest(self, query: str, places: Sequence[ScopeKey], limit: int, signal: AbortSignal) -> NearestVectors:
        """Make missing vectors for up to READING_SECONDS, then compare all. Raises EmbeddingError."""
        known = self._known(tuple(places))
        unread, made, error = [*known.unread], dict[int, bytes](), ""
        deadline = self._clock.monotonic() + READING_SECONDS
        while unread and self._clock.monotonic() < deadline:
            batch, unread = unread[:_BATCH], unread[_BATCH:]
            texts = self._texts(batch)
            new: dict[int, bytes] = {}
            try:
                for number, vector in self._vectors(texts, deadline, signal):
                    new[number] = vector
            finally:
                error = self._store_vectors(texts, new) or error
            made |= new
            unread = [number for number in batch if number in texts and number not in new] + unread
        signal.throw_if_aborted()
        return NearestVectors(self._ranked(query, known, made, limit), len(unread), error)

    def _known(self, places: tuple[ScopeKey, ...]) -> _Known:
        with self._store.read(SCHEMA) as db:
            revision = db.execute("SELECT revision FROM memory_revision").fetchone()[0]
            last = self._last
            if last is not None and (last.revision, last.places) == (revision, places):
                return last
            rows = db.execute(
                "SELECT m.number, v.vector FROM memories m "
                "LEFT JOIN memory_vectors v ON v.number = m.number AND v.model = ? "
                f"WHERE m.place IN ({placeholders(places)}) ORDER BY m.number DESC",
                (self._embedder.name, *places),
            ).fetchall()
        vectors = {number: vector for number, vector in rows if vector is not None}
        comparison = self._embedder.comparison([*vectors.values()]) if vectors else None
        unread = tuple(number for number, vector in rows if vector is None)
        self._last = _Known(revision, places, tuple(vectors), comparison, unread)
        return self._last

    def _texts(self, numbers: Sequence[int]) -> dict[int, tuple[str, str]]:
        """Return key and head of each value; a memory deleted meanwhile is missing."""
        with self._store.read(SCHEMA) as db:
            rows = db.execute(
                f"SELECT number, key, substr(value, 1, {HEAD_CHARS}) FROM memories "
                f"WHERE number IN ({placeholders(numbers)})",
                numbers,
            )
            found = {number: (key, head) for number, key, head in rows}
        return {number: found[number] for number in numbers if number in found}

    def _vectors(
        self, texts: dict[int, tuple[str, str]], deadline: float, signal: AbortSignal
    ) -> Generator[tuple[int, bytes]]:
        for number, (key, head) in texts.items():
            signal.throw_if_aborted()
            if self._clock.monotonic() >= deadline:
                return
            yield number, self._embedder.passage(f"{key[:HEAD_CHARS]}: {head}")

    def _store_vectors(self, texts: dict[int, tuple[str, str]], made: dict[int, bytes]) -> str:
        """Store the vectors of unchanged texts; return why that cannot be done."""
        if not made:
            return ""
        try:
            with self._store.write(SCHEMA) as db:
                db.executemany(
                    "INSERT OR REPLACE INTO memory_vectors(number, model, vector) SELECT number, ?, ? FROM memories "
                    f"WHERE number = ? AND key = ? AND substr(value, 1, {HEAD_CHARS}) = ?",
                    [(self._embedder.name, vector, number, *texts[number]) for number, vector in made.items()],
                )
        except StorageFailed as failure:
            return failure.message
        return ""

    def _ranked(self, query: str, known: _Known, made: dict[int, bytes], limit: int) -> tuple[int, ...]:
        comparisons = [known.comparison] if known.comparison is not None else []
        comparisons += [self._embedder.comparison([*made.values()])] if made else []
        if not comparisons:
            return ()
        vector = self._embedder.query(query)
        likeness = [near for comparison in comparisons for near in comparison(vector)]
        floor = max(self._embedder.chance, max(likeness) - self._embedder.spread)
        near_enough = [
            (-near, number) for near, number in zip(likeness, (*known.numbers, *made), strict=True) if near >= floor
        ]
        return tuple(number for _, number in sorted(near_enough)[:limit])
