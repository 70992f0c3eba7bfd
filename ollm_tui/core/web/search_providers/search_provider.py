"""What a search provider is, and what it finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ollm_tui.core.base.abort import AbortSignal

if TYPE_CHECKING:
    from ollm_tui.core.web.client import WebAccess

SEARCH_SECONDS = 20.0
"""How long one search may take."""


@dataclass(frozen=True)
class SearchHit:
    """One result as its provider wrote it; cleaned by `normalised`."""

    title: str
    url: str
    snippet: str = ""


class SearchProvider(Protocol):
    """Finds pages by words."""

    @property
    def name(self) -> str:
        """For people: "SearXNG at http://127.0.0.1:8888"."""
        ...

    async def search(self, web: WebAccess, query: str, count: int, signal: AbortSignal) -> Sequence[SearchHit]:
        """Results best first, about `count` of them; none is an empty list.

        Raises SearchFailed for rate limits, blocks, refusals and answers that cannot be read; UrlNotAllowed,
        OperationCancelled.
        """
        ...
