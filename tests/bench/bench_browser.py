"""The browser's start beside bare Playwright's, and the outline of a page with 1,000 elements.

Run: python -m tests.bench.bench_browser. Starts are interleaved, from the import on, each in a process of its own:
until the first page has loaded. Bars: start <= 1.2x of bare Playwright; an outline <= 250 ms.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time

from ollm_tui.core.browser import chromium
from ollm_tui.core.browser.session import BrowserSession
from ollm_tui.core.web.client import WebAccess
from ollm_tui.core.web.urls import parse_url

ROUNDS = 7
PAGE = "<title>page</title><h1>Top</h1>" + "".join(
    f"<p>Words about {n}. <a href=/{n}>link {n}</a> <button>Button {n}</button></p>" for n in range(500)
)


async def serve() -> tuple[asyncio.Server, str]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = PAGE.encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + body)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    return server, f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def ours() -> None:
    server, host = await serve()
    began = time.perf_counter()
    session = BrowserSession(WebAccess([host]), without_sandbox=True)
    async with session.use(start=True) as page, page.action(30):
        await page.open(parse_url(f"http://{host}/"), 30)
    print(time.perf_counter() - began)
    await session.aclose()
    server.close()


async def bare() -> None:
    server, host = await serve()
    began = time.perf_counter()
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium.find_chromium(), args=["--no-sandbox"])
        page = await (await browser.new_context()).new_page()
        await page.goto(f"http://{host}/")
        print(time.perf_counter() - began)
        await browser.close()
    server.close()


async def outline() -> list[float]:
    server, host = await serve()
    session = BrowserSession(WebAccess([host]), without_sandbox=True)
    times: list[float] = []
    async with session.use(start=True) as page, page.action(60):
        await page.open(parse_url(f"http://{host}/"), 30)
        for _ in range(ROUNDS + 1):
            began = time.perf_counter()
            await page.look()
            times.append(time.perf_counter() - began)
        assert len(page.outline.elements) == 1_000
    await session.aclose()
    server.close()
    return times[1:]


def started(arm: str) -> float:
    command = [sys.executable, "-m", "tests.bench.bench_browser", arm]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    if sys.argv[1:2] in (["ours"], ["bare"]):
        asyncio.run(ours() if sys.argv[1] == "ours" else bare())
        return
    absent = chromium.why_no_browser(without_sandbox=True)
    if absent is not None:
        print(f"skipped: {absent}")
        return
    rounds = [(started("bare"), started("ours")) for _ in range(ROUNDS)]
    theirs, own = (statistics.median(column) for column in zip(*rounds, strict=True))
    print(
        f"start to first page: Playwright {theirs * 1e3:.0f} ms, ours {own * 1e3:.0f} ms: {own / theirs:.2f}x (goal 1.2)"
    )
    print(f"outline of 1,000 elements: {statistics.median(asyncio.run(outline())) * 1e3:.0f} ms (goal 250)")


if __name__ == "__main__":
    main()
