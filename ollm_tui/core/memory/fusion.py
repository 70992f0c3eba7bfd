"""Two rankings made one: by words and by meaning (reciprocal rank fusion)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ollm_tui.core.memory.entries import Ranking
from ollm_tui.core.memory.words import WordMatches

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
