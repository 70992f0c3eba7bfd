"""Guessing the 8-bit or East Asian encoding of bytes that are not UTF-8, by what the decoded text would be.

Wrong guesses cost a wrongly shown letter, never a byte: the caller takes only encodings that round-trip exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

_SAMPLE = 64 * 1024
_CONVINCING = 0.25
"""Share of the text beyond ASCII that has to be what the language uses most."""

# The most frequent characters of running text, as far as they tell the languages and encodings apart.
_SIMPLIFIED = frozenset(
    "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里"
)
_TRADITIONAL = frozenset(
    "的一是不了在人有我他這個們中來上大為和國地到以說時要就出會可也你對生能而子那得於著下自之年過發後作裡"
)
_RUSSIAN = frozenset("оеаинтсрвлкмдпу")


def guess_legacy(raw: bytes) -> Iterator[str]:
    """Codec names, the likeliest first; each is to be tried on the whole data."""
    sample = raw[:_SAMPLE]
    if not _mostly_alone(sample):
        scores = {codec: _score(sample, codec, rate) for codec, rate in _CANDIDATES.items()}
        yield from sorted((codec for codec in scores if scores[codec] >= _CONVINCING), key=lambda c: -scores[c])
    yield "cp1252"


def _mostly_alone(sample: bytes) -> bool:
    """Whether bytes beyond ASCII stand between ASCII ones, as accented letters in western words do."""
    high = [index for index, byte in enumerate(sample) if byte >= 0x80]
    beside = sum(1 for one, other in pairwise(high) if other == one + 1)
    return beside * 2 < len(high)


def _score(sample: bytes, codec: str, rate: Callable[[str], float]) -> float:
    text = ""
    for cut in range(4):  # the sample may end within a character
        try:
            text = sample[: len(sample) - cut].decode(codec)
            break
        except UnicodeDecodeError:
            continue
    foreign = [character for character in text if character > "\x7f"]
    return sum(map(rate, foreign)) / len(foreign) if foreign else 0.0


def _is_kana(character: str) -> float:
    return "\u3041" <= character <= "\u30fe"


def _is_hangul(character: str) -> float:
    return "\uac00" <= character <= "\ud7a3"


_CANDIDATES: dict[str, Callable[[str], float]] = {
    "cp932": _is_kana,
    "euc_jp": _is_kana,
    "cp949": lambda character: _is_hangul(character) * 0.9,
    "gb18030": lambda character: character in _SIMPLIFIED,
    "big5": lambda character: character in _TRADITIONAL,
    "cp1251": lambda character: character in _RUSSIAN,
    "koi8_r": lambda character: character in _RUSSIAN,
    "cp866": lambda character: character in _RUSSIAN,
}
