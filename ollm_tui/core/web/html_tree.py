"""Parsed HTML: read by lxml, kept as elements of the standard library.

lxml's own tree takes the square of the time for an element with many attributes, and makes an object anew each time an
element is looked at. lxml is imported with the first page.
"""

from __future__ import annotations

import importlib
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias, cast
from xml.etree.ElementTree import Element, TreeBuilder

MAX_ATTRIBUTES = 1_000
"""An element with more is read as if it had none."""

Node: TypeAlias = Element
"""An element of a page; its name is lower-case, comments are left out."""

_PAGE = "#page"
_NOTED = frozenset({"hidden", "aria-hidden", "style", "role"})


@dataclass(frozen=True)
class Page:
    """A page: `root` is around its `html`, and around whatever follows that."""

    root: Node
    noted: list[Node]
    """Elements that have an attribute that may hide them, or a role; in document order."""
    overgrown: bool
    """Whether an element has more than MAX_ATTRIBUTES."""


def parse_html(text: str) -> Page | None:
    """None where there is nothing to parse. Never reaches for the network or for entities."""
    return parse_text(text, (), bool)


def parse_text(text: str, coloured: Collection[str], telling: Callable[[str], bool]) -> Page | None:
    """As `parse_html`, but without the tags of elements of `coloured` names, half of many pages."""
    builder = _Builder(coloured, telling)
    root = cast("Node | None", _parsed(text, builder))  # cast: lxml has no types; the builder gives elements
    return None if root is None else Page(root, builder.noted, builder.overgrown)


def select(page: Page, text: str, selector: str) -> list[Node]:
    """Elements of a page, parsed from `text`, by a CSS selector. Raises ValueError that says why it cannot be used."""
    if page.overgrown:
        raise ValueError(f"the page has an element with more than {MAX_ATTRIBUTES:,} attributes")
    cssselect = cast(Any, importlib.import_module("lxml.cssselect"))  # Any: lxml has no types
    first = _parsed(text)
    tops = [] if first is None else [first, *first.itersiblings("*")]
    # Both come from the same parser, so their elements stand in the same order; but its own tree may be less deep.
    theirs = [node for top in tops for node in top.iter("*")]
    ours = [node for node in page.root.iter() if node is not page.root]
    if len(theirs) != len(ours):
        raise ValueError("the page has elements nested too deep for it")
    try:
        wanted = cssselect.CSSSelector(selector, translator="html")
        found = {node for top in tops for node in wanted(top)}
    except (importlib.import_module("cssselect").SelectorError, _etree().XPathError, RecursionError) as error:
        raise ValueError(str(error) or type(error).__name__) from None
    return [our for their, our in zip(theirs, ours, strict=True) if their in found]


def text_of(node: Node) -> str:
    """All text below a node, as it stands."""
    return "".join(node.itertext()) if len(node) else node.text or ""


def text_sizes(root: Node) -> dict[Node, int]:
    """Characters of text below each element, blanks folded; each piece is looked at once, however deep it lies."""
    sizes: dict[Node, int] = {}
    for node in reversed(list(root.iter())):  # what lies inside comes before what it lies in
        size = _folded_length(node.text)
        for child in node:
            size += sizes[child] + _folded_length(child.tail)
        sizes[node] = size
    return sizes


def empty(node: Node) -> None:
    """Leave nothing of an element but its place, which nobody sees; the text behind it stays.

    Taking it out would move that text: of a hundred thousand such neighbours all of it, each time.
    """
    behind = node.tail
    node.clear()
    node.tag, node.tail = "template", behind


def outermost(found: list[Node]) -> list[Node]:
    """Those of `found` (in document order) that lie in no other."""
    outer: list[Node] = []
    inside: set[Node] = set()
    for node in found:
        if node not in inside:
            outer.append(node)
            inside.update(node.iter())
    return outer


def parents_of(page: Page) -> dict[Node, Node]:
    """Return what each element of a page lies in."""
    return {child: parent for parent in page.root.iter() for child in parent}


def above(node: Node, parents: Mapping[Node, Node]) -> list[Node]:
    """Return what an element lies in, outermost first."""
    found: list[Node] = []
    while (parent := parents.get(node)) is not None:
        found.append(parent)
        node = parent
    return found[::-1]


def _folded_length(text: str | None) -> int:
    return len(" ".join(text.split())) if text else 0


def to_html(node: Node) -> str:
    """Return what stands in a node. Raises RecursionError for a tree nested deeper than any page needs."""
    return "".join(ElementTree.tostring(child, encoding="unicode", method="html") for child in node)


class _Builder:
    """What lxml's parser tells, handed on to the standard library's builder."""

    def __init__(self, coloured: Collection[str], telling: Callable[[str], bool]) -> None:
        self.noted: list[Node] = []
        self.overgrown = False
        builder = TreeBuilder()
        begin, finish, note = builder.start, builder.end, self.noted.append
        begin(_PAGE, {})  # pages go on behind their end: all of that needs something around it
        left_out: list[bool] = []
        """For each open element of a coloured name, whether it was."""
        open_one, close_one = left_out.append, left_out.pop
        is_dull: dict[str | None, bool] = {None: True}

        # Called for every tag of a page, so they are closures: a method takes half as long again.
        def start(tag: str, attributes: Mapping[str, str]) -> None:
            is_noted = not _NOTED.isdisjoint(attributes)
            if tag in coloured:
                names = attributes.get("class")
                dull = is_dull.get(names)
                if dull is None:
                    dull = is_dull[names] = not telling(names or "")
                open_one(dull and not is_noted)
                if dull and not is_noted:
                    return
            if not isinstance(attributes, dict):  # lxml's way to say that there are none
                begin(tag, {})
            elif len(attributes) > MAX_ATTRIBUTES:
                self.overgrown = True
                begin(tag, {})
            else:
                node = begin(tag, attributes)
                if is_noted:
                    note(node)

        def end(tag: str) -> None:
            if tag not in coloured or not close_one():
                finish(tag)

        def close() -> Node:
            finish(_PAGE)
            return builder.close()

        self.start, self.end, self.data, self.close = start, end, builder.data, close


def _parsed(text: str, target: _Builder | None = None) -> Any:  # Any: lxml has no types
    etree = _etree()
    parser = etree.HTMLParser(encoding="utf-8", no_network=True, huge_tree=True, target=target)
    data = text.replace("\0", "\ufffd").encode("utf-8", "replace")
    try:
        return etree.fromstring(data, parser)
    except (etree.ParserError, etree.XMLSyntaxError):
        return None


@cache
def _etree() -> Any:  # Any: lxml has no types
    return importlib.import_module("lxml.etree")
