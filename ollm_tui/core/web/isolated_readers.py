"""Pages that may take long, read in a process of their own: a thread cannot be ended, and holds up all the others.

A page of a million elements takes ten seconds and a gigabyte, a selector on thousands of nested ones takes for ever.
"""

from __future__ import annotations

import asyncio
import importlib.util
from pathlib import Path

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.web import page_process
from ollm_tui.core.web.child_process import ChildRunError, run_python
from ollm_tui.core.web.extraction import SelectorNotFoundError

LARGE_CHARS = 2_000_000
LARGE_TAGS = 50_000
"""Pages up to here take tenths of a second, whatever is in them; starting a process takes one or two."""

SELECTED_CHARS = 2_000
"""A selector takes up to the cube of the number of elements."""

_CODE = "import sys; sys.path.append(sys.argv[1]); from ollm_tui.core.web.page_process import answer; answer()"
_HOME = str(Path(page_process.__file__).parents[3])
"""Where this package lies, for a child that does not find it among what is installed."""


class UnreadablePageError(Exception):
    """Why a page cannot be made into text."""


def needs_process(html: str, selector: str | None) -> bool:
    """Whether a page, or what is asked of it, may take longer than a thread should be busy."""
    return len(html) > (LARGE_CHARS if selector is None else SELECTED_CHARS) or html.count("<") > LARGE_TAGS


async def read_large(html: str, selector: str | None, base_url: str, signal: AbortSignal) -> str:
    """Return what `extract_main` or `extract_selected` makes of a page; killed when cancelled.

    Raises NoMatch, ValueError for a selector that cannot be used, PageUnreadable, OperationCancelled.
    """
    asked = await signal.in_thread(page_process.question, html, selector, base_url)
    try:
        said = await run_python(["-c", _CODE, _HOME], asked, signal)
    except ChildRunError:
        raise UnreadablePageError("it is too large or too deep to be read") from None
    outcome, text = await signal.in_thread(page_process.parse_answer, said)
    match outcome:
        case page_process.PageOutcome.TEXT:
            return text
        case page_process.PageOutcome.NO_MATCH:
            raise SelectorNotFoundError
        case page_process.PageOutcome.BAD_SELECTOR:
            raise ValueError(text)
        case page_process.PageOutcome.TOO_MUCH:
            raise UnreadablePageError(f"its text has more than {page_process.MAX_TEXT:,} characters")


SECONDS = 20.0
MEMORY_BYTES = 1024 * 1024 * 1024
MAX_CHARS = 2_000_000

_CHILD = """
import io, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]), int(sys.argv[1])))
import logging
logging.disable(logging.CRITICAL)
import pypdf
left = int(sys.argv[2])
for page in pypdf.PdfReader(io.BytesIO(sys.stdin.buffer.read())).pages:
    text = page.extract_text()[:left]
    left -= len(text)
    sys.stdout.buffer.write((text + "\\n\\n").encode("utf-8", "replace"))
    if left <= 0:
        break
"""


class UnreadablePdfError(Exception):
    """Why the text of a PDF cannot be had."""


async def pdf_text(data: bytes, signal: AbortSignal) -> str:
    """All text of a PDF. Raises PdfUnreadable, OperationCancelled."""
    if importlib.util.find_spec("pypdf") is None:
        raise UnreadablePdfError("text of PDF files needs the extra: pip install 'ollm-tui[pdf]'")
    try:
        async with asyncio.timeout(SECONDS):
            written = await run_python(["-c", _CHILD, str(MEMORY_BYTES), str(MAX_CHARS)], data, signal)
    except TimeoutError:
        raise UnreadablePdfError(f"the PDF could not be read within {SECONDS:g} s") from None
    except ChildRunError:
        raise UnreadablePdfError("the PDF is damaged or encrypted") from None
    return written.decode("utf-8", "replace").strip()
