"""The ways out of a browser: none reaches a server that is not listed, though each does without the proxy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from ollm_tui.core.browser import chromium
from ollm_tui.core.web.filtering_proxy import FilteringProxy
from ollm_tui.core.web.urls import parse_url
from tests.core.browser.browsing import needs_chromium
from tests.core.web.server import Server, access, moved, reply, running_server

pytestmark = needs_chromium

WAYS = {
    "fetch": "await fetch('http://CANARY/', {mode: 'no-cors'})",
    "image": "await new Promise((y, n) => Object.assign(new Image(), {onload: y, onerror: n, src: 'http://CANARY/'}))",
    "beacon": "navigator.sendBeacon('http://CANARY/', 'x')",
    "worker": "await new Promise(y => new Worker(URL.createObjectURL(new Blob([`fetch('http://CANARY/',"
    " {mode: 'no-cors'}).finally(() => postMessage(1))`]))).onmessage = y)",
    "websocket": "await new Promise(y => new WebSocket('ws://CANARY/').onclose = y)",
    "popup": "open('http://CANARY/')",
    "prefetch": "document.head.append(Object.assign(document.createElement('link'),"
    " {rel: 'prefetch', href: 'http://CANARY/'}))",
    "frame": "document.body.append(Object.assign(document.createElement('iframe'), {src: 'http://CANARY/'}))",
    "webrtc": "window.kept = new RTCPeerConnection({iceServers: [{urls: 'stun:CANARY'}]});"
    " kept.createDataChannel('x'); await kept.setLocalDescription(await kept.createOffer());"
    " await new Promise(y => {const look = () => kept.iceGatheringState === 'complete' ? y() : setTimeout(look, 20);"
    " look()})",
    "webtransport": "await new WebTransport('https://CANARY/').ready",
    "redirect": "location.href = '/redirect'",
}
SILENT = ("webrtc", "webtransport")
"""These do not ask the proxy at all."""


class Canary(asyncio.DatagramProtocol):
    """A server next door, for streams and datagrams, that counts who comes."""

    def __init__(self) -> None:
        self.hits: list[bytes] = []
        self.port = 0

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.hits.append(b"connection")
        writer.close()

    def datagram_received(self, data: bytes, addr: object) -> None:
        self.hits.append(data)


@asynccontextmanager
async def canary_and_page() -> AsyncGenerator[tuple[Canary, Server]]:
    canary = Canary()
    listening = await asyncio.start_server(canary.connected, "127.0.0.1", 0)
    canary.port = listening.sockets[0].getsockname()[1]
    loop = asyncio.get_running_loop()
    datagrams, _ = await loop.create_datagram_endpoint(lambda: canary, local_addr=("127.0.0.1", canary.port))
    async with running_server() as server:
        server.answers["*"] = reply("<title>page</title>")
        server.answers["/redirect"] = moved(f"http://127.0.0.1:{canary.port}/")
        yield canary, server
    datagrams.close()
    listening.close()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.02)


def script(way: str, canary: Canary) -> str:
    return f"async () => {{ try {{ {WAYS[way]} }} catch {{}} }}".replace("CANARY", f"127.0.0.1:{canary.port}")


async def test_none_of_the_ways_out_leads_past_the_proxy() -> None:
    async with canary_and_page() as (canary, server):
        proxy = FilteringProxy(access(server))
        browser = await chromium.launch(await proxy.start(), without_sandbox=True)
        try:
            proxy.admit(parse_url(server.origin))
            for way in WAYS:
                page = await browser.context.new_page()
                await page.goto(server.origin)
                proxy.refusals.clear()
                await page.evaluate(script(way, canary))
                if way not in SILENT:
                    await until(lambda: f"127.0.0.1:{canary.port}" in proxy.refusals)
                await page.close()
                assert canary.hits == [], way
        finally:
            await browser.aclose()
            await proxy.aclose()
        assert canary.hits == []
        assert browser.tree.members() == []


async def test_each_of_the_ways_leads_out_without_the_proxy() -> None:
    from playwright.async_api import async_playwright

    async with canary_and_page() as (canary, server), async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium.find_chromium(), args=["--no-sandbox"])
        for way in WAYS:
            page = await (await browser.new_context()).new_page()
            await page.goto(server.origin)
            canary.hits.clear()
            await page.evaluate(f"() => {{ ({script(way, canary)})() }}")  # some would wait long for an answer
            await until(lambda: canary.hits)
            await page.close()
        await browser.close()
