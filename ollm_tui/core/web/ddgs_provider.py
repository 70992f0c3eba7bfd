"""ddgs: searching without a key, by a package that reads the result pages of public engines (an optional extra)."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import SearchFailed
from ollm_tui.core.base.escape import visible
from ollm_tui.core.web.child_process import ChildRunError, run_python
from ollm_tui.core.web.client import SEARCH_SECONDS, SearchHit, WebAccess

ENGINE_SECONDS = 8.0
"""What each engine gets; several are asked, some of them one after the other."""

_CHILD = Path(__file__).with_name("ddgs_process.py")
_ENCYCLOPAEDIAS = ("wikipedia.org", "grokipedia.com")
"""Asked first, and they seldom have anything: that they answered does not mean that the web was searched."""


@dataclass(frozen=True)
class DdgsHit:
    """A result as ddgs writes it."""

    title: str = ""
    href: str = ""
    body: str = ""


@dataclass(frozen=True)
class EngineAnswer:
    """What an engine did; `said` is empty where it answered with a page that is no refusal."""

    host: str
    said: str = ""


@dataclass(frozen=True)
class DdgsOutcome:
    """One search: what was found, what each engine answered, and what ddgs raised."""

    results: tuple[DdgsHit, ...] = ()
    answers: tuple[EngineAnswer, ...] = ()
    error: str = ""

    @property
    def searched(self) -> bool:
        """Whether an engine that knows the web looked, and did not refuse."""
        return any(not answer.said and not answer.host.endswith(_ENCYCLOPAEDIAS) for answer in self.answers)


Query = Callable[[str, int, AbortSignal], Awaitable[DdgsOutcome]]
"""Runs one search. Raises SearchFailed, OperationCancelled."""


class Ddgs:
    """The keyless provider. `query` stands in for the package in tests.

    It has connections of its own, to the engines it knows: never to an address that a model names, but not by our
    checked ones either. So it runs in a process that ends with the search, whose environment holds no secrets.
    """

    name = "ddgs"

    def __init__(self, query: Query | None = None) -> None:
        self._query = query or ask_ddgs

    async def search(self, web: WebAccess, query: str, count: int, signal: AbortSignal) -> Sequence[SearchHit]:
        """Search in a child process. Raises SearchFailed."""
        outcome = await self._query(query, max(count, 10), signal)
        if not outcome.results and not outcome.searched:
            raise _failed(_why(outcome), outcome)
        return [SearchHit(hit.title, hit.href, hit.body) for hit in outcome.results]


async def ask_ddgs(query: str, count: int, signal: AbortSignal) -> DdgsOutcome:
    """Ask the package, in a process that is killed on abort and after SEARCH_SECONDS."""
    asked = json.dumps({"query": query, "count": count, "seconds": ENGINE_SECONDS}).encode()
    proxies = tuple(name for name in os.environ if name.lower().endswith("_proxy"))
    try:
        async with asyncio.timeout(SEARCH_SECONDS):
            said = await run_python([str(_CHILD)], asked, signal, passed=proxies)
    except TimeoutError:
        raise _failed(f"the engines did not answer within {SEARCH_SECONDS:g} s") from None
    except ChildRunError as failure:
        raise _failed(f"its process failed: {failure}") from None
    try:
        return TypeAdapter(DdgsOutcome).validate_json(said)
    except ValidationError:
        raise _failed("its answer cannot be read; another version of it may be needed") from None


def _why(outcome: DdgsOutcome) -> str:
    refused: dict[str, dict[str, None]] = {}
    for answer in outcome.answers:
        if answer.said:
            refused.setdefault(visible(answer.said), {})[visible(answer.host)] = None
    if refused:
        told = "; ".join(f"{said} ({', '.join(hosts)})" for said, hosts in refused.items())
        return f"the engines blocked the search or could not be reached: {told}"
    return visible(outcome.error) or "no engine was asked"


def _failed(reason: str, outcome: DdgsOutcome | None = None) -> SearchFailed:
    asked = [] if outcome is None else sorted({answer.host for answer in outcome.answers})
    return SearchFailed(
        f"ddgs did not search: {reason}. Wait and try again, check the connection, or set [web] searxng_url or "
        "brave_key for a provider that does not depend on this.",
        {"reason": reason, "engines": list(asked)},
    )
