"""Pages that may take for ever: read in a process that is killed in time, and never at the cost of everything else."""

from __future__ import annotations

import asyncio

import pytest

from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.base.errors import FetchFailed, FetchTimeout, OperationCancelled
from ollm_tui.core.tools.web_fetch import WEB_FETCH
from ollm_tui.core.web import child_process, readable
from ollm_tui.core.web.child_process import LARGE_TAGS, ReaderLimits, UnreadableError, needs_process, read_large
from ollm_tui.core.web.extraction import SelectorNotFoundError, extract_main, extract_selected
from tests.core.web.server import access, call, reply, running_server
from tests.processes import own_children

SIGNAL = AbortController().signal
URL = "http://host/page"
ENDLESS = ", ".join(["div div div div div"] * 40)
"""Takes minutes on a page of many nested elements."""
NESTED = f"{'<div>' * 2_000}deep{'</div>' * 2_000}"


@pytest.mark.parametrize(
    ("html", "selector", "expected"),
    [
        ("<p>x" * 10, None, False),
        ("<p>x" * 10, "p", False),
        ("<p>x" * LARGE_TAGS, None, False),
        ("<p>x" * (LARGE_TAGS + 1), None, True),
        ("x" * 2_000_001, None, True),
        ("<p>x" * 1_000, "p", True),
    ],
)
def test_what_may_take_long_is_known_beforehand(html: str, selector: str | None, expected: bool) -> None:
    assert needs_process(html, selector) is expected


async def test_a_large_page_says_the_same_as_a_small_one() -> None:
    html = "<title>Bäume</title><main>" + "".join(f"<p>Tree {n}: 木 <a href=t{n}>more</a>" for n in range(2_000))
    assert await read_large(html, None, URL, SIGNAL) == extract_main(html, URL)
    assert await read_large(html, "p:first-of-type", URL, SIGNAL) == extract_selected(html, "p:first-of-type", URL)


async def test_a_selector_that_fits_nothing_or_cannot_be_used_is_told_apart() -> None:
    with pytest.raises(SelectorNotFoundError):
        await read_large("<p>x", "table", URL, SIGNAL)
    with pytest.raises(ValueError, match="Expected an argument"):
        await read_large("<p>x", "p::nonsense(", URL, SIGNAL)


async def test_what_fills_the_memory_or_says_too_much_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "LIMITS", ReaderLimits(page_chars=9))
    with pytest.raises(UnreadableError, match="its text has more than"):
        await read_large("<p>ten letters", None, URL, SIGNAL)
    monkeypatch.setattr(child_process, "LIMITS", ReaderLimits(memory_bytes=1 << 20))
    with pytest.raises(UnreadableError, match="too large or too deep"):
        await read_large("<p>x" * LARGE_TAGS, None, URL, SIGNAL)


async def test_an_endless_selector_ends_with_the_time_and_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readable, "READING_SECONDS", 1.0)
    before = own_children()
    async with running_server() as server:
        server.answers["/"] = reply(NESTED)
        with pytest.raises(FetchTimeout, match="could not be read within"):
            await call(WEB_FETCH, access(server), url=f"{server.origin}/", selector=ENDLESS)
    assert own_children() <= before


async def test_an_abort_ends_the_reading_and_its_process() -> None:
    before = own_children()
    controller = AbortController()
    running = asyncio.ensure_future(read_large(NESTED, ENDLESS, URL, controller.signal))
    async with asyncio.timeout(30):
        while own_children() <= before:
            await asyncio.sleep(0.01)
    controller.abort()
    with pytest.raises(OperationCancelled):
        await running
    assert own_children() <= before


async def test_a_page_that_cannot_be_read_says_what_to_ask_for_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "LIMITS", ReaderLimits(memory_bytes=1 << 20))
    async with running_server() as server:
        server.answers["/"] = reply("<p>x" * (LARGE_TAGS + 1))
        with pytest.raises(FetchFailed, match=r"too large or too deep to be read\. Ask for a part of it by selector"):
            await call(WEB_FETCH, access(server), url=f"{server.origin}/")
