"""What of a page is worth reading: the part a selector asks for, else the main part, as Markdown.

Everything here is blocking and may take tenths of a second on a large page: call it in a thread.
"""

from __future__ import annotations

import importlib
import logging
import re
from typing import Any, cast
from urllib.parse import urljoin

from ollm_tui.core.base.errors import InvalidArguments
from ollm_tui.core.base.visible import visible
from ollm_tui.core.web.markdown import to_markdown
from ollm_tui.core.web.tree import (
    Node,
    drop,
    drop_all,
    parse_html,
    select,
    text_length,
    text_of,
    to_html,
    with_attribute,
)

log = logging.getLogger(__name__)

LEAST_TEXT = 200
"""Characters a main container must hold to be believed; below that it is a shell filled in by scripts."""

MOST_OF_THE_PAGE = 0.7
"""Where readability keeps at least this share of the text, the page is nearly all content and is shown whole."""

MANY_LINKS = 0.25
"""Below this share of text in links what is left of a page without its frame is prose: nothing more is cut away."""

_CANDIDATES = 500
"""Elements weighed at most: each costs a walk over its text, and hostile pages have a hundred thousand, nested."""

READABILITY_CHARS = 1_000_000
"""Larger pages are not given to readability: it takes several times as long as everything else."""

_NO_TEXT = ("svg", "script", "style", "template", "noscript")
"""A third of many pages, and no text of any: everything that follows would look at each."""

_HIDING_STYLE = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
_MAY_HIDE = re.compile(r"(?i:hidden|display\s*:)|&#")
"""Without one of these in its source (or a way to spell it differently) a page hides nothing that we look for."""

_MAIN_IDS = frozenset({"mw-content-text", "bodycontent", "readme", "main-content", "maincontent", "content", "main"})
_MAIN_CLASSES = frozenset({"markdown-body", "post-content", "entry-content", "article-body"})
_FRAME_ROLES = frozenset({"navigation", "banner", "contentinfo", "search"})
_FRAME_TAGS = frozenset({"div", "ul", "aside", "section", "td", "table"})
_FRAME_NAMES = re.compile(
    r"(?:^|[\s_-])(?:nav|navbar|navigation|menu|sidebar|breadcrumbs?|footer|nosearch|cookie|banner|skip|pagination"
    r"|related|share|social|newsletter|advert|ads|comments?)(?:$|[\s_-])",
    re.IGNORECASE,
)


class NoMatch(Exception):
    """A selector that fits nothing on the page."""


def check_selector(selector: str) -> None:
    """Raises InvalidArguments where no page could be asked for it."""
    try:
        page = parse_html("<p>")
        if page is not None:
            select(page, selector)
    except ValueError as error:
        raise InvalidArguments(
            f"selector: {visible(selector)!r} is no CSS selector that can be used: {visible(str(error))}."
        ) from None


def extract_selected(html: str, selector: str, base_url: str) -> str:
    """All elements that a selector fits, outermost only, joined by newlines (000 Property 30).

    Raises NoMatch, and ValueError for a selector that is none.
    """
    root = parse_html(html)
    found = [] if root is None else select(root, selector)
    if root is None or not found:
        raise NoMatch
    base = _base_url(root, base_url)
    return "\n".join(text for node in _outermost(found) if (text := _markdown(node, base)))


def extract_main(html: str, base_url: str) -> str:
    """The main part of a page as Markdown, with its title on top; empty where there is no text at all."""
    root = parse_html(html)
    if root is None:
        return ""
    base = _base_url(root, base_url)
    title = _title(root)
    drop_all(root, *_NO_TEXT)
    _drop_hidden(root, html)
    text = _main_text(root, base)
    starts_with_title = title and title.casefold() in text[: len(title) + 80].casefold()
    return text if not title or starts_with_title or text.startswith("# ") else f"# {title}\n\n{text}".rstrip()


def _main_text(root: Node, base: str) -> str:
    container = _container(root)
    if container is not None:
        return _markdown(container, base)
    body = next(root.iterdescendants("body"), root)
    before = to_html(root)
    _drop_frame(root)
    whole = _markdown(body, base)
    if _share_of_links(body) < MANY_LINKS:
        return whole
    article = _readable_part(before)
    if article is None or text_length(article) >= MOST_OF_THE_PAGE * text_length(body):
        return whole
    read = _markdown(article, base)
    return read if len(read) >= LEAST_TEXT else whole


def _container(root: Node) -> Node | None:
    """The page's own main part: by its meaning (the longest), else by a name that common generators use (the only)."""
    meant = [*root.iterdescendants("main"), *with_attribute(root, "role", "main".__eq__)]
    if meant:
        longest = meant[0] if len(meant) == 1 else max(meant[:_CANDIDATES], key=text_length)
        if _holds_text(longest):
            return longest
    articles = list(root.iterdescendants("article"))
    by_id = with_attribute(root, "id", lambda value: value.lower() in _MAIN_IDS)
    by_class = with_attribute(root, "class", lambda value: not _MAIN_CLASSES.isdisjoint(value.split()))
    for found in (articles, by_class, by_id):
        outer = _outermost(found)
        if len(outer) == 1 and _is_container(outer[0]) and _holds_text(outer[0]):
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


def _outermost(found: list[Node]) -> list[Node]:
    """Those of `found` (in document order) that lie in no other; each element above them is looked at once."""
    inside = dict.fromkeys(found, True)
    outer: list[Node] = []
    for node in found:
        above: list[Node] = []
        parent = node.getparent()
        while parent is not None and parent not in inside:
            above.append(parent)
            parent = parent.getparent()
        is_inside = parent is not None and inside[parent]
        inside.update(dict.fromkeys(above, is_inside))
        if not is_inside:
            outer.append(node)
    return outer


def _share_of_links(body: Node) -> float:
    links = sum(len(text_of(link)) for link in body.iterdescendants("a"))
    return links / max(1, text_length(body))


def _is_container(node: Node) -> bool:
    return node.tag in ("article", "div", "section", "td")


def _readable_part(html: str) -> Node | None:
    """What readability takes for the article; None where it finds none."""
    if len(html) > READABILITY_CHARS:
        return None
    readability = cast(Any, importlib.import_module("readability"))  # Any: it has no types
    logging.getLogger("readability").setLevel(logging.CRITICAL)  # it reports every odd page as an error
    try:
        summary = str(readability.Document(html).summary(html_partial=True))
    except Exception as error:  # noqa: BLE001 - it raises whatever its heuristics run into; the whole page is then shown instead
        log.debug("readability gave up: %s", error)
        return None
    return parse_html(summary)


def _markdown(node: Node, base: str) -> str:
    try:
        return to_markdown(node, base)
    except RecursionError:
        return "\n".join(line for raw in text_of(node).splitlines() if (line := " ".join(raw.split())))


def _drop_hidden(root: Node, html: str) -> None:
    """What no reader of the page would see is not shown to a model either: it is where instructions are hidden."""
    if not _MAY_HIDE.search(html):
        return
    hidden = with_attribute(root, "hidden", lambda value: True)
    hidden += with_attribute(root, "aria-hidden", "true".__eq__)
    hidden += with_attribute(root, "style", _HIDING_STYLE.search)
    for node in hidden:
        if node.tag not in ("html", "body"):  # pages that show themselves by a script
            drop(node)


def _drop_frame(root: Node) -> None:
    """Navigation and the like, by meaning and by name; never what holds a third of the text."""
    total = text_length(root)
    frame = [*root.iterdescendants("nav")]
    frame += [node for node in root.iterdescendants("header", "footer") if _is_of_the_body(node)]
    frame += with_attribute(root, "role", _FRAME_ROLES.__contains__)
    for name in ("class", "id"):
        frame += [node for node in with_attribute(root, name, _FRAME_NAMES.search) if node.tag in _FRAME_TAGS]
    for node in frame[:_CANDIDATES]:
        if node.tag not in ("body", "html") and text_length(node) < total / 3:
            drop(node)


def _is_of_the_body(node: Node) -> bool:
    parent = node.getparent()
    return parent is not None and parent.tag == "body"


def _title(root: Node) -> str:
    title = next(root.iterdescendants("title"), None)
    return "" if title is None else " ".join(text_of(title).split())[:300]


def _base_url(root: Node, url: str) -> str:
    for base in root.iterdescendants("base"):
        try:
            joined = urljoin(url, (base.get("href") or "").strip())
        except ValueError:
            continue
        if joined.startswith(("http://", "https://")):
            return joined
    return url
