"""What of a page is worth reading, as Markdown: what a selector asks for, else the main part. Blocks."""

from __future__ import annotations

import importlib
import json
import logging
import re
import resource
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, cast
from urllib.parse import urljoin

from ollm_tui.core.web.html_elements import COLOURED_TAGS, is_gutter_class
from ollm_tui.core.web.html_tree import (
    Node,
    Page,
    above,
    empty,
    outermost,
    parents_of,
    parse_html,
    parse_text,
    select,
    text_of,
    text_sizes,
    to_html,
)
from ollm_tui.core.web.markdown import to_markdown

log = logging.getLogger(__name__)

LEAST_TEXT = 200
"""Characters a main container must hold to be believed; below that it is a shell filled in by scripts."""

MOST_OF_THE_PAGE = 0.7
"""Where readability keeps at least this share of the text, the page is nearly all content and is shown whole."""

MANY_LINKS = 0.25
"""Below this share of text in links what is left of a page without its frame is prose: nothing more is cut away."""

READABILITY_CHARS = 1_000_000
"""Larger pages are not given to readability: it takes several times as long as everything else."""

_NO_TEXT = ("svg", "script", "style", "template", "noscript")
"""A third of many pages, and no text of any: everything that follows would look at each."""

_HIDING_STYLE = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
_ANY_PAGE = "<p>"
_MAIN_IDS = frozenset({"mw-content-text", "bodycontent", "readme", "main-content", "maincontent", "content", "main"})
_MAIN_CLASSES = frozenset({"markdown-body", "post-content", "entry-content", "article-body"})
_CONTAINER_TAGS = frozenset({"article", "div", "section", "td"})
_NEVER_FRAME = frozenset({"html", "body"})
_FRAME_ROLES = frozenset({"navigation", "banner", "contentinfo", "search"})
_FRAME_TAGS = frozenset({"div", "ul", "aside", "section", "td", "table"})
_FRAME_NAMES = re.compile(
    r"(?:^|[\s_-])(?:nav|navbar|navigation|menu|sidebar|breadcrumbs?|footer|nosearch|cookie|banner|skip|pagination"
    r"|related|share|social|newsletter|advert|ads|comments?)(?:$|[\s_-])",
    re.IGNORECASE,
)


class SelectorNotFoundError(Exception):
    """A selector that fits nothing on the page."""


def selector_error(selector: str) -> str | None:
    """Why no page could be asked for it; None for a usable one."""
    try:
        page = parse_html(_ANY_PAGE)
        if page is not None:
            select(page, _ANY_PAGE, selector)
    except ValueError as error:
        return str(error)
    return None


def extract(html: str, selector: str | None, base_url: str) -> str:
    """Return what `extract_selected` or, without a selector, `extract_main` makes of a page."""
    return extract_main(html, base_url) if selector is None else extract_selected(html, selector, base_url)


def extract_selected(html: str, selector: str, base_url: str) -> str:
    """Return the outermost elements that a selector fits, one a line (000 Property 30)."""
    page = parse_html(html)
    found = [] if page is None else select(page, html, selector)
    if page is None or not found:
        raise SelectorNotFoundError
    base = _base_url(page.root, base_url)
    parents = parents_of(page)
    texts = [_markdown(node, base, above(node, parents)) for node in outermost(found)]
    return "\n".join(text for text in texts if text)


def extract_main(html: str, base_url: str) -> str:
    """Return the main part of a page as Markdown, with its title on top; empty where there is no text at all."""
    page = _seen_page(html)
    if page is None:
        return ""
    base = _base_url(page.root, base_url)
    title = _title(page.root)
    text = _main_text(page, html, base)
    starts_with_title = title and title.casefold() in text[: len(title) + 80].casefold()
    return text if not title or starts_with_title or text.startswith("# ") else f"# {title}\n\n{text}".rstrip()


def _seen_page(html: str) -> Page | None:
    """Return a page without what its readers do not see: that is where instructions to a model are hidden."""
    page = parse_text(html, COLOURED_TAGS, is_gutter_class)
    if page is not None:
        without_text = [node for tag in _NO_TEXT for node in page.root.iter(tag)]
        for node in (*without_text, *filter(_is_hidden, page.noted)):
            empty(node)
    return page


def _main_text(page: Page, html: str, base: str) -> str:
    root = page.root
    container = _container(page)
    if container is not None:
        return _markdown(container, base)
    for node in _frame(root):
        empty(node)
    whole = _markdown(root, base)
    sizes = text_sizes(root)
    if sum(sizes[link] for link in root.iter("a")) < MANY_LINKS * sizes[root]:
        return whole
    article = _readable_part(html)
    if article is None or text_sizes(article)[article] >= MOST_OF_THE_PAGE * sizes[root]:
        return whole
    read = _markdown(article, base)
    return read if len(read) >= LEAST_TEXT else whole


def _container(page: Page) -> Node | None:
    """Return the main part: the longest by meaning, else the only one by a usual name."""
    root = page.root
    meant = [*root.iter("main"), *(node for node in page.noted if node.get("role") == "main")]
    if meant:
        longest = meant[0] if len(meant) == 1 else max(meant, key=text_sizes(root).__getitem__)
        if _holds_text(longest):
            return longest
    articles = list(root.iter("article"))
    by_class = [node for node in root.iter() if not _MAIN_CLASSES.isdisjoint(node.get("class", "").split())]
    by_id = [node for node in root.iter() if node.get("id", "").lower() in _MAIN_IDS]
    for found in (articles, by_class, by_id):
        outer = outermost(found)
        if len(outer) == 1 and outer[0].tag in _CONTAINER_TAGS and _holds_text(outer[0]):
            return outer[0]
    return None


def _holds_text(node: Node) -> bool:
    """Whether there are LEAST_TEXT characters below a node; reads no further than that."""
    length = 0
    for piece in node.itertext():
        length += len(" ".join(piece.split()))
        if length >= LEAST_TEXT:
            return True
    return False


def _readable_part(html: str) -> Node | None:
    """Return what readability takes for the article; None where it finds none."""
    page = _seen_page(html) if len(html) <= READABILITY_CHARS else None
    if page is None:
        return None
    readability = cast(Any, importlib.import_module("readability"))  # Any: it has no types
    logging.getLogger("readability").setLevel(logging.CRITICAL)  # it reports every odd page as an error
    try:
        summary = str(readability.Document(to_html(page.root)).summary(html_partial=True))
    except Exception as error:  # noqa: BLE001 - it raises whatever its heuristics run into; the whole page is then shown instead
        log.debug("readability gave up: %s", error)
        return None
    article = parse_html(summary)
    return None if article is None else article.root


def _markdown(node: Node, base: str, around: Sequence[Node] = ()) -> str:
    """`around` is what the node lies in, outermost first, where that may tell something."""
    try:
        return to_markdown(node, base, around)
    except RecursionError:
        return "\n".join(line for raw in text_of(node).splitlines() if (line := " ".join(raw.split())))


def _is_hidden(node: Node) -> bool:
    if node.tag in ("html", "body"):
        return False  # there are pages that show themselves by a script
    return (
        node.get("hidden") is not None
        or node.get("aria-hidden") == "true"
        or _HIDING_STYLE.search(node.get("style", "")) is not None
    )


def _frame(root: Node) -> list[Node]:
    """Navigation and the like, by meaning and by name; never what holds a third of the text."""
    frame = [*root.iter("nav")]
    frame += [node for body in root.iter("body") for node in body if node.tag in ("header", "footer")]
    frame += [node for node in root.iter() if _is_named_frame(node)]
    if not frame:
        return []
    sizes = text_sizes(root)
    return [node for node in frame if node.tag not in _NEVER_FRAME and sizes[node] < sizes[root] / 3]


def _is_named_frame(node: Node) -> bool:
    if node.get("role") in _FRAME_ROLES:
        return True
    if node.tag not in _FRAME_TAGS:
        return False
    return any(_FRAME_NAMES.search(names) for names in (node.get("class"), node.get("id")) if names)


def _title(root: Node) -> str:
    title = next(root.iter("title"), None)
    return "" if title is None else " ".join(text_of(title).split())[:300]


def _base_url(root: Node, url: str) -> str:
    for base in root.iter("base"):
        try:
            joined = urljoin(url, (base.get("href") or "").strip())
        except ValueError:
            continue
        if joined.startswith(("http://", "https://")):
            return joined
    return url


class PageOutcome(StrEnum):
    """The first line of a page process's answer; its text, or what is wrong, follows."""

    TEXT = "text"
    NO_MATCH = "no match"
    BAD_SELECTOR = "bad selector"
    TOO_MUCH = "too much"


def answer() -> None:
    """Read one page from stdin and write its text to stdout, as a process of its own."""
    asked, _, html = sys.stdin.buffer.read().decode("utf-8").partition("\n")
    selector, base_url, memory_bytes, max_chars = json.loads(asked)
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    try:
        outcome, text = PageOutcome.TEXT, extract(html, selector, base_url)
    except SelectorNotFoundError:
        outcome, text = PageOutcome.NO_MATCH, ""
    except ValueError as error:
        outcome, text = PageOutcome.BAD_SELECTOR, str(error)
    if outcome is PageOutcome.TEXT and len(text) > max_chars:
        outcome, text = PageOutcome.TOO_MUCH, ""
    sys.stdout.buffer.write(f"{outcome}\n{text}".encode("utf-8", "replace"))
