"""Links in foreign text: web addresses, and `path:line[:column]` of files that exist."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar
from urllib.parse import quote, unquote, urlsplit

from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from ollm_tui.core.base.escape import visible

MOST_CHARACTERS = 8_192
"""Of a line, wrapped rows joined, that is looked at; of a longer one the beginning."""
MOST_SHOWN = 60
MOST_TRIMMED = 6
"""Marks at the end of an address that are taken for the sentence's."""

_HIDDEN = "\u27e8U+"
"""How `visible` marks a hidden character; with it an address is none, and no shorter one either."""
# What ends an address: blanks and how they are marked, quotes, and what programs and scripts draw beside one.
_ADDRESS = re.compile(
    r"https?://[^\s<>\"'`{}|\\^\u2018-\u201f\u2026\u2409-\u241b\u21e5\u23ce\u2500-\u259f\u3000-\u303f\uff01-\uff0f\uff1a-\uff20]+",
    re.IGNORECASE,
)
_NAME = r"[^\s:\"'`()\[\]{}<>|,;=*?&\u2018-\u201f\u2500-\u259f\u27e8\u27e9]"
# A name begins at no letter of another, and gives none back: the text is read once.
_PLACE = re.compile(rf"(?<!{_NAME})(?<!\u27e9)({_NAME}{{1,1000}}+):(\d{{1,7}})(?::(\d{{1,6}}))?(?!\d)")
_TRACEBACK = re.compile(r"File \"([^\"]{1,1000})\", line (\d{1,7})")
_CLOSING = {")": "(", "]": "["}


@dataclass(frozen=True)
class WebLink:
    """An http or https address in canonical ASCII, and the text that stands for it."""

    url: str
    text: str

    @property
    def differs(self) -> bool:
        """Whether the text shows another address than the one that opens."""
        return self.text.rstrip("/").casefold() != self.url.rstrip("/").casefold()

    @property
    def words(self) -> str:
        """The address in one short line."""
        return _short(self.url)


@dataclass(frozen=True)
class FileName:
    """A name that may be a file's, as it stands in a text; 0 where no line or column is named."""

    name: str
    line: int = 0
    column: int = 0


@dataclass(frozen=True)
class FileLink:
    """A file that exists, and the place in it."""

    path: Path
    line: int = 0
    column: int = 0

    @property
    def words(self) -> str:
        """The file's own name and the line."""
        return _short(visible(self.path.name)) + (f":{self.line}" if self.line else "")


Link = WebLink | FileLink


@dataclass(frozen=True)
class Candidate:
    """What may be a link: characters `start` to `end` of a text."""

    start: int
    end: int
    target: WebLink | FileName


class LinkAsked(Message):
    """The person wants to open a link."""

    def __init__(self, link: Link) -> None:
        super().__init__()
        self.link = link


class LinkToPrompt(Message):
    """The person wants a link in the prompt."""

    def __init__(self, link: Link) -> None:
        super().__init__()
        self.link = link


def candidates_in(text: str) -> Iterator[Candidate]:
    """Yield what may be links, without looking at the disk."""
    text = text[:MOST_CHARACTERS]
    taken: list[tuple[int, int]] = []
    for found in _ADDRESS.finditer(text):
        address = _without_punctuation(found[0])
        taken.append((found.start(), found.end()))
        if (link := web_link(address, address)) is not None:
            yield Candidate(found.start(), found.start() + len(address), link)
    for found in (*_PLACE.finditer(text), *_TRACEBACK.finditer(text)):
        start, end = found.span()
        if visible(found[1]) == found[1] and not any(start < last and first < end for first, last in taken):
            column = found[3] if found.re is _PLACE else None
            yield Candidate(start, end, FileName(found[1], int(found[2]), int(column or 0)))


def candidate_at(text: str, index: int) -> Candidate | None:
    """Return what may be a link at a character."""
    return next((found for found in candidates_in(text) if found.start <= index < found.end), None)


def hyperlink(uri: str, text: str) -> WebLink | FileName | None:
    """Return the target of a hyperlink that a program set (OSC 8); None for other schemes and hosts."""
    if not uri.casefold().startswith("file:"):
        return web_link(uri, text.strip())
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    name = unquote(parts.path)
    here = parts.netloc.casefold() in ("", "localhost", socket.gethostname().casefold())
    return FileName(name) if here and visible(name) == name else None


def web_link(address: str, text: str) -> WebLink | None:
    """Return the link to an address; None where it is malformed, hides a character or carries a password."""
    from ollm_tui.core.base.errors import ToolFailure  # with the parser, not before it is needed
    from ollm_tui.core.web.urls import parse_url

    if visible(address) != address or _HIDDEN in address or not address.casefold().startswith(("http://", "https://")):
        return None
    try:
        url = parse_url(address).text
    except ToolFailure:
        return None
    _, mark, fragment = address.partition("#")
    return WebLink(url + mark + quote(fragment, safe="%/?:@!$&'()*+,;=-._~"), text)


def existing_file(name: FileName, folders: Iterable[Path]) -> FileLink | None:
    """Return the link to a regular file below one of the folders; looks at the disk."""
    roots = list(dict.fromkeys(folders))
    for root in roots:
        try:
            path = (root / name.name).resolve(strict=True)
            if path.is_file() and any(path.is_relative_to(one.resolve()) for one in roots):
                return FileLink(path, name.line, name.column)
        except (OSError, RuntimeError, ValueError):  # not there, a circle of links, a NUL
            continue
    return None


def prompt_text(link: Link, workspace: Path) -> str:
    """Return a link as it stands in a message: the address, or the file and line."""
    if isinstance(link, WebLink):
        return link.url
    try:
        name = str(link.path.relative_to(workspace.resolve()))
    except ValueError:
        name = str(link.path)
    place = "".join(f":{number}" for number in (link.line, link.column) if number)
    return visible(name) + place


def _without_punctuation(address: str) -> str:
    """Return an address without what ends the sentence or closes the bracket around it."""
    for _ in range(MOST_TRIMMED):
        last = address[-1]
        opening = _CLOSING.get(last)
        if last not in ".,;:!?*_~" and not (opening and address.count(last) > address.count(opening)):
            break
        address = address[:-1]
    return address


def _short(text: str) -> str:
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 3]}..."


Span = TypeVar("Span")
"""Where a link is drawn, as the widget says it."""


class LinkPointer(Generic[Span]):
    """What is pointed at; a name is a link once the disk has told that there is such a file."""

    def __init__(self, widget: Widget, changed: Callable[[], None]) -> None:
        self._widget = widget
        self._changed = changed
        self.folders: Callable[[], Sequence[Path]] = lambda: ()
        """Where files are that a text may name."""
        self.link: Link | None = None
        """The link that is pointed at."""
        self.span: Span | None = None
        self._wanted: tuple[Span, FileName] | None = None
        self._looking = False

    def point(self, span: Span | None = None, target: WebLink | FileName | None = None) -> None:
        """Point at what may be a link, or at nothing."""
        self._wanted = None
        if not isinstance(target, FileName):
            self._show(span, target)
        elif span is not None and span != self.span:
            self._show(None, None)
            self._wanted = span, target
            if not self._looking:
                self._looking = True
                self._widget.run_worker(self._look(), group="link", exit_on_error=False)

    def show(self, span: Span, link: Link) -> None:
        """Point at a link that is known."""
        self._wanted = None
        self._show(span, link)

    def follow(self, target: WebLink | FileName | None, wish: type[LinkAsked] | type[LinkToPrompt] = LinkAsked) -> None:
        """Post what the person wants with a link; say so where it is none."""

        async def follow() -> None:
            link = None if target is None else await self._resolve(target)
            if link is None:
                self._widget.notify("There is no link here.", markup=False)
            else:
                self._widget.post_message(wish(link))

        self._widget.run_worker(follow(), group="follow link", exclusive=True, exit_on_error=False)

    async def _look(self) -> None:
        """Ask for one file at a time: a folder may hang."""
        try:
            while (wanted := self._wanted) is not None:
                link = await self._resolve(wanted[1])
                if wanted is self._wanted:
                    self._wanted = None
                    self._show(wanted[0], link)
        finally:
            self._looking = False

    def _show(self, span: Span | None, link: Link | None) -> None:
        span = None if link is None else span
        if (span, link) != (self.span, self.link):
            self.span, self.link = span, link
            self._widget.tooltip = None if link is None else Content(f"ctrl+click opens {link.words}")
            self._changed()

    async def _resolve(self, target: WebLink | FileName) -> Link | None:
        if isinstance(target, WebLink):
            return target
        return await asyncio.to_thread(existing_file, target, tuple(self.folders()))
