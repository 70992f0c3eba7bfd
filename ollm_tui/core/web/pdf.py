"""Text of PDF files by pypdf (an optional extra), in a process of its own: hostile files can take for ever."""

from __future__ import annotations

import asyncio
import importlib.util

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.web.own_child import ChildFailed, run_python

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


class PdfUnreadable(Exception):
    """Why the text of a PDF cannot be had."""


async def pdf_text(data: bytes, signal: AbortSignal) -> str:
    """All text of a PDF. Raises PdfUnreadable, OperationCancelled."""
    if importlib.util.find_spec("pypdf") is None:
        raise PdfUnreadable("text of PDF files needs the extra: pip install 'ollm-tui[pdf]'")
    try:
        async with asyncio.timeout(SECONDS):
            written = await run_python(["-c", _CHILD, str(MEMORY_BYTES), str(MAX_CHARS)], data, signal)
    except TimeoutError:
        raise PdfUnreadable(f"the PDF could not be read within {SECONDS:g} s") from None
    except ChildFailed:
        raise PdfUnreadable("the PDF is damaged or encrypted") from None
    return written.decode("utf-8", "replace").strip()
