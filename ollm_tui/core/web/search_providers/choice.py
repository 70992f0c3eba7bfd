"""Which provider searches: the one the settings name, else the first that is configured, else ddgs if installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import SearchFailed, ToolFailure
from ollm_tui.core.web.client import SearchHit, SearchProvider, WebAccess
from ollm_tui.core.web.search_providers.ddgs_provider import Ddgs
from ollm_tui.core.web.search_providers.json_providers import Brave, SearXNG, Tavily

HOW_TO_CONFIGURE = (
    "Set [web] searxng_url, brave_key or tavily_key in config.toml, or install the keyless provider: "
    "pip install 'ollm-tui[search]'."
)


class ProviderName(StrEnum):
    """`[web] search_provider`."""

    SEARXNG = "searxng"
    BRAVE = "brave"
    TAVILY = "tavily"
    DDGS = "ddgs"


@dataclass(frozen=True)
class SearchSettings:
    """What the settings say about searching; keys are secrets."""

    provider: ProviderName | None = None
    searxng_url: str | None = None
    brave_key: str | None = None
    tavily_key: str | None = None


@dataclass(frozen=True)
class UnconfiguredProvider:
    """Stands where no provider can search, and says why and what to do."""

    reason: str

    @property
    def name(self) -> str:
        """What people call it."""
        return "no search provider"

    async def search(self, web: WebAccess, query: str, count: int, signal: AbortSignal) -> Sequence[SearchHit]:
        """Raise SearchFailed with the reason."""
        raise SearchFailed(f"No search provider: {self.reason}. {HOW_TO_CONFIGURE}", {"reason": "not configured"})


def choose_provider(settings: SearchSettings) -> SearchProvider:
    """Never fails: what is missing or wrong is told when somebody searches."""
    if settings.provider is not None:
        return _named(settings.provider, settings)
    for name, configured in (
        (ProviderName.SEARXNG, settings.searxng_url),
        (ProviderName.BRAVE, settings.brave_key),
        (ProviderName.TAVILY, settings.tavily_key),
        (ProviderName.DDGS, _ddgs_is_installed()),
    ):
        if configured:
            return _named(name, settings)
    return UnconfiguredProvider("none is configured")


def _named(name: ProviderName, settings: SearchSettings) -> SearchProvider:
    match name:
        case ProviderName.SEARXNG:
            if not settings.searxng_url:
                return UnconfiguredProvider("search_provider is searxng, but searxng_url is not set")
            try:
                return SearXNG(settings.searxng_url)
            except ToolFailure as fault:
                return UnconfiguredProvider(f"searxng_url cannot be used: {fault.message.rstrip('.')}")
        case ProviderName.BRAVE:
            key = settings.brave_key
            return Brave(key) if key else UnconfiguredProvider("search_provider is brave, but brave_key is not set")
        case ProviderName.TAVILY:
            key = settings.tavily_key
            return Tavily(key) if key else UnconfiguredProvider("search_provider is tavily, but tavily_key is not set")
        case ProviderName.DDGS:
            return (
                Ddgs()
                if _ddgs_is_installed()
                else UnconfiguredProvider("search_provider is ddgs, but it is not installed")
            )


def _ddgs_is_installed() -> bool:
    return importlib.util.find_spec("ddgs") is not None
