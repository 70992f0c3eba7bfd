"""`pre` elements as fenced blocks that hold exactly what a browser shows, and what language they are in."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ollm_tui.core.web.tree import Node, text_of

UNSEEN_TAGS = (
    "script",
    "style",
    "template",
    "noscript",
    "head",
    "iframe",
    "object",
    "embed",
    "applet",
    "canvas",
    "svg",
    "audio",
    "video",
    "map",
    "select",
    "option",
    "textarea",
    "input",
    "button",
    "dialog",
    "annotation",
    "annotation-xml",
)
"""Elements whose text is no text of the page."""

_NO_PLAIN_TEXT = frozenset({"br", *UNSEEN_TAGS})
_FENCE_RUN = re.compile(r"`{3,}")
_LANGUAGE = re.compile(
    r"(?:^|\s)(?:(?:language|lang|highlight-source|highlight|sourceCode)[-:\s]|brush:\s*)([A-Za-z0-9+#_.-]{1,30})"
)
_NO_LANGUAGE = frozenset({"default", "none", "notranslate", "text", "plain", "plaintext", "nohighlight", "highlight"})
_GUTTER = re.compile(r"(?:^|\s)(?:linenos?|lineno|line-numbers?|lnt?|gutter|hljs-ln-numbers)(?:\s|$)")


class CodeBlock(str):
    """A fenced block: never indented, quoted or folded."""

    __slots__ = ()


def code_block(pre: Node, above: Sequence[Node]) -> CodeBlock | None:
    """A `pre` as Markdown; None where it holds no text. `above` is what it lies in, outermost first."""
    text = _code_text(pre)
    if not text.strip():
        return None
    longest = max(map(len, _FENCE_RUN.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return CodeBlock(f"{fence}{_language(pre, above)}\n{text}{'' if text.endswith(chr(10)) else chr(10)}{fence}")


def _code_text(pre: Node) -> str:
    """What a browser shows of a `pre`, without line numbers and buttons; the line end right behind the tag is none."""
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
