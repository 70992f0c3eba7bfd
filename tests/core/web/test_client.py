"""Fetching against a hostile server and a lying resolver: what is connected to, how long, and how much is read."""

from __future__ import annotations

import asyncio
import gzip
import time
import zlib
from collections.abc import AsyncIterator

import httpcore
import pytest
import pytest_asyncio

from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.base.errors import (
    FetchFailed,
    FetchTimeout,
    HttpFailure,
    InvalidArguments,
    OperationCancelled,
    UrlNotAllowed,
)
from ollm_tui.core.tools.web_fetch import HTTP_FETCH, WEB_FETCH
from ollm_tui.core.web.server_load import SPACING, HostThrottle
from ollm_tui.core.web.transport import PIECES_AT_ONCE, pieces
from ollm_tui.testing import FakeClock
from tests.core.web.server import PUBLIC, Request, Server, World, access, call, moved, quick, reply, running_server


@pytest_asyncio.fixture
async def server() -> AsyncIterator[Server]:
    async with running_server() as server:
        yield server


# -- addresses -------------------------------------------------------------------------------------------------------


async def test_a_name_is_looked_up_once_and_the_checked_address_is_the_one_connected_to(server: Server) -> None:
    """A resolver that answers a public address first and 127.0.0.1 second gets no second chance."""
    world = World(server, {"rebind.example": [[PUBLIC], ["127.0.0.1"], ["127.0.0.1"]]})
    server.answers["/"] = reply("<p>public</p>")
    result = await call(WEB_FETCH, access(server, world=world), url="http://rebind.example/")
    assert "public" in result.llm_content
    assert world.looked_up == ["rebind.example"]
    assert world.connected == [(PUBLIC, 80)]
    assert server.requests[0].headers["host"] == "rebind.example"


async def test_a_second_connection_to_a_rebound_name_is_refused(server: Server) -> None:
    world = World(server, {"rebind.example": [[PUBLIC], ["127.0.0.1"]]})
    server.answers["*"] = reply("<p>public</p>")
    web = access(server, world=world)
    await call(WEB_FETCH, web, url="http://rebind.example/one")
    with pytest.raises(UrlNotAllowed, match=r"127\.0\.0\.1"):
        await call(WEB_FETCH, web, url="http://rebind.example/two")
    assert world.connected == [(PUBLIC, 80)]


@pytest.mark.parametrize(
    "answers",
    [["127.0.0.1"], [PUBLIC, "127.0.0.1"], ["10.0.0.7"], ["::1"], ["::ffff:127.0.0.1"], ["169.254.169.254"],
     ["64:ff9b::7f00:1"], ["fd00:ec2::254"], ["0.0.0.0"]],
)  # fmt: skip
async def test_one_answer_that_is_not_public_refuses_the_name(server: Server, answers: list[str]) -> None:
    world = World(server, {"inside.example": [answers]})
    web = access(server, "inside.example", world=world)
    with pytest.raises(UrlNotAllowed, match=r"inside\.example"):
        await call(WEB_FETCH, web, url="http://inside.example/")
    assert world.connected == []
    assert server.requests == []


async def test_a_listed_name_may_lead_to_a_private_address_but_never_to_metadata(server: Server) -> None:
    server.answers["/"] = reply("<p>intranet</p>")
    world = World(server, {"wiki.corp.example": [["10.0.0.7"], ["169.254.169.254"]]})
    web = access(server, "wiki.corp.example:80", world=world)
    assert "intranet" in (await call(HTTP_FETCH, web, url="http://wiki.corp.example/")).llm_content
    with pytest.raises(UrlNotAllowed, match="never fetched"):
        await call(HTTP_FETCH, web, url="http://wiki.corp.example/")


async def test_zone_ids_and_names_without_addresses_are_failures(server: Server) -> None:
    world = World(server, {"zone.example": [["fe80::1%eth0"]], "none.example": [[]]})
    for name in ("zone.example", "none.example"):
        with pytest.raises(FetchFailed, match="no usable address"):
            await call(WEB_FETCH, access(server, world=world), url=f"http://{name}/")


async def test_an_unknown_name_says_so(server: Server) -> None:
    world = World(server)

    async def unknown(host: str, port: int) -> list[str]:
        raise OSError(-2, "Name or service not known")

    web = access(server, resolver=unknown, backend=world)
    with pytest.raises(FetchFailed, match=r"http://gone\.example/: .*not known"):
        await call(WEB_FETCH, web, url="http://gone.example/")


async def test_a_closed_port_is_a_failure_with_url_and_reason(server: Server) -> None:
    port = server.port
    web = access(server)
    async with running_server() as other:
        closed = other.port
    assert port != closed
    web = access(Server(port=closed))
    with pytest.raises(FetchFailed, match=rf"http://127\.0\.0\.1:{closed}/"):
        await call(WEB_FETCH, web, url=f"http://127.0.0.1:{closed}/")


# -- redirects -------------------------------------------------------------------------------------------------------


async def test_redirects_within_the_site_are_followed(server: Server) -> None:
    world = World(server)
    server.answers |= {
        "/a": moved("/b"),
        "/b": moved("http://www.site.example/c", "301 Moved"),
        "/c": reply("<p>there</p>"),
    }
    result = await call(WEB_FETCH, access(server, world=world), url="http://site.example/a")
    assert result.llm_content == "there"
    assert result.data is not None
    assert result.data.model_dump()["url"] == "http://www.site.example/c"
    assert any("redirected to" in note for note in result.notes)


async def test_a_redirect_to_another_host_is_told_and_not_followed(server: Server) -> None:
    world = World(server)
    server.answers["/"] = moved("http://other.example/secret")
    result = await call(WEB_FETCH, access(server, world=world), url="http://site.example/")
    assert "http://other.example/secret" in result.llm_content
    assert world.looked_up == ["site.example"]
    answer = await call(HTTP_FETCH, access(server, world=world), url="http://site.example/")
    assert answer.llm_content.startswith("HTTP 302\n")
    assert "http://other.example/secret" in answer.notes[0]
    assert "other.example" not in world.looked_up


async def test_a_redirect_to_an_allowed_host_is_followed_without_the_given_headers(server: Server) -> None:
    world = World(server)
    server.answers |= {"/": moved("http://docs.example/x"), "/x": reply("<p>docs</p>")}
    web = access(server, "docs.example", world=world)
    headers = {"Authorization": "Bearer abc", "X-Trace": "1", "Cookie": "id=7"}
    result = await call(WEB_FETCH, web, url="http://site.example/", headers=headers)
    assert result.llm_content == "docs"
    first, second = server.requests
    assert first.headers["authorization"] == "Bearer abc"
    assert not {"authorization", "x-trace", "cookie"} & set(second.headers)


@pytest.mark.parametrize(
    ("location", "failure"),
    [
        ("file:///etc/passwd", UrlNotAllowed),
        ("ftp://site.example/", UrlNotAllowed),
        ("javascript:alert(1)", UrlNotAllowed),
        ("http://127.0.0.1:1/", UrlNotAllowed),
        ("//169.254.169.254/latest/", UrlNotAllowed),
        ("http://[::ffff:a9fe:a9fe]/", UrlNotAllowed),
        ("http://0x7f000001/", UrlNotAllowed),
        ("http://user:pw@site.example/", UrlNotAllowed),
        ("http://localhost/", UrlNotAllowed),
        ("http://[oops/", FetchFailed),
        ("http://1.2.3.4.5/", FetchFailed),
    ],
)
async def test_every_redirect_is_judged_anew(server: Server, location: str, failure: type[Exception]) -> None:
    world = World(server)
    server.answers["/"] = moved(location)
    with pytest.raises(failure, match="redirects to"):
        await call(WEB_FETCH, access(server, world=world), url="http://site.example/")
    assert len(server.requests) == 1


async def test_a_page_of_the_net_cannot_lead_into_a_listed_local_server(server: Server) -> None:
    world = World(server)
    server.answers["/"] = moved(f"{server.origin}/admin")
    result = await call(WEB_FETCH, access(server, world=world), url="http://site.example/")
    assert "redirects to another host" in result.llm_content
    assert len(server.requests) == 1


async def test_a_redirect_to_less_encryption_is_not_followed(server: Server) -> None:
    from ollm_tui.core.web.urls import parse_url

    secure, plain = parse_url("https://site.example/"), parse_url("http://site.example/")
    assert plain.is_same_site(secure)
    assert not secure.is_same_site(plain)
    assert not plain.is_same_site(parse_url("http://site.example:8080/"))
    assert not plain.is_same_site(parse_url("http://evil-site.example/"))


async def test_redirect_loops_end(server: Server) -> None:
    server.answers |= {"/a": moved("/b"), "/b": moved("/a")}
    with pytest.raises(FetchFailed, match="redirects more than 5 times"):
        await call(WEB_FETCH, access(server), url=f"{server.origin}/a")
    assert len(server.requests) == 6


@pytest.mark.parametrize(
    ("status", "then"), [("303 See Other", "GET"), ("302 Found", "GET"), ("307 Temporary Redirect", "POST")]
)
async def test_a_post_becomes_a_get_where_the_status_says_so(server: Server, status: str, then: str) -> None:
    server.answers |= {"/form": moved("/done", status), "/done": reply("<p>ok</p>")}
    await call(WEB_FETCH, access(server), url=f"{server.origin}/form", method="POST", body="a=1")
    last = server.requests[-1]
    assert (last.method, last.body) == (then, b"a=1" if then == "POST" else b"")


# -- servers that misbehave ------------------------------------------------------------------------------------------


async def test_a_server_that_drips_is_stopped_by_the_total_limit(server: Server) -> None:
    async def drip(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while True:
            writer.write(b".")
            await writer.drain()
            await asyncio.sleep(0.05)

    server.answers["/"] = drip
    started = time.monotonic()
    with pytest.raises(FetchTimeout, match=r"limit of 0\.4 s \(gave up after \d+\.\d s\)"):
        await call(WEB_FETCH, access(server), url=f"{server.origin}/", timeout=0.4)
    assert time.monotonic() - started < 20


async def test_a_server_that_falls_silent_is_left(server: Server) -> None:
    async def silent(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
        await writer.drain()
        await asyncio.sleep(5)

    server.answers["/"] = silent
    with pytest.raises(FetchTimeout, match="silent"):
        await call(WEB_FETCH, access(server, limits=quick(read=0.2)), url=f"{server.origin}/")


async def test_a_connection_that_is_never_made_is_given_up(server: Server) -> None:
    async def never(host: str, port: int) -> list[str]:
        await asyncio.sleep(60)
        return []

    web = access(server, resolver=never, limits=quick(connect=0.2))
    with pytest.raises(FetchTimeout, match="no connection"):
        await call(WEB_FETCH, web, url="http://slow.example/")


async def test_an_abort_ends_a_fetch_at_once(server: Server) -> None:
    arrived = asyncio.Event()

    async def stall(request: Request, writer: asyncio.StreamWriter) -> None:
        arrived.set()
        await asyncio.sleep(60)

    server.answers["/"] = stall
    controller = AbortController()
    running = asyncio.ensure_future(call(WEB_FETCH, access(server), controller.signal, url=f"{server.origin}/"))
    await arrived.wait()
    started = time.monotonic()
    controller.abort("enough")
    with pytest.raises(OperationCancelled, match="enough"):
        await running
    assert time.monotonic() - started < 20


async def test_a_body_that_says_it_is_too_long_is_not_read(server: Server) -> None:
    server.answers["/"] = reply(b"x" * 100, length=10_000_000)
    with pytest.raises(FetchFailed, match=r"10,000,000 bytes, more than the limit of 5,242,880"):
        await call(WEB_FETCH, access(server), url=f"{server.origin}/")


async def test_a_body_without_a_length_is_cut_off_at_the_limit(server: Server) -> None:
    sent = 0

    async def endless(request: Request, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        while sent < 50_000_000:
            writer.write(b"x" * 65536)
            sent += 65536
            await writer.drain()

    server.answers["/"] = endless
    with pytest.raises(FetchFailed, match="more than the limit of 1,000,000 bytes"):
        await call(WEB_FETCH, access(server, limits=quick(body_bytes=1_000_000)), url=f"{server.origin}/")
    assert sent < 20_000_000


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_bombs_are_stopped_while_they_unpack(server: Server, encoding: str) -> None:
    zeros = bytes(100_000_000)
    packed = gzip.compress(zeros, 6, mtime=0) if encoding == "gzip" else zlib.compress(zeros, 6)
    assert len(packed) < 200_000
    server.answers["/"] = reply(packed, headers=[("Content-Encoding", encoding)])
    with pytest.raises(FetchFailed, match="more than the limit of 5,242,880 bytes"):
        await call(WEB_FETCH, access(server), url=f"{server.origin}/")


@pytest.mark.parametrize(
    ("encoding", "nothing"),
    [("gzip", gzip.compress(b"", mtime=0)), ("gzip", bytes(100)), ("deflate", b"\0\0\0\xff\xff")],
)
async def test_packed_nothing_without_end_is_stopped_at_the_limit(
    server: Server, encoding: str, nothing: bytes
) -> None:
    async def endless(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\n\r\n".encode())
        writer.write(gzip.compress(b"", mtime=0) if encoding == "gzip" else b"")
        while True:
            writer.write(nothing * 1_000)
            await writer.drain()

    server.answers["/"] = endless
    with pytest.raises(FetchFailed, match="more than the limit of 100,000 bytes"):
        await call(WEB_FETCH, access(server, limits=quick(body_bytes=100_000)), url=f"{server.origin}/")


async def test_pieces_that_arrive_all_at_once_let_others_have_their_turn() -> None:
    class Thousand:
        async def __aiter__(self) -> AsyncIterator[bytes]:
            for _ in range(1_000):
                yield b"x"

    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.create_task(others())
    answer = httpcore.Response(200, content=Thousand())
    assert b"".join([piece async for piece in pieces(answer)]) == b"x" * 1_000
    running.cancel()
    assert turns >= 1_000 // PIECES_AT_ONCE


@pytest.mark.parametrize(
    ("encoding", "body", "reason"),
    [
        ("gzip, gzip", gzip.compress(gzip.compress(b"x", mtime=0), mtime=0), "packed more than once"),
        ("br", b"\x0b\x02\x80hello\x03", "not asked for"),
        ("gzip", b"this is no gzip", "damaged"),
        ("gzip", gzip.compress(b"x" * 10_000, mtime=0)[:20], "ended too early"),
    ],
)
async def test_bodies_that_cannot_be_unpacked_are_failures(
    server: Server, encoding: str, body: bytes, reason: str
) -> None:
    server.answers["/"] = reply(body, headers=[("Content-Encoding", encoding)])
    with pytest.raises(FetchFailed, match=reason):
        await call(WEB_FETCH, access(server), url=f"{server.origin}/")


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [
        ("gzip", gzip.compress(b"<p>hello", mtime=0) + gzip.compress(b" world</p>", mtime=0)),
        ("x-gzip", gzip.compress(b"<p>hello world</p>", mtime=0) + b"\0" * 8),
        ("deflate", zlib.compress(b"<p>hello world</p>")),
        ("deflate", zlib.compressobj(wbits=-15).compress(b"") + zlib.compress(b"<p>hello world</p>")[2:-4]),
        ("identity", b"<p>hello world</p>"),
    ],
)
async def test_packed_bodies_are_unpacked(server: Server, encoding: str, packed: bytes) -> None:
    server.answers["/"] = reply(packed, headers=[("Content-Encoding", encoding)])
    assert (await call(WEB_FETCH, access(server), url=f"{server.origin}/")).llm_content == "hello world"
    assert server.requests[0].headers["accept-encoding"] == "gzip, deflate, identity"


async def _lie(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    await writer.drain()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        b"HTTP/1.1 200 OK\r\n" + b"X-Long: " + b"a" * 200_000,
        b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"b" * 500) for n in range(160)) + b"\r\n",
        b"HTTP/1.1 200 OK\r\nBad Header\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
    ],
)
async def test_broken_answers_are_failures_with_url_and_reason(server: Server, answer: bytes) -> None:
    server.answers["/"] = lambda request, writer: _lie(writer, answer)
    with pytest.raises(FetchFailed, match=rf"{server.origin}/: .{{10,}}"):
        await call(WEB_FETCH, access(server, limits=quick()), url=f"{server.origin}/")


async def test_more_than_the_declared_length_is_not_read(server: Server) -> None:
    server.answers["/"] = reply("<p>seen</p><p>unseen</p>", length=len("<p>seen</p>"))
    assert (await call(WEB_FETCH, access(server), url=f"{server.origin}/")).llm_content == "seen"


async def test_endless_interim_answers_end_with_the_time(server: Server) -> None:
    async def interim(request: Request, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"HTTP/1.1 103 Early Hints\r\n\r\n")
            await writer.drain()
            await asyncio.sleep(0.001)

    server.answers["/"] = interim
    with pytest.raises(FetchTimeout):
        await call(WEB_FETCH, access(server), url=f"{server.origin}/", timeout=0.3)


async def test_nothing_of_a_bad_fetch_is_left_running(server: Server) -> None:
    await test_a_server_that_drips_is_stopped_by_the_total_limit(server)
    ours = asyncio.current_task()
    async with asyncio.timeout(20):
        while [task for task in asyncio.all_tasks() if task is not ours and "serve" not in repr(task.get_coro())]:
            await asyncio.sleep(0.001)


# -- requests --------------------------------------------------------------------------------------------------------


async def test_our_own_headers_are_sent_and_given_ones_win(server: Server) -> None:
    server.answers["*"] = reply("<p>x</p>")
    await call(WEB_FETCH, access(server), url=f"{server.origin}/a")
    await call(WEB_FETCH, access(server), url=f"{server.origin}/b", headers={"User-Agent": "mine", "X-A": "b"})
    first, second = (request.headers for request in server.requests)
    assert first["user-agent"].startswith("ollm-tui/")
    assert not {"cookie", "authorization", "referer"} & set(first)
    assert (second["user-agent"], second["x-a"]) == ("mine", "b")


async def test_no_proxy_and_no_netrc_of_the_environment_is_used(
    server: Server, monkeypatch: pytest.MonkeyPatch, own_folders: object
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9/")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9/")
    server.answers["/"] = reply("<p>direct</p>")
    assert (await call(WEB_FETCH, access(server), url=f"{server.origin}/")).llm_content == "direct"


@pytest.mark.parametrize(
    "headers",
    [{"Host": "x"}, {"Content-Length": "5"}, {"Transfer-Encoding": "chunked"}, {"Accept-Encoding": "br"},
     {"Proxy-Authorization": "x"}, {"X-A": "b\r\nEvil: 1"}, {"X A": "b"}, {"": "b"}, {"X-A": "ü"}, {"X-A": "b" * 20_000}],
)  # fmt: skip
async def test_headers_that_break_or_steer_the_request_are_refused(server: Server, headers: dict[str, str]) -> None:
    with pytest.raises(InvalidArguments, match="headers"):
        await call(HTTP_FETCH, access(server), url=f"{server.origin}/", headers=headers)
    assert server.requests == []


# -- the cache, and politeness ---------------------------------------------------------------------------------------


async def test_a_page_is_asked_for_once_in_a_quarter_of_an_hour(server: Server) -> None:
    clock = FakeClock()
    server.answers["*"] = reply("<p>x</p>")
    web = access(server, world=World(server), clock=clock)
    url = "http://site.example/a"
    for _ in range(2):
        await call(WEB_FETCH, web, url=f"{url}#top")
    assert len(server.requests) == 1
    await call(HTTP_FETCH, web, url=url)
    await call(WEB_FETCH, web, url=url, headers={"X-A": "b"})
    assert len(server.requests) == 3
    clock.seconds += 15 * 60
    await call(WEB_FETCH, web, url=url)
    assert len(server.requests) == 4


async def test_a_server_of_this_machine_is_asked_each_time(server: Server) -> None:
    """It is under development: its pages change with each edit."""
    web = access(server)
    for words in ("before", "after"):
        server.answers["/"] = reply(f"<p>{words}</p>")
        assert (await call(WEB_FETCH, web, url=f"{server.origin}/")).llm_content == words


async def test_errors_and_what_forbids_it_are_not_kept(server: Server) -> None:
    server.answers |= {
        "/gone": reply(status="404 Not Found"),
        "/now": reply("<p>x</p>", headers=[("Cache-Control", "no-store")]),
    }
    web = access(server, world=World(server))
    for _ in range(2):
        with pytest.raises(HttpFailure):
            await call(WEB_FETCH, web, url="http://site.example/gone")
        await call(WEB_FETCH, web, url="http://site.example/now")
    assert len(server.requests) == 4


async def test_a_host_that_asks_for_a_pause_is_left_alone_and_others_are_not(server: Server) -> None:
    server.answers["/"] = reply("slow down", status="429 Too Many Requests", headers=[("Retry-After", "30")])
    server.answers["/other"] = reply("<p>fine</p>")
    clock = FakeClock()
    world = World(server)
    web = access(server, world=world, clock=clock)
    with pytest.raises(HttpFailure, match="HTTP 429"):
        await call(WEB_FETCH, web, url="http://busy.example/")
    with pytest.raises(FetchFailed, match="asked for a pause of 30 s"):
        await call(WEB_FETCH, web, url="http://busy.example/other")
    assert (await call(WEB_FETCH, web, url="http://calm.example/other")).llm_content == "fine"
    clock.seconds += 31
    assert (await call(WEB_FETCH, web, url="http://busy.example/other")).llm_content == "fine"


async def test_one_busy_server_of_this_machine_says_nothing_about_the_next(server: Server) -> None:
    server.answers["*"] = reply("slow down", status="429 Too Many Requests", headers=[("Retry-After", "30")])
    async with running_server() as other:
        other.answers["*"] = reply("<p>fine</p>")
        web = access(server, f"127.0.0.1:{other.port}")
        assert "429" in (await call(HTTP_FETCH, web, url=f"{server.origin}/")).llm_content
        with pytest.raises(FetchFailed, match=rf"127\.0\.0\.1:{server.port} answered that it gets too many"):
            await call(HTTP_FETCH, web, url=f"{server.origin}/")
        assert "fine" in (await call(HTTP_FETCH, web, url=f"{other.origin}/")).llm_content


async def test_requests_to_one_host_start_apart_and_few_at_once() -> None:
    clock = FakeClock()
    waited: list[float] = []
    together = most = 0

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    throttle = HostThrottle(clock, sleep)

    async def visit(host: str) -> None:
        nonlocal together, most
        async with throttle.turn(host):
            together += 1
            most = max(most, together)
            await asyncio.sleep(0.01)
            together -= 1

    await asyncio.gather(*(visit("a.example") for _ in range(4)))
    assert waited == [SPACING, 2 * SPACING, 3 * SPACING]
    assert most == 2
    waited.clear()
    await asyncio.gather(visit("b.example"), visit("c.example"))
    assert waited == []
