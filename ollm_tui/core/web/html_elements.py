"""`pre` elements as fenced blocks that hold exactly what a browser shows, and what language they are in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urljoin

from ollm_tui.core.web.html_tree import Node, text_of

_UNSEEN = (
    "script style template noscript head iframe object embed applet canvas svg audio video map select option textarea "
    "input button dialog annotation annotation-xml"
)
UNSEEN_TAGS = frozenset(_UNSEEN.split())
"""Elements whose text is no text of the page."""

_NO_PLAIN_TEXT = UNSEEN_TAGS | {"br"}
_FENCE_RUN = re.compile(r"`{3,}")
_LANGUAGE = re.compile(
    r"(?:^|\s)(?:(?:language|lang|highlight-source|highlight|sourceCode)[-:\s]|brush:\s*)([A-Za-z0-9+#_.-]{1,30})"
)
_NO_LANGUAGE = frozenset({"default", "none", "notranslate", "text", "plain", "plaintext", "nohighlight", "highlight"})
_GUTTER = re.compile(r"(?:^|\s)(?:linenos?|lineno|line-numbers?|lnt?|gutter|hljs-ln-numbers)(?:\s|$)")


class PreformattedCode(str):
    """A fenced block: never indented, quoted or folded."""

    __slots__ = ()


def code_block(pre: Node, above: Sequence[Node]) -> PreformattedCode | None:
    """Return a `pre` as Markdown; None where it holds no text. `above` is what it lies in, outermost first."""
    text = _code_text(pre)
    if not text.strip():
        return None
    longest = max(map(len, _FENCE_RUN.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return PreformattedCode(f"{fence}{_language(pre, above)}\n{text}{'' if text.endswith(chr(10)) else chr(10)}{fence}")


def _code_text(pre: Node) -> str:
    """Return what a browser shows of a `pre`, without line numbers and buttons."""
    inside = list(pre.iter())
    if _NO_PLAIN_TEXT.isdisjoint({node.tag for node in inside}):
        classes = {node.get("class") for node in inside}
        if not any(is_gutter_class(name) for name in classes):
            return text_of(pre).removeprefix("\n")
    pieces: list[str] = []
    _collect_code(pre, pieces)
    return "".join(pieces).removeprefix("\n")


def _collect_code(node: Node, pieces: list[str]) -> None:
    if node.text:
        pieces.append(node.text)
    for child in node:
        tag = child.tag
        if tag == "br":
            pieces.append("\n")
        elif tag not in UNSEEN_TAGS and not _is_gutter(child):
            _collect_code(child, pieces)
        if child.tail:
            pieces.append(child.tail)


def _is_gutter(node: Node) -> bool:
    return is_gutter_class(node.get("class")) and (text_of(node).strip() or "0").isdigit()


def _language(pre: Node, above: Sequence[Node]) -> str:
    """As the code inside, the block, or one of the two elements around it names it."""
    for place in (*pre.findall("code"), pre, *above[:-3:-1]):
        found = _LANGUAGE.search(place.get("class") or "")
        if found and found[1] not in _NO_LANGUAGE:
            return found[1]
    return ""


def is_gutter_class(names: str | None) -> bool:
    """Whether an element's class says that it holds line numbers."""
    return names is not None and _GUTTER.search(names) is not None


# Plain numbers: looking up members of an enumeration for each element of a page would cost a third of the walk.
# Inline kinds come first, so that one comparison tells them from the others.
SKIP, TEXT, LINK, CODE, STRONG, IMAGE, LINE_BREAK, CONTAINER, HEADING, PRE, LIST, TABLE, QUOTE, RULE = range(14)
LAST_INLINE = LINE_BREAK

KINDS: dict[str, int] = dict.fromkeys(UNSEEN_TAGS, SKIP)
"""How an element is walked, by its name."""

for _kind, _tags in (
    (
        CONTAINER,
        "html body main article section div p header footer nav aside address center figure figcaption form fieldset "
        "legend details summary hgroup search dl dt dd li tr td th thead tbody tfoot caption colgroup menu frameset "
        "noframes blink",
    ),
    (
        TEXT,
        "span em i u s del ins small big sub sup abbr acronym cite dfn var q mark time data label font bdi bdo ruby "
        "rb rt rp rtc output meter progress strike nobr picture math tt-x",
    ),
    (LINK, "a"),
    (CODE, "code kbd samp tt"),
    (STRONG, "b strong"),
    (IMAGE, "img"),
    (LINE_BREAK, "br"),
    (HEADING, "h1 h2 h3 h4 h5 h6"),
    (PRE, "pre listing xmp plaintext"),
    (LIST, "ul ol"),
    (TABLE, "table"),
    (QUOTE, "blockquote"),
    (RULE, "hr"),
):
    KINDS.update(dict.fromkeys(_tags.split(), _kind))

COLOURED_TAGS = frozenset(tag for tag, kind in KINDS.items() if kind == TEXT)
"""Elements that mean nothing to a reader of plain text, but for what is in them."""

_WRAPPERS = frozenset(tag for tag, kind in KINDS.items() if kind in (TEXT, LINK, STRONG))
_BLOCK_TAGS = frozenset(tag for tag, kind in KINDS.items() if kind > LAST_INLINE and kind != RULE)


def unknown_kind(node: Node) -> int:
    """Of what stands in no table: elements nobody knows are walked through."""
    return CONTAINER if len(node) else TEXT


def inline_around_blocks(root: Node) -> set[Node]:
    """Inline elements with blocks inside (a card that is one link, old pages inside `font`): walked as containers."""
    found: set[Node] = set()
    for node in reversed(list(root.iter())):  # what lies inside comes before what it lies in
        if node.tag in _WRAPPERS and len(node):
            for child in node:
                if child.tag in _BLOCK_TAGS or child in found:
                    found.add(node)
                    break
    return found


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_SHOWN_SCHEMES = frozenset({"http:", "https:", "mailto:", "ftp:", "tel:"})
_PLAIN = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*(?:#[^\s)]*)?")
"""An address in the same folder: joining it takes no thought, and pages have hundreds."""

ROOM = 4_000_000
"""Characters of addresses in one page; a long base would make a hundred megabytes of a page's short links."""

_CONTROLS = re.compile(r"[\x00-\x20\x7f]+")


class Links:
    """The addresses of one page, by how it writes them."""

    def __init__(self, base_url: str) -> None:
        self._base = base_url
        self._folder = urljoin(base_url, ".")
        self._known: dict[str, str] = {}
        self._room = ROOM

    def resolved(self, href: str) -> str:
        """Return the absolute web or mail address; empty for anything else, and once ROOM is used up."""
        if self._room < 0:
            return ""
        known = self._known.get(href)
        if known is None:
            known = self._known[href] = self._resolve(href.strip())
        self._room -= len(known)
        return known

    def _resolve(self, href: str) -> str:
        if not href:
            return ""
        try:
            url = self._folder + href if _PLAIN.fullmatch(href) else urljoin(self._base, href)
        except ValueError:
            return ""
        scheme = _SCHEME.match(url)
        if scheme and scheme[0].lower() not in _SHOWN_SCHEMES:
            return ""
        return _CONTROLS.sub("", "".join(url.split())).replace(")", "%29")
