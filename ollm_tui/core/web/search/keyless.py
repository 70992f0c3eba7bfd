"""ddgs: searching without a key, by a package that reads the result pages of public engines (an optional extra)."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import SearchFailed
from ollm_tui.core.base.visible import visible
from ollm_tui.core.web.client import WebAccess
from ollm_tui.core.web.search.base import SEARCH_SECONDS, Found

_NOTHING = "no results found"
"""What ddgs raises (without a type of its own) when engines answered and had nothing."""

Query = Callable[[str, int], Sequence[Mapping[str, str]]]
"""Runs one search; blocking."""


class Ddgs:
    """The keyless provider. `query` stands in for the package in tests."""

    name = "ddgs"

    def __init__(self, query: Query | None = None) -> None:
        self._query = query or _ask_ddgs

    async def search(self, web: WebAccess, query: str, count: int, signal: AbortSignal) -> Sequence[Found]:
        """ddgs has its own connections: to the engines it knows alone, never to an address that a model names."""
        results = await signal.in_thread(self._asked, query, count)
        return [Found(one.get("title", ""), one.get("href", ""), one.get("body", "")) for one in results]

    def _asked(self, query: str, count: int) -> Sequence[Mapping[str, str]]:
        try:
            return self._query(query, count)
        except Exception as error:  # noqa: BLE001  # every engine it asks has failures of its own kind
            raise_unless_nothing(error)
            return []


def raise_unless_nothing(error: Exception) -> None:
    """Raises SearchFailed, unless the error only says that nothing was found."""
    kind, said = type(error).__name__, visible(str(error))[:300]
    if kind == "DDGSException" and said.lower().rstrip(".") == _NOTHING:
        return
    if kind == "RatelimitException":
        reason = "the engines get too many requests from here"
    elif kind == "TimeoutException":
        reason = f"the engines did not answer within {SEARCH_SECONDS:g} s"
    else:
        reason = f"the engines blocked the search or could not be reached ({kind}: {said})"
    raise SearchFailed(
        f"ddgs did not search: {reason}. Wait and try again, check the connection, or set [web] searxng_url or "
        "brave_key for a provider that does not depend on this.",
        {"reason": reason},
    ) from None


def _ask_ddgs(query: str, count: int) -> Sequence[Mapping[str, str]]:
    ddgs = cast(Any, importlib.import_module("ddgs"))  # Any: an optional package, which has no types to rely on
    engine = ddgs.DDGS(timeout=int(SEARCH_SECONDS))
    return cast("list[dict[str, str]]", engine.text(query, max_results=max(count, 10)))  # as above
