"""An answer to something a model can read: pages, JSON, text, PDF; pictures and other bytes as files."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import os
import tempfile
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import FetchFailed, FetchTimeout, InvalidArguments
from ollm_tui.core.base.escape import visible
from ollm_tui.core.web.child_process import UnreadableError, needs_process, pdf_text, read_large
from ollm_tui.core.web.http_messages import WebResponse
from ollm_tui.core.web.response_body import decode_text

_HTML = frozenset({"text/html", "application/xhtml+xml"})
_TEXT_ENDINGS = ("+json", "+xml", "/json", "/xml", "/javascript", "/ecmascript", "/yaml", "/toml", "/x-yaml", "/csv")
_TEXT_TYPES = frozenset(
    {"application/x-sh", "application/sql", "application/x-ndjson", "application/graphql", "application/rtf"}
)

MAX_TYPE = 100
"""Characters shown of what a server calls its answer."""

READING_SECONDS = 30.0
"""For making text of what came: ordinary pages take hundredths of a second."""


@dataclass(frozen=True)
class ReadableContent:
    """What an answer says. `body` is for programs: exact text, or base64; `path` is where other bytes were saved."""

    text: str
    body: str
    is_base64: bool = False
    path: Path | None = None
    note: str | None = None


def check_selector(selector: str) -> None:
    """Raise InvalidArguments where no page could be asked for it."""
    from ollm_tui.core.web.extraction import selector_error

    fault = selector_error(selector)
    if fault is not None:
        raise InvalidArguments(
            f"selector: {visible(selector)!r} is no CSS selector that can be used: {visible(fault)}."
        )


async def read_page(
    response: WebResponse, selector: str | None, downloads: Path | None, signal: AbortSignal
) -> ReadableContent:
    """Return the readable form of an answer. Raises FetchFailed, FetchTimeout after READING_SECONDS."""
    try:
        async with asyncio.timeout(READING_SECONDS):
            return await _read(response, selector, downloads, signal)
    except TimeoutError:
        raise FetchTimeout(
            f"{response.url.text}: the page came, but could not be read within the limit of {READING_SECONDS:g} s "
            f"(gave up after {READING_SECONDS:.1f} s). Ask for its text with http_fetch.",
            {"url": response.url.text, "limitSeconds": READING_SECONDS},
        ) from None


async def _read(
    response: WebResponse, selector: str | None, downloads: Path | None, signal: AbortSignal
) -> ReadableContent:
    kind = kind_of(response)
    if kind == "binary" or kind == "pdf":
        if selector is not None:
            raise _no_selector(response, f"it is {response.media_type[:MAX_TYPE] or 'binary data'}, not HTML")
        return await _read_bytes(response, kind, downloads, signal)
    text = await signal.in_thread(decode_text, response.body, response.content_type)
    if kind == "html":
        return ReadableContent(await _page_text(text, selector, response, signal), text)
    if selector is not None:
        if "xml" not in response.media_type:
            raise _no_selector(response, f"it is {response.media_type[:MAX_TYPE] or 'plain text'}, not HTML")
        return ReadableContent(await _page_text(text, selector, response, signal), text)
    return ReadableContent(text, text)


async def read_raw(response: WebResponse, downloads: Path | None, signal: AbortSignal) -> ReadableContent:
    """Return the body as the server sent it, as text where it is text."""
    if kind_of(response) in ("binary", "pdf"):
        return await _read_bytes(response, "binary", downloads, signal)
    text = await signal.in_thread(decode_text, response.body, response.content_type)
    return ReadableContent(text, text)


def kind_of(response: WebResponse) -> str:
    """`html`, `text` (JSON too), `pdf` or `binary`, by the declared type; by the bytes where that says nothing."""
    declared = response.media_type
    if declared in _HTML:
        return "html"
    if declared == "application/pdf":
        return "pdf"
    if declared.startswith("text/") or declared.endswith(_TEXT_ENDINGS) or declared in _TEXT_TYPES:
        return "text"
    if declared and declared not in ("application/octet-stream", "binary/octet-stream"):
        return "binary"
    return _sniffed(response.body)


def _sniffed(body: bytes) -> str:
    head = body[:1024]
    if head.startswith(b"%PDF-"):
        return "pdf"
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "text"
    if b"\0" in head or not _decodes(head):
        return "binary"
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    return "html" if start.startswith((b"<!doctype html", b"<html", b"<head", b"<body")) else "text"


def _decodes(head: bytes) -> bool:
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start >= len(head) - 3 and len(head) == 1024  # cut inside a character
    return True


async def _page_text(html: str, selector: str | None, response: WebResponse, signal: AbortSignal) -> str:
    # Not before a page has come, and in a thread: making Markdown takes a seventh of all modules' memory.
    await signal.in_thread(import_module, "ollm_tui.core.web.extraction")
    from ollm_tui.core.web.extraction import SelectorNotFoundError, extract

    url = response.url.text
    try:
        if needs_process(html, selector):
            return await read_large(html, selector, url, signal)
        return await signal.in_thread(extract, html, selector, url)
    except SelectorNotFoundError:
        raise _no_selector(response, "no element of the page matches it") from None
    except ValueError as error:
        raise _no_selector(response, str(error)) from None
    except UnreadableError as error:
        raise FetchFailed(
            f"{url}: the page came, but {error}. Ask for a part of it by selector, or for its text with http_fetch.",
            {"url": url, "reason": str(error)},
        ) from None


def _no_selector(response: WebResponse, reason: str) -> FetchFailed:
    return FetchFailed(
        f"{response.url.text}: the selector cannot be applied: {reason}. Leave the selector out to see the page.",
        {"url": response.url.text, "reason": reason},
    )


async def _read_bytes(response: WebResponse, kind: str, downloads: Path | None, signal: AbortSignal) -> ReadableContent:
    note: str | None = None
    if kind == "pdf":
        try:
            text = await pdf_text(response.body, signal)
            return ReadableContent(text or "(the PDF has no text)", text)
        except UnreadableError as error:
            note = str(error)
    described = f"{response.media_type[:MAX_TYPE] or 'binary data'}, {len(response.body):,} bytes"
    size = image_size(response.body)
    if size is not None:
        described += f", {size[0]}x{size[1]} pixels"
    if downloads is None:
        encoded = base64.b64encode(response.body).decode("ascii")
        return ReadableContent(f"[{described}; the bytes are in the result's data]", encoded, is_base64=True, note=note)
    try:
        path = await signal.in_thread(_save, response, downloads)
    except OSError as error:
        reason = error.strerror or str(error)
        raise FetchFailed(
            f"{response.url.text}: {described} could not be saved: {reason}. Free some space first.",
            {"url": response.url.text, "reason": reason},
        ) from None
    return ReadableContent(f"[{described}; saved to {path}]", "", path=path, note=note)


def _save(response: WebResponse, folder: Path) -> Path:
    """Write to a name of our own making: whole or not at all."""
    import mimetypes  # only here, and it reads files of the system

    folder.mkdir(parents=True, exist_ok=True)
    ending = mimetypes.guess_extension(response.media_type) or ".bin"
    path = folder / f"web-{hashlib.sha256(response.body).hexdigest()[:16]}{ending}"
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".web-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(response.body)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    return path


def image_size(data: bytes) -> tuple[int, int] | None:
    """Width and height of a PNG or GIF by its first bytes; None for anything else."""
    if data.startswith(b"\x89PNG\r\n\x1a\n") and len(data) >= 24:
        return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    if data.startswith((b"GIF87a", b"GIF89a")) and len(data) >= 10:
        return int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")
    return None
