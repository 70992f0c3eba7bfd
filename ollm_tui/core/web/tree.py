"""Parsed HTML, with types: what we use of lxml, which has none. lxml is imported with the first page."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Protocol, cast


class Node(Protocol):
    """An element of a parsed page."""

    @property
    def tag(self) -> object:
        """The lower-case name; a function instead of a text for comments."""
        ...

    @property
    def text(self) -> str | None: ...

    tail: str | None

    def get(self, name: str) -> str | None: ...

    def getparent(self) -> Node | None: ...

    def remove(self, child: Node) -> None: ...

    def getprevious(self) -> Node | None: ...

    def itertext(self, *tags: str) -> Iterator[str]: ...

    def iterdescendants(self, *tags: str) -> Iterator[Node]: ...

    def iterancestors(self, *tags: str) -> Iterator[Node]: ...

    def iterchildren(self, *tags: str) -> Iterator[Node]: ...

    def __iter__(self) -> Iterator[Node]: ...

    def __len__(self) -> int: ...


class _Value(Protocol):
    """What lxml gives for an attribute: its text, and whose it is."""

    def getparent(self) -> Node: ...


def parse_html(text: str) -> Node | None:
    """The root of a page; None where there is nothing to parse. Never reaches for the network or for entities."""
    etree = _etree()
    parser = etree.HTMLParser(encoding="utf-8", no_network=True, huge_tree=True)
    data = text.replace("\0", "\ufffd").encode("utf-8", "replace")
    try:
        root = etree.fromstring(data, parser)
    except (etree.ParserError, etree.XMLSyntaxError):
        return None
    return cast("Node | None", root)  # cast: lxml has no types


def with_attribute(node: Node, name: str, wanted: Callable[[str], object]) -> list[Node]:
    """All elements of the tree whose attribute has a wanted value, in document order.

    Asks for the values alone: with the elements in the expression lxml sorts all of them.
    """
    values = cast("list[_Value]", cast(Any, node).xpath(f"/descendant::*/@{name}"))  # casts, Any: lxml has no types
    return [value.getparent() for value in values if wanted(str(value))]


def text_length(node: Node) -> int:
    """Characters of text below a node with blanks folded, scripts and styles left out."""
    scripts = sum(_folded_length(script) for script in node.iterdescendants("script", "style"))
    return _folded_length(node) - scripts


def _folded_length(node: Node) -> int:
    words = text_of(node).split()
    return sum(map(len, words)) + max(0, len(words) - 1)


def select(node: Node, selector: str) -> list[Node]:
    """Elements by a CSS selector. Raises ValueError that says why a selector cannot be used."""
    cssselect = cast(Any, importlib.import_module("lxml.cssselect"))  # Any: lxml has no types
    etree = _etree()
    try:
        return cast("list[Node]", cssselect.CSSSelector(selector, translator="html")(node))
    except (importlib.import_module("cssselect").SelectorError, etree.XPathError, RecursionError) as error:
        raise ValueError(str(error) or type(error).__name__) from None


def text_of(node: Node) -> str:
    """All text below a node, as it stands. Made by lxml at once: collecting its pieces takes six times as long."""
    if not len(node):
        return node.text or ""
    return str(_etree().tostring(node, method="text", encoding="unicode", with_tail=False))


def drop_all(root: Node, *tags: str) -> None:
    """Take every element of these names out of a tree; the texts behind them stay."""
    _etree().strip_elements(root, *tags, with_tail=False)


def drop(node: Node) -> None:
    """Take an element out of its tree; the text behind it stays."""
    parent = node.getparent()
    if parent is None:
        return
    if node.tail:
        before = node.getprevious()
        if before is None:
            cast(Any, parent).text = (parent.text or "") + node.tail  # Any: the one place that writes it
        else:
            before.tail = (before.tail or "") + node.tail
    parent.remove(node)


def to_html(node: Node) -> str:
    return str(_etree().tostring(node, encoding="unicode", method="html"))


@cache
def _etree() -> Any:  # Any: lxml has no types
    return importlib.import_module("lxml.etree")
