"""An HTML tree to Markdown: text in order, code blocks byte for byte, tables, lists and links.

Written for speed (the tree is walked once, texts are joined once a block) and for readers that are models: emphasis
is left out, and code stands at the start of the line even inside lists, so that it can be copied as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence

from ollm_tui.core.web.html_elements import (
    CODE,
    CONTAINER,
    HEADING,
    IMAGE,
    KINDS,
    LAST_INLINE,
    LINE_BREAK,
    LINK,
    LIST,
    PRE,
    QUOTE,
    RULE,
    SKIP,
    STRONG,
    TABLE,
    TEXT,
    Links,
    PreformattedCode,
    code_block,
    inline_around_blocks,
    is_gutter_class,
    unknown_kind,
)
from ollm_tui.core.web.html_tree import Node, text_of

_BREAK = "\x01"
"""Stands for a line break while blanks are folded."""

_BREAKS = re.compile(r" ?\x01 ?")
_SIGNATURE = re.compile(r"(?:^|\s)sig(?:\s|$)")
_PERMALINKS = frozenset({"¶", "#", "§", "🔗", "\uf0c1", "Permalink", "Link to this heading"})
_MAX_COLUMNS = 100
_MAX_INDENTS = 16
"""Quotes and lists inside each other; further ones add nothing but blanks before each of their lines."""


def to_markdown(element: Node, base_url: str, above: Sequence[Node] = ()) -> str:
    """Return `element` as Markdown. `above` holds what it lies in, outermost first. Raises RecursionError."""
    return "\n\n".join(_Walker(element, base_url, above).blocks_of(element))


class _Walker:
    def __init__(self, root: Node, base_url: str, above: Sequence[Node]) -> None:
        self._above = [*above]
        self._links = Links(base_url)
        self._wrapping = inline_around_blocks(root)
        self._indents = 0

    def blocks_of(self, root: Node) -> list[str]:
        out: list[str] = []
        kind = KINDS.get(root.tag, CONTAINER)
        if kind in (CONTAINER, SKIP):
            self._blocks(root, out)
        else:
            run: list[str] = []
            if kind <= LAST_INLINE and root not in self._wrapping:
                self._inline_child(root, kind, run)
            else:
                self._block(root, kind if kind > LAST_INLINE else CONTAINER, out)
            _flush(run, out)
        return out

    def _walk(
        self, node: Node, run: list[str], set_apart: Collection[Node], on_block: Callable[[Node, int], None]
    ) -> None:
        """Put the text of a node and what stands inline in it into `run`; blocks, and what is `set_apart`, are told."""
        text = node.text
        if text:
            run.append(text)
        for child in node:
            kind = KINDS.get(child.tag)
            if kind is None:
                kind = unknown_kind(child)
            if kind == TEXT and not len(child):
                text = child.text
                if text:
                    run.append(text)
            elif 0 < kind <= LAST_INLINE and child not in set_apart:
                self._inline_child(child, kind, run)
            elif kind:
                on_block(child, kind)
            text = child.tail  # read once: each time makes a new text
            if text:
                run.append(text)

    # -- blocks ------------------------------------------------------------------------------------------------------

    def _blocks(self, node: Node, out: list[str]) -> None:
        run: list[str] = []

        def on_block(child: Node, kind: int) -> None:
            if run:
                _flush(run, out)
            self._block(child, kind if kind > LAST_INLINE else CONTAINER, out)

        self._above.append(node)
        self._walk(node, run, self._wrapping, on_block)
        self._above.pop()
        if run:
            _flush(run, out)

    def _block(self, node: Node, kind: int, out: list[str]) -> None:
        if kind == CONTAINER:
            if node.tag == "dt" and _SIGNATURE.search(node.get("class") or ""):
                # What a function takes: dozens of spans that mean nothing here, and links that would tear it apart.
                out.append(" ".join(text_of(node).split()).removesuffix("¶"))
            else:
                self._blocks(node, out)
        elif kind == HEADING:
            text = self._line(node)
            if text:
                out.append(f"{'#' * int(str(node.tag)[1])} {text}")
        elif kind == PRE:
            code = code_block(node, self._above)
            if code:
                out.append(code)
        elif kind in (LIST, QUOTE):
            self._indented(node, kind, out)
        elif kind == TABLE:
            self._table(node, out)
        elif kind == RULE:
            out.append("---")

    def _indented(self, node: Node, kind: int, out: list[str]) -> None:
        if self._indents == _MAX_INDENTS:
            self._blocks(node, out)
            return
        self._indents += 1
        if kind == LIST:
            self._list(node, out)
        else:
            inner: list[str] = []
            self._blocks(node, inner)
            _add(out, [_prefixed(block, "> ", "> ") for block in inner], "\n>\n")
        self._indents -= 1

    def _list(self, node: Node, out: list[str]) -> None:
        number = _start(node) if node.tag == "ol" else None
        items: list[list[str]] = []
        for child in node:
            inner: list[str] = []
            if child.tag == "li":
                self._blocks(child, inner)
            else:
                self._block(child, max(KINDS.get(child.tag, CONTAINER), CONTAINER), inner)
            if not inner:
                continue
            mark = "- " if number is None else f"{number}. "
            number = None if number is None else number + 1
            items.append(_item(inner, mark))
        blocks = [block for item in items for block in item]
        if any(isinstance(block, PreformattedCode) for block in blocks):
            out += blocks
            return
        texts = ["\n".join(item) if _is_tight(item) else "\n\n".join(item) for item in items]
        if texts:
            out.append(("\n\n" if any("\n\n" in text for text in texts) else "\n").join(texts))

    def _table(self, table: Node, out: list[str]) -> None:
        if (
            table.get("role") in ("presentation", "none")
            or next(table.iter("pre"), None) is not None
            or any(inner is not table for inner in table.iter("table"))
        ):
            for cell in _cells_of_layout(table):
                if not is_gutter_class(cell.get("class")):
                    self._block(cell, KINDS[cell.tag], out)
            return
        rows: list[list[str]] = []
        for part in table.iter():
            if part.tag not in ("tr", "caption"):
                continue
            if part.tag == "caption":
                caption = self._line(part)
                if caption:
                    out.append(caption)
                continue
            cells: list[str] = []
            for cell in (child for child in part if child.tag in ("td", "th")):
                text = self._line(cell).replace("\n", " ").replace("|", "\\|")
                cells += (text, *[""] * (min(_span(cell), _MAX_COLUMNS) - 1))
            if any(cells):
                rows.append(cells[:_MAX_COLUMNS])
        if not rows:
            return
        columns = max(map(len, rows))
        if columns == 1:
            out += [row[0].replace("\\|", "|") for row in rows]
            return
        lines = [f"| {' | '.join((*row, *[''] * (columns - len(row))))} |" for row in rows]
        lines.insert(1, f"|{' --- |' * columns}")
        out.append("\n".join(lines))

    # -- inline ------------------------------------------------------------------------------------------------------

    def _line(self, node: Node) -> str:
        run: list[str] = []
        self._inline(node, run)
        return _folded(run)

    def _inline(self, node: Node, run: list[str]) -> None:
        """Everything of a node in one line: blocks stand between blanks."""

        def on_block(child: Node, kind: int) -> None:
            gap = " " if child.tag in KINDS else ""
            run.append(gap)
            self._inline(child, run)
            run.append(gap)

        self._walk(node, run, (), on_block)

    def _inline_child(self, child: Node, kind: int, run: list[str]) -> None:
        if kind == TEXT:
            self._inline(child, run)
        elif kind == LINK:
            self._link(child, run)
        elif kind == CODE:
            self._code(child, run)
        elif kind == STRONG:
            _marked(self._text_inside(child), "**", run, "**")
        elif kind == IMAGE:
            alt = " ".join((child.get("alt") or "").split())
            if alt:
                url = self._links.resolved(child.get("src") or "")
                run.append(f"![{alt}]({url})" if url else f"[image: {alt}]")
        elif kind == LINE_BREAK:
            run.append(_BREAK)

    def _link(self, link: Node, run: list[str]) -> None:
        text = self._text_inside(link)
        href = link.get("href") or ""
        if href.startswith("#"):
            if text.strip() not in _PERMALINKS and "headerlink" not in (link.get("class") or ""):
                run.append(text)
            return
        url = self._links.resolved(href)
        if url:
            _marked(text, "[", run, f"]({url})")
        else:
            run.append(text)

    @staticmethod
    def _code(node: Node, run: list[str]) -> None:
        text = text_of(node)
        if "`" in text:
            _marked(text, "`` ", run, " ``")
        else:
            _marked(text, "`", run, "`")

    def _text_inside(self, node: Node) -> str:
        if not len(node):
            return node.text or ""
        inner: list[str] = []
        self._inline(node, inner)
        return "".join(inner)


def _flush(run: list[str], out: list[str]) -> None:
    text = _folded(run)
    run.clear()
    if text:
        out.append(text)


def _folded(run: list[str]) -> str:
    """One line but for explicit breaks, blanks folded as a browser does."""
    text = " ".join("".join(run).split())
    return _BREAKS.sub("\n", text).strip("\n") if _BREAK in text else text


def _marked(text: str, before: str, run: list[str], behind: str) -> None:
    """Put marks around a text, with the blanks at its ends outside of them."""
    label = " ".join(text.split())
    if not label:
        run.append(text and " ")
        return
    if _BREAK in label:
        label = _BREAKS.sub(" ", label).strip()
    if text[0].isspace():
        run.append(" ")
    if label:
        run.append(f"{before}{label}{behind}")
    if text[-1].isspace():
        run.append(" ")


def _item(inner: list[str], mark: str) -> list[str]:
    indent = " " * len(mark)
    first, *rest = inner
    head = [mark.rstrip(), first] if isinstance(first, PreformattedCode) else [_prefixed(first, mark, indent)]
    return [*head, *(_prefixed(block, indent, indent) for block in rest)]


def _is_tight(item: list[str]) -> bool:
    """Whether an item is a line, alone or with a list below it."""
    return len(item) == 1 or all(block.lstrip().startswith(("- ", "1. ")) for block in item[1:])


def _prefixed(block: str, first: str, others: str) -> str:
    if isinstance(block, PreformattedCode):
        return block
    return first + block.replace("\n", f"\n{others}")


def _add(out: list[str], blocks: list[str], joint: str) -> None:
    if any(isinstance(block, PreformattedCode) for block in blocks):
        out += blocks
    elif blocks:
        out.append(joint.join(blocks))


def _cells_of_layout(node: Node) -> Iterator[Node]:
    """Return the cells of a table that only lays out a page, and tables that stand in it outside of any cell."""
    for child in node:
        if child.tag in ("td", "th", "caption", "table"):
            yield child
        else:
            yield from _cells_of_layout(child)


def _start(node: Node) -> int:
    text = node.get("start") or "1"
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 1


def _span(cell: Node) -> int:
    text = cell.get("colspan") or "1"
    return max(1, int(text)) if text.isascii() and text.isdigit() and len(text) < 5 else 1
