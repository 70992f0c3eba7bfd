"""Markdown with headings at the left; apart because it loads with the first answer."""

from __future__ import annotations

from typing import ClassVar

from rich.console import JustifyMethod
from rich.markdown import Heading, Markdown, MarkdownElement


class LeftHeading(Heading):
    """A heading at the left, like the text under it."""

    LEVEL_ALIGN: ClassVar[dict[str, JustifyMethod]] = {f"h{level}": "left" for level in range(1, 7)}


class LeftMarkdown(Markdown):
    """Rich's markdown with headings at the left."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "heading_open": LeftHeading}
