"""What the browser's proxy lets through: the web rules, for requests and for tunnels."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import pytest

from ollm_tui.core.base.errors import UrlNotAllowed
from ollm_tui.core.web import filtering_proxy
from ollm_tui.core.web.client import WebAccess
from ollm_tui.core.web.filtering_proxy import FilteringProxy
from ollm_tui.core.web.urls import parse_url
from tests.core.web.server import World, access, reply, running_server


@asynccontextmanager
async def running_proxy(web: WebAccess, site: str) -> AsyncGenerator[tuple[FilteringProxy, int]]:
    proxy = FilteringProxy(web)
    address = await proxy.start()
    try:
        proxy.admit(parse_url(site))
        yield proxy, int(address.rpartition(":")[2])
    finally:
        await proxy.aclose()


async def sent(port: int, text: str) -> bytes:
    """Everything that the proxy answers to raw bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(text.replace("\n", "\r\n").encode("latin-1"))
    try:
        return await asyncio.wait_for(reader.read(), 10)
    finally:
        writer.close()


async def test_requests_to_the_open_site_are_forwarded_and_its_name_is_looked_up_once() -> None:
    async with running_server() as server:
        server.answers["/a?b"] = reply("<p>yak</p>")
        world = World(server, {"yak.example": [["93.184.216.34"], ["127.0.0.1"]]})
        async with running_proxy(access(server, world=world), "http://yak.example/") as (proxy, port):
            answer = await sent(
                port, "GET http://yak.example/a?b HTTP/1.1\nHost: other\nProxy-Connection: x\nX-A: b\n\n"
            )
            assert answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(b"<p>yak</p>")
            assert (world.looked_up, world.connected) == (["yak.example"], [("93.184.216.34", 80)])
            assert proxy.refusals == {}
        asked = server.requests[-1].headers
        assert (asked["host"], asked["x-a"]) == ("yak.example", "b") and "proxy-connection" not in asked


async def test_a_body_is_forwarded_with_its_request() -> None:
    async with running_server() as server:
        server.answers["/post"] = reply("taken")
        async with running_proxy(access(server), server.origin) as (_, port):
            answer = await sent(port, f"POST {server.origin}/post HTTP/1.1\nContent-Length: 5\n\nhello")
        assert answer.endswith(b"taken") and server.requests[-1].body == b"hello"


async def test_a_tunnel_leads_to_the_judged_address_alone() -> None:
    async with running_server() as server:
        server.answers["/t"] = reply("through")
        world = World(server, {"yak.example": [["93.184.216.34"]]})
        async with running_proxy(access(server, world=world), "https://yak.example/") as (_, port):
            answer = await sent(
                port, "CONNECT yak.example:443 HTTP/1.1\n\nGET /t HTTP/1.1\nHost: yak.example\nConnection: close\n\n"
            )
        assert answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(b"through")
        assert world.connected == [("93.184.216.34", 443)]


@pytest.mark.parametrize(
    ("site", "request_line", "said"),
    [
        ("http://yak.example/", "GET http://other.example/ HTTP/1.1", "another site"),
        ("http://yak.example/", "CONNECT other.example:443 HTTP/1.1", "another site"),
        ("https://yak.example/", "GET http://yak.example/ HTTP/1.1", "another site"),  # less encrypted than approved
        ("http://yak.example/", "GET http://127.0.0.1:9/ HTTP/1.1", "private or loopback"),
        ("http://yak.example/", "CONNECT 127.0.0.1:9 HTTP/1.1", "private or loopback"),
        ("http://yak.example/", "CONNECT [::1]:9 HTTP/1.1", "private or loopback"),
        ("http://yak.example/", "GET http://2130706433:9/ HTTP/1.1", "private or loopback"),
        ("http://yak.example/", "GET http://169.254.169.254/latest HTTP/1.1", "never fetched"),
        ("http://yak.example/", "GET http://LISTED/ HTTP/1.1", "may not reach a machine nearby"),
        ("http://rebound.example/", "GET http://rebound.example/ HTTP/1.1", "private or loopback"),
        ("http://rebound.example/", "CONNECT rebound.example:80 HTTP/1.1", "private or loopback"),
        ("http://yak.example/", "GET ftp://yak.example/ HTTP/1.1", "only http"),
        ("http://yak.example/", "GET / HTTP/1.1", "no usable address"),
        ("http://yak.example/", "GET https://yak.example/ HTTP/1.1", "as a tunnel"),
    ],
)
async def test_nothing_else_is_reached(site: str, request_line: str, said: str) -> None:
    async with running_server() as server:
        server.answers["*"] = reply("secret")
        names: dict[str, list[Sequence[str]]] = {"rebound.example": [["127.0.0.1"]]}
        world = World(server, names)  # every other name leads to a public address
        async with running_proxy(access(server, world=world), site) as (proxy, port):
            line = request_line.replace("LISTED", f"127.0.0.1:{server.port}")
            assert await sent(port, f"{line}\nHost: yak.example\n\n") == b""
            assert [said in why for why in proxy.refusals.values()] == [True], proxy.refusals
        assert (world.connected, server.requests) == ([], [])


async def test_a_listed_page_nearby_reaches_listed_hosts_and_no_unlisted_one_can_be_opened() -> None:
    async with running_server() as server:
        server.answers["*"] = reply("listed")
        world = World(server, {"cdn.example": [["93.184.216.34"]]})
        async with running_proxy(access(server, "cdn.example", world=world), server.origin) as (proxy, port):
            for address in (server.origin, "http://cdn.example"):
                assert (await sent(port, f"GET {address}/x HTTP/1.1\n\n")).endswith(b"listed")
            with pytest.raises(UrlNotAllowed):
                proxy.admit(parse_url("http://127.0.0.1:9/"))


async def test_an_endless_answer_and_an_endless_head_are_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filtering_proxy, "MAX_ANSWER", 1_000)
    async with running_server() as server:
        server.answers["*"] = reply("x" * 5_000)
        async with running_proxy(access(server), server.origin) as (proxy, port):
            answer = await sent(port, f"GET {server.origin}/ HTTP/1.1\n\n")
            assert answer.count(b"x") < 5_000 and "cut off" in "".join(proxy.refusals.values())
            with pytest.raises(ConnectionError):
                await sent(port, "GET " + "y" * 200_000)


async def test_what_breaks_off_is_said_and_ends_with_the_proxy() -> None:
    async with running_server() as server:
        server.answers["*"] = b""
        async with running_proxy(access(server), server.origin) as (proxy, port):
            assert await sent(port, f"GET {server.origin}/ HTTP/1.1\n\n") == b""
            assert "disconnected" in "".join(proxy.refusals.values())
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await reader.read() == b""  # a client that only waited
        writer.close()
