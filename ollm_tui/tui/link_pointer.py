"""The link that somebody points at in a widget: looked for on the disk, one file at a time, and followed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from textual.content import Content
from textual.widget import Widget

from ollm_tui.tui.links import FileName, Link, LinkAsked, LinkToPrompt, WebLink, existing_file

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
