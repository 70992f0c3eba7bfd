"""Results of any provider in one form: cleaned, without tracking, each page once (000 Property 32)."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from ollm_tui.core.base.errors import ToolFailure
from ollm_tui.core.web.client import SearchHit
from ollm_tui.core.web.urls import parse_url

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
