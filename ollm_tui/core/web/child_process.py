"""Child processes for our own Python code, which can be killed: large pages, PDFs, searches."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import signal as signals
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.fence.secrets import cleaned

_ERROR_CHARS = 200
"""Characters of an error's last line."""


class ChildRunError(Exception):
    """A child that failed; the message is the last line of its stderr."""


async def run_python(
    arguments: Sequence[str], given: bytes, signal: AbortSignal, *, passed: Collection[str] = ()
) -> bytes:
    """Return what a program writes when it reads `given`; kill its processes when aborted.

    It imports nothing from the current folder (the workspace, which is not trusted), and sees the environment that
    commands see, plus the variables in `passed`. Raises ChildRunError, OperationCancelled.
    """
    environment = cleaned(os.environ) | {name: os.environ[name] for name in passed if name in os.environ}
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd="/",
        env=environment,
        start_new_session=True,
    )
    try:
        written, complaint = await signal.guard(child.communicate(given))
    finally:
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signals.SIGKILL)
            await child.wait()
    if child.returncode != 0:
        last = complaint.decode("utf-8", "replace").strip().rsplit("\n", 1)[-1][-_ERROR_CHARS:]
        raise ChildRunError(last or f"it ended with {child.returncode}")
    return written


LARGE_CHARS = 2_000_000
LARGE_TAGS = 50_000
"""Pages up to here take tenths of a second, whatever is in them; starting a process takes one or two."""

SELECTED_CHARS = 2_000
"""A selector takes up to the cube of the number of elements."""


@dataclass(frozen=True)
class ReaderLimits:
    """Bounds of a process that reads one page or PDF."""

    memory_bytes: int = 1024 * 1024 * 1024
    page_chars: int = 20_000_000
    """No page that can be fetched needs more."""
    pdf_chars: int = 2_000_000
    pdf_seconds: float = 20.0


LIMITS = ReaderLimits()

_PAGE_CODE = "import sys; sys.path.append(sys.argv[1]); from ollm_tui.core.web.extraction import answer; answer()"
_PDF_CODE = """
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


class UnreadableError(Exception):
    """A page or PDF whose text cannot be had; the message says why."""


def needs_process(html: str, selector: str | None) -> bool:
    """Return whether a page, or the selector on it, may keep a thread busy for long.

    A thread cannot be ended: a million elements take ten seconds, a selector on thousands of nested ones for ever.
    """
    return len(html) > (LARGE_CHARS if selector is None else SELECTED_CHARS) or html.count("<") > LARGE_TAGS


async def read_large(html: str, selector: str | None, base_url: str, signal: AbortSignal) -> str:
    """Return what `extract` makes of a page, in a process that is killed when cancelled."""
    from ollm_tui.core.web.extraction import PageOutcome, SelectorNotFoundError

    asked = json.dumps([selector, base_url, LIMITS.memory_bytes, LIMITS.page_chars])
    home = str(Path(__file__).parents[3])  # for a child that does not find this package among what is installed
    try:
        page = await signal.in_thread(f"{asked}\n{html}".encode, "utf-8", "replace")
        answer = (await run_python(["-c", _PAGE_CODE, home], page, signal)).decode("utf-8")
    except ChildRunError:
        raise UnreadableError("it is too large or too deep to be read") from None
    outcome, _, text = answer.partition("\n")
    match PageOutcome(outcome):
        case PageOutcome.TEXT:
            return text
        case PageOutcome.NO_MATCH:
            raise SelectorNotFoundError
        case PageOutcome.BAD_SELECTOR:
            raise ValueError(text)
        case PageOutcome.TOO_MUCH:
            raise UnreadableError(f"its text has more than {LIMITS.page_chars:,} characters")


async def pdf_text(data: bytes, signal: AbortSignal) -> str:
    """Return all text of a PDF. Raises UnreadableError, OperationCancelled."""
    if importlib.util.find_spec("pypdf") is None:
        raise UnreadableError("text of PDF files needs the extra: pip install 'ollm-tui[pdf]'")
    try:
        async with asyncio.timeout(LIMITS.pdf_seconds):
            bounds = [str(LIMITS.memory_bytes), str(LIMITS.pdf_chars)]
            written = await run_python(["-c", _PDF_CODE, *bounds], data, signal)
    except TimeoutError:
        raise UnreadableError(f"the PDF could not be read within {LIMITS.pdf_seconds:g} s") from None
    except ChildRunError:
        raise UnreadableError("the PDF is damaged or encrypted") from None
    return written.decode("utf-8", "replace").strip()
