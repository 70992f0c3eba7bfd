"""An HTML tree to Markdown: text in order, code blocks byte for byte, tables, lists and links.

Written for speed (the tree is walked once, texts are joined once a block) and for readers that are models: emphasis
is left out, and code stands at the start of the line even inside lists, so that it can be copied as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import urljoin

from ollm_tui.core.web.code_blocks import UNSEEN_TAGS, CodeBlock, code_block, is_gutter_class
from ollm_tui.core.web.tree import Node, text_of

_BREAK = "\x01"
"""Stands for a line break while blanks are folded; no parsed page can hold it."""

_BREAKS = re.compile(r" ?\x01 ?")
_SIGNATURE = re.compile(r"(?:^|\s)sig(?:\s|$)")
_PERMALINKS = frozenset({"¶", "#", "§", "🔗", "\uf0c1", "Permalink", "Link to this heading"})
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_PLAIN = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*(?:#[^\s)]*)?")
"""An address in the same folder: joining it takes no thought, and pages have hundreds."""

_MAX_COLUMNS = 100


# How an element is walked. Plain numbers: looking up members of an enumeration for each element of a page would cost
# a third of the walk. Inline kinds come first, so that one comparison tells them from the others.
_SKIP = 0
_TEXT = 1
_LINK = 2
_CODE = 3
_STRONG = 4
_IMAGE = 5
_LINE_BREAK = 6
_LAST_INLINE = 6
_CONTAINER = 7
_HEADING = 8
_PRE = 9
_LIST = 10
_TABLE = 11
_QUOTE = 12
_RULE = 13

_KINDS: dict[object, int] = {}
for _kind, _tags in (
    (_SKIP, " ".join(UNSEEN_TAGS)),
    (
        _CONTAINER,
        "html body main article section div p header footer nav aside address center figure figcaption form fieldset "
        "legend details summary hgroup search dl dt dd li tr td th thead tbody tfoot caption colgroup menu frameset "
        "noframes blink",
    ),
    (
        _TEXT,
        "span em i u s del ins small big sub sup abbr acronym cite dfn var q mark time data label font bdi bdo ruby "
        "rb rt rp rtc output meter progress strike nobr picture math tt-x",
    ),
    (_LINK, "a"),
    (_CODE, "code kbd samp tt"),
    (_STRONG, "b strong"),
    (_IMAGE, "img"),
    (_LINE_BREAK, "br"),
    (_HEADING, "h1 h2 h3 h4 h5 h6"),
    (_PRE, "pre listing xmp plaintext"),
    (_LIST, "ul ol"),
    (_TABLE, "table"),
    (_QUOTE, "blockquote"),
    (_RULE, "hr"),
):
    _KINDS.update(dict.fromkeys(_tags.split(), _kind))

_WRAPPERS = frozenset(tag for tag, kind in _KINDS.items() if kind in (_TEXT, _LINK, _STRONG))
_BLOCK_TAGS = tuple(str(tag) for tag, kind in _KINDS.items() if kind > _LAST_INLINE and kind != _RULE)


def to_markdown(element: Node, base_url: str) -> str:
    """The content of `element` as Markdown; links are made absolute by `base_url`. Empty where there is no text.

    Raises RecursionError for a tree nested deeper than any page needs.
    """
    return "\n\n".join(_Walker(element, base_url).blocks_of(element))


class _Walker:
    def __init__(self, root: Node, base_url: str) -> None:
        self._base = base_url
        self._folder = urljoin(base_url, ".")
        self._urls: dict[str, str] = {}
        self._wrapping = _inline_around_blocks(root)

    def blocks_of(self, root: Node) -> list[str]:
        out: list[str] = []
        kind = _KINDS.get(root.tag, _CONTAINER)
        if kind in (_CONTAINER, _SKIP):
            self._blocks(root, out)
        else:
            run: list[str] = []
            if kind <= _LAST_INLINE and root not in self._wrapping:
                self._inline_child(root, kind, run)
            else:
                self._block(root, kind if kind > _LAST_INLINE else _CONTAINER, out)
            _flush(run, out)
        return out

    # -- blocks ------------------------------------------------------------------------------------------------------

    def _blocks(self, node: Node, out: list[str]) -> None:
        wrapping = self._wrapping
        run: list[str] = []
        text = node.text
        if text:
            run.append(text)
        for child in node:
            tag = child.tag
            kind = _KINDS.get(tag)
            if kind is None:
                # Comments have no name; elements nobody knows are walked through.
                kind = _SKIP if not isinstance(tag, str) else _CONTAINER if len(child) else _TEXT
            if kind == _TEXT and not len(child):
                text = child.text
                if text:
                    run.append(text)
            elif 0 < kind <= _LAST_INLINE and child not in wrapping:
                self._inline_child(child, kind, run)
            elif kind:
                if run:
                    _flush(run, out)
                self._block(child, kind if kind > _LAST_INLINE else _CONTAINER, out)
            text = child.tail  # read once: each time makes a new text
            if text:
                run.append(text)
        if run:
            _flush(run, out)

    def _block(self, node: Node, kind: int, out: list[str]) -> None:
        if kind == _CONTAINER:
            if node.tag == "dt" and _SIGNATURE.search(node.get("class") or ""):
                # What a function takes: dozens of spans that mean nothing here, and links that would tear it apart.
                out.append(" ".join(text_of(node).split()).removesuffix("¶"))
            else:
                self._blocks(node, out)
        elif kind == _HEADING:
            text = self._line(node)
            if text:
                out.append(f"{'#' * int(str(node.tag)[1])} {text}")
        elif kind == _PRE:
            code = code_block(node)
            if code:
                out.append(code)
        elif kind == _LIST:
            self._list(node, out)
        elif kind == _TABLE:
            self._table(node, out)
        elif kind == _QUOTE:
            inner: list[str] = []
            self._blocks(node, inner)
            _add(out, [_prefixed(block, "> ", "> ") for block in inner], "\n>\n")
        elif kind == _RULE:
            out.append("---")

    def _list(self, node: Node, out: list[str]) -> None:
        number = _start(node) if node.tag == "ol" else None
        items: list[list[str]] = []
        for child in node:
            inner: list[str] = []
            if child.tag == "li":
                self._blocks(child, inner)
            elif isinstance(child.tag, str):
                self._block(child, max(_KINDS.get(child.tag, _CONTAINER), _CONTAINER), inner)
            if not inner:
                continue
            mark = "- " if number is None else f"{number}. "
            number = None if number is None else number + 1
            items.append(_item(inner, mark))
        blocks = [block for item in items for block in item]
        if any(isinstance(block, CodeBlock) for block in blocks):
            out += blocks
            return
        texts = ["\n".join(item) if _is_tight(item) else "\n\n".join(item) for item in items]
        if texts:
            out.append(("\n\n" if any("\n\n" in text for text in texts) else "\n").join(texts))

    def _table(self, table: Node, out: list[str]) -> None:
        if (
            table.get("role") in ("presentation", "none")
            or next(table.iterdescendants("table", "pre"), None) is not None
        ):
            for cell in table.iterdescendants("td", "th", "caption"):
                if not _is_nested(cell, table) and not is_gutter_class(cell.get("class")):
                    self._blocks(cell, out)
            return
        rows: list[list[str]] = []
        for part in table.iterdescendants("tr", "caption"):
            if part.tag == "caption":
                caption = self._line(part)
                if caption:
                    out.append(caption)
                continue
            cells: list[str] = []
            for cell in part.iterchildren("td", "th"):
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
        text = node.text
        if text:
            run.append(text)
        for child in node:
            tag = child.tag
            kind = _KINDS.get(tag)
            if kind is None:
                kind = _TEXT if isinstance(tag, str) else _SKIP
            if kind == _TEXT and not len(child):
                text = child.text
                if text:
                    run.append(text)
            elif 0 < kind <= _LAST_INLINE:
                self._inline_child(child, kind, run)
            elif kind:
                run.append(" ")
                self._inline(child, run)
                run.append(" ")
            text = child.tail  # read once: each time makes a new text
            if text:
                run.append(text)

    def _inline_child(self, child: Node, kind: int, run: list[str]) -> None:
        if kind == _TEXT:
            self._inline(child, run)
        elif kind == _LINK:
            self._link(child, run)
        elif kind == _CODE:
            _marked("".join(child.itertext()), _code_span, run)
        elif kind == _STRONG:
            inner: list[str] = []
            self._inline(child, inner)
            _marked("".join(inner), _strong, run)
        elif kind == _IMAGE:
            alt = " ".join((child.get("alt") or "").split())
            if alt:
                url = self._resolved(child.get("src") or "")
                run.append(f"![{alt}]({url})" if url else f"[image: {alt}]")
        else:
            run.append(_BREAK)

    def _link(self, link: Node, run: list[str]) -> None:
        if len(link):
            inner: list[str] = []
            self._inline(link, inner)
            text = "".join(inner)
        else:
            text = link.text or ""
        href = link.get("href") or ""
        if href.startswith("#"):
            if text.strip() not in _PERMALINKS and "headerlink" not in (link.get("class") or ""):
                run.append(text)
            return
        url = self._resolved(href)
        if not url:
            run.append(text)
            return
        _marked(text, lambda label: f"[{label}]({url})", run)

    def _resolved(self, href: str) -> str:
        """The absolute http(s) or mail address; empty for scripts, data and what is no address."""
        known = self._urls.get(href)
        if known is None:
            known = self._urls[href] = self._resolve(href.strip())
        return known

    def _resolve(self, href: str) -> str:
        if not href:
            return ""
        try:
            url = self._folder + href if _PLAIN.fullmatch(href) else urljoin(self._base, href)
        except ValueError:
            return ""
        scheme = _SCHEME.match(url)
        if scheme and scheme[0].lower() not in ("http:", "https:", "mailto:", "ftp:", "tel:"):
            return ""
        return "".join(url.split()).replace(")", "%29").replace(_BREAK, "")


def _flush(run: list[str], out: list[str]) -> None:
    text = _folded(run)
    run.clear()
    if text:
        out.append(text)


def _folded(run: list[str]) -> str:
    """One line but for explicit breaks, blanks folded as a browser does."""
    text = " ".join("".join(run).split())
    return _BREAKS.sub("\n", text).strip("\n") if _BREAK in text else text


def _marked(text: str, mark: Callable[[str], str], run: list[str]) -> None:
    """Put marks around a text, with the blanks at its ends outside of them."""
    label = " ".join(text.split())
    if not label:
        run.append(text and " ")
        return
    if _BREAK in label:
        label = _BREAKS.sub(" ", label).strip()
    run.append(f"{' ' if text[0].isspace() else ''}{mark(label) if label else ''}{' ' if text[-1].isspace() else ''}")


def _strong(text: str) -> str:
    return f"**{text}**"


def _code_span(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _inline_around_blocks(root: Node) -> set[Node]:
    """Inline elements with blocks inside (a card that is one link, old pages inside `font`): walked as containers."""
    found: set[Node] = set()
    for block in root.iterdescendants(*_BLOCK_TAGS):
        parent = block.getparent()
        while parent is not None and parent.tag in _WRAPPERS and parent not in found:
            found.add(parent)
            parent = parent.getparent()
    return found


def _item(inner: list[str], mark: str) -> list[str]:
    indent = " " * len(mark)
    first, *rest = inner
    head = [mark.rstrip(), first] if isinstance(first, CodeBlock) else [_prefixed(first, mark, indent)]
    return [*head, *(_prefixed(block, indent, indent) for block in rest)]


def _is_tight(item: list[str]) -> bool:
    """Whether an item is a line, alone or with a list below it."""
    return len(item) == 1 or all(block.lstrip().startswith(("- ", "1. ")) for block in item[1:])


def _prefixed(block: str, first: str, others: str) -> str:
    if isinstance(block, CodeBlock):
        return block
    return first + block.replace("\n", f"\n{others}")


def _add(out: list[str], blocks: list[str], joint: str) -> None:
    if any(isinstance(block, CodeBlock) for block in blocks):
        out += blocks
    elif blocks:
        out.append(joint.join(blocks))


def _is_nested(cell: Node, table: Node) -> bool:
    """Whether a cell belongs to a table inside this one; that is walked with the cell around it."""
    return next(cell.iterancestors("table"), None) is not table


def _start(node: Node) -> int:
    text = node.get("start") or "1"
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 1


def _span(cell: Node) -> int:
    text = cell.get("colspan") or "1"
    return max(1, int(text)) if text.isascii() and text.isdigit() and len(text) < 5 else 1
