"""Pages that may take long, read in a process of their own: a thread cannot be ended, and holds up all the others.

A page of a million elements takes ten seconds and a gigabyte, a selector on thousands of nested ones takes for ever.
"""

from __future__ import annotations

from pathlib import Path

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.web import page_child
from ollm_tui.core.web.extraction import NoMatch
from ollm_tui.core.web.own_child import ChildFailed, run_python

LARGE_CHARS = 2_000_000
LARGE_TAGS = 50_000
"""Pages up to here take tenths of a second, whatever is in them; starting a process takes one or two."""

SELECTED_CHARS = 2_000
"""A selector takes up to the cube of the number of elements."""

_CODE = "import sys; sys.path.append(sys.argv[1]); from ollm_tui.core.web.page_child import answer; answer()"
_HOME = str(Path(page_child.__file__).parents[3])
"""Where this package lies, for a child that does not find it among what is installed."""


class PageUnreadable(Exception):
    """Why a page cannot be made into text."""


def needs_process(html: str, selector: str | None) -> bool:
    """Whether a page, or what is asked of it, may take longer than a thread should be busy."""
    return len(html) > (LARGE_CHARS if selector is None else SELECTED_CHARS) or html.count("<") > LARGE_TAGS


async def read_large(html: str, selector: str | None, base_url: str, signal: AbortSignal) -> str:
    """What `extract_main` or `extract_selected` makes of a page. No time limit of its own: killed when cancelled.

    Raises NoMatch, ValueError for a selector that cannot be used, PageUnreadable, OperationCancelled.
    """
    asked = await signal.in_thread(page_child.question, html, selector, base_url)
    try:
        said = await run_python(["-c", _CODE, _HOME], asked, signal)
    except ChildFailed:
        raise PageUnreadable("it is too large or too deep to be read") from None
    outcome, text = await signal.in_thread(page_child.understood, said)
    match outcome:
        case page_child.Outcome.TEXT:
            return text
        case page_child.Outcome.NO_MATCH:
            raise NoMatch
        case page_child.Outcome.BAD_SELECTOR:
            raise ValueError(text)
        case page_child.Outcome.TOO_MUCH:
            raise PageUnreadable(f"its text has more than {page_child.MAX_TEXT:,} characters")
