"""Which provider searches: the one the settings name, else the first that is configured, else ddgs if installed."""

from __future__ import annotations

import html
import importlib.util
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from pydantic import JsonValue

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import FetchFailed, FetchTimeout, SearchFailed, ToolFailure
from ollm_tui.core.base.escape import visible
from ollm_tui.core.web.client import SEARCH_SECONDS, SearchHit, SearchProvider, WebAccess
from ollm_tui.core.web.ddgs_provider import Ddgs
from ollm_tui.core.web.http_messages import HttpMethod, WebRequest, WebResponse
from ollm_tui.core.web.urls import WebUrl, parse_url

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
    if name is ProviderName.DDGS:
        missing = UnconfiguredProvider("search_provider is ddgs, but it is not installed")
        return Ddgs() if _ddgs_is_installed() else missing
    setting, given, provider = {
        ProviderName.SEARXNG: ("searxng_url", settings.searxng_url, SearXNG),
        ProviderName.BRAVE: ("brave_key", settings.brave_key, Brave),
        ProviderName.TAVILY: ("tavily_key", settings.tavily_key, Tavily),
    }[name]
    if not given:
        return UnconfiguredProvider(f"search_provider is {name}, but {setting} is not set")
    try:
        return provider(given)
    except ToolFailure as error:
        return UnconfiguredProvider(f"{setting} cannot be used: {error.message.rstrip('.')}")


def _ddgs_is_installed() -> bool:
    return importlib.util.find_spec("ddgs") is not None


async def _ask_json(
    web: WebAccess,
    provider: str,
    url: WebUrl,
    signal: AbortSignal,
    *,
    headers: Mapping[str, str] | None = None,
    body: JsonValue = None,
    own: WebUrl | None = None,
) -> dict[str, JsonValue]:
    """Return the object a provider answers with. Raises SearchFailed that names the provider and the remedy."""
    request = WebRequest(
        url=url,
        method=HttpMethod.GET if body is None else HttpMethod.POST,
        headers={"accept": "application/json", **(headers or {})},
        body=None if body is None else json.dumps(body),
        timeout=SEARCH_SECONDS,
    )
    try:
        response = await web.fetch(request, signal, own=own)
    except (FetchFailed, FetchTimeout) as failure:
        raise SearchFailed(f"{provider} gave no answer: {failure.message}", failure.details) from None
    _refuse_status(provider, url, response)
    try:
        answer: JsonValue = json.loads(response.body)
    except (ValueError, RecursionError):
        raise _unreadable(provider, url, "it is not JSON") from None
    if not isinstance(answer, dict):
        raise _unreadable(provider, url, "it is not a JSON object")
    return answer


def _hits(
    answer: Mapping[str, JsonValue], provider: str, url: WebUrl, path: Sequence[str], snippet: str = "content"
) -> list[SearchHit]:
    """Return the results below `path`. Raises SearchFailed where there is something else."""
    value: JsonValue = dict(answer)
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    if not isinstance(value, list):
        raise _unreadable(provider, url, f"it has no list of results under {'.'.join(path)}")
    texts = [[one.get(name) for name in ("title", "url", snippet)] for one in value if isinstance(one, dict)]
    return [SearchHit(*(text if isinstance(text, str) else "" for text in one)) for one in texts]


def _refuse_status(provider: str, url: WebUrl, response: WebResponse) -> None:
    if response.redirect is not None:
        raise SearchFailed(f"{provider} redirects to {response.redirect.text}. Set its address in [web] anew.")
    status = response.status
    if status < 300:
        return
    match status:
        case 429 | 503:
            wait = visible(response.headers.get("retry-after", ""))[:40]
            reason = "it gets too many requests" + (f" (try again after {wait})" if wait else "")
            remedy = "Wait, or use another provider: [web] search_provider."
        case 401:
            reason, remedy = "it does not accept the key", "Check the key in the [web] settings."
        case 402:
            reason, remedy = "its plan is used up", "Wait for the next period, or use another provider."
        case 403:
            reason = "it refuses the request (blocked, a wrong key, or its JSON form is switched off)"
            remedy = "Check the key; for SearXNG allow json under search.formats of its settings.yml."
        case _:
            reason, remedy = f"HTTP {status}: {response.reason}", "Check its address in the [web] settings."
    raise SearchFailed(
        f"{provider} did not search: {reason}. {remedy}",
        {"status": status, "url": f"{url.scheme}://{url.host_and_port}"},
    )


def _unreadable(provider: str, url: WebUrl, reason: str) -> SearchFailed:
    return SearchFailed(
        f"{provider}: the answer cannot be read: {reason}. Check that a search server answers at "
        f"{url.scheme}://{url.host_and_port}, or use another provider: [web] search_provider.",
        {"reason": reason},
    )


BRAVE_URL = "https://api.search.brave.com/res/v1/web/search"
TAVILY_URL = "https://api.tavily.com/search"
_MOST = 20
"""What either gives at once."""


class Brave:
    """Brave Search. `url` stands in for the service in tests."""

    name = "Brave Search"

    def __init__(self, key: str, url: str = BRAVE_URL) -> None:
        self._key = key
        self._url = parse_url(url)

    async def search(self, web: WebAccess, query: str, count: int, signal: AbortSignal) -> Sequence[SearchHit]:
        """Ask the provider. Raises SearchFailed."""
        asked = urlencode({"q": query[:400], "count": min(_MOST, max(count, 5))})
        url = parse_url(f"{self._url.text}?{asked}")
        headers = {"x-subscription-token": self._key}
        answer = await _ask_json(web, self.name, url, signal, headers=headers, own=self._url)
        if answer.get("web") is None and isinstance(answer.get("query"), dict):
            return []  # an answer without web results has no such part
        return _hits(answer, self.name, url, ("web", "results"), "description")


class Tavily:
    """Tavily. `url` stands in for the service in tests."""

    name = "Tavily"

    def __init__(self, key: str, url: str = TAVILY_URL) -> None:
        self._key = key
        self._url = parse_url(url)

    async def search(self, web: WebAccess, query: str, count: int, signal: AbortSignal) -> Sequence[SearchHit]:
        """Ask the provider. Raises SearchFailed."""
        answer = await _ask_json(
            web,
            self.name,
            self._url,
            signal,
            headers={"authorization": f"Bearer {self._key}"},
            body={"query": query, "max_results": min(_MOST, max(count, 5))},
            own=self._url,
        )
        return _hits(answer, self.name, self._url, ("results",))


MAX_PAGES = 3
"""Pages asked for until there are enough results."""


class SearXNG:
    """The server that `[web] searxng_url` names; it may be on this machine or in the local network."""

    def __init__(self, url: str) -> None:
        """Raise ToolFailure for an address that is none."""
        given = url if "://" in url else f"http://{url}"
        self._base = parse_url(given.rstrip("/").removesuffix("/search"))

    @property
    def name(self) -> str:
        """What people call it."""
        return f"SearXNG at {self._base.scheme}://{self._base.host_and_port}"

    async def search(self, web: WebAccess, query: str, count: int, signal: AbortSignal) -> Sequence[SearchHit]:
        """Ask the provider. Raises SearchFailed."""
        found: list[SearchHit] = []
        for page in range(1, MAX_PAGES + 1):
            more = await self._page(web, query, page, signal)
            found += more
            if not more or len(found) >= 2 * count:  # duplicates go later
                break
        return found

    async def _page(self, web: WebAccess, query: str, page: int, signal: AbortSignal) -> list[SearchHit]:
        asked = urlencode({"q": query, "format": "json", "pageno": page})
        url = parse_url(f"{self._base.text.rstrip('/')}/search?{asked}")
        answer = await _ask_json(web, self.name, url, signal, own=self._base)
        hits = _hits(answer, self.name, url, ("results",))
        silent = _silent_engines(answer.get("unresponsive_engines"))
        if not hits and silent and page == 1:
            raise SearchFailed(
                f"{self.name} found nothing because its engines did not answer: {silent}. "
                "Try again later, or switch other engines on there."
            )
        return hits


def _silent_engines(listed: JsonValue) -> str:
    """`name (reason)` of each engine that was blocked or broken: an empty list then means failure, not "nothing"."""
    if not isinstance(listed, list):
        return ""
    pairs = [entry for entry in listed if isinstance(entry, list) and len(entry) >= 2]
    return ", ".join(f"{visible(str(pair[0]))} ({visible(str(pair[1]))})" for pair in pairs)[:300]


MAX_TITLE = 300
MAX_SNIPPET = 1_000

_TAG = re.compile(r"<[A-Za-z/!][^<>]{0,500}>")
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]")
_TRACKING = re.compile(
    r"(?i)utm_\w*|gclid|gclsrc|dclid|gbraid|wbraid|fbclid|msclkid|yclid|twclid|ttclid|igshid|igsh|mc_cid|mc_eid"
    r"|_hsenc|_hsmi|__hstc|__hssc|hsctatracking|mkt_tok|oly_\w+_id|vero_(?:conv|id)|rb_clickid|s_cid|wickedid"
    r"|ref_src|ref_url|spm|scm|_openstat|sr_share|guccounter|guce_referrer\w*"
)
_REDIRECTORS = {"duckduckgo.com": ("/l/", "uddg"), "www.google.com": ("/url", "q"), "r.search.yahoo.com": ("/", "RU")}
_ADS = re.compile(r"^https?://(?:[\w-]+\.)*(?:duckduckgo\.com/y\.js|bing\.com/aclick|googleadservices\.com/)")


def normalised(found: Iterable[SearchHit], limit: int) -> list[SearchHit]:
    """At most `limit` results, best first: one a page, http(s) only, plain text, no tracking parameters, no ads."""
    kept: list[SearchHit] = []
    seen: set[str] = set()
    for result in found:
        if len(kept) >= limit:
            break
        url = clean_url(result.url)
        if url is None or (identity := page_identity(url)) in seen:
            continue
        seen.add(identity)
        title = plain(result.title)[:MAX_TITLE] or url
        kept.append(SearchHit(title, url, plain(result.snippet)[:MAX_SNIPPET]))
    return kept


def clean_url(url: str) -> str | None:
    """Return the address itself: unwrapped from a search engine's redirect, without tracking; None where it is none."""
    url = html.unescape(url.strip())
    if url.startswith("//"):
        url = f"https:{url}"
    if not url.lower().startswith(("http://", "https://")) or _ADS.match(url):
        return None
    try:
        url = _unwrapped(url)
        text = parse_url(url).text
        parts = urlsplit(text)
    except (ToolFailure, ValueError):
        return None
    fragment = urlsplit(url).fragment
    return urlunsplit((parts.scheme, parts.netloc, parts.path, _without_tracking(parts.query), fragment))


def page_identity(url: str) -> str:
    """Return what two addresses of the same page have in common."""
    parts = urlsplit(url)
    host = parts.netloc.lower().removeprefix("www.").removesuffix(":443").removesuffix(":80")
    query = urlencode(sorted(parse_qsl(parts.query, keep_blank_values=True)))
    return f"{host}{unquote(parts.path).rstrip('/')}?{query}"


def plain(text: str) -> str:
    """Text on one line without tags, entities and characters nobody sees."""
    return " ".join(_UNSEEN.sub("", html.unescape(_TAG.sub("", text))).split())


def _unwrapped(url: str) -> str:
    for _ in range(3):
        parts = urlsplit(url)
        path, name = _REDIRECTORS.get(parts.hostname or "", ("", ""))
        if not name or not parts.path.startswith(path):
            return url
        target = dict(parse_qsl(parts.query)).get(name, "")
        if not target.startswith(("http://", "https://", "//")):
            return url
        url = f"https:{target}" if target.startswith("//") else target
    return url


def _without_tracking(query: str) -> str:
    """Other parameters stay exactly as they are written."""
    return "&".join(part for part in query.split("&") if not _TRACKING.fullmatch(part.split("=", 1)[0]))
