"""What each HTML element is to a reader: a part of a line, a block of its own, or nothing."""

from __future__ import annotations

from ollm_tui.core.web.code_blocks import UNSEEN_TAGS
from ollm_tui.core.web.tree import Node

# Plain numbers: looking up members of an enumeration for each element of a page would cost a third of the walk.
# Inline kinds come first, so that one comparison tells them from the others.
SKIP = 0
TEXT = 1
LINK = 2
CODE = 3
STRONG = 4
IMAGE = 5
LINE_BREAK = 6
LAST_INLINE = 6
CONTAINER = 7
HEADING = 8
PRE = 9
LIST = 10
TABLE = 11
QUOTE = 12
RULE = 13

KINDS: dict[str, int] = {}
"""How an element is walked, by its name."""

for _kind, _tags in (
    (SKIP, " ".join(UNSEEN_TAGS)),
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
