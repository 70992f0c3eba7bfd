"""web_search: providers behind one form, results cleaned, refusals as errors."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import pytest
import pytest_asyncio
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from ollm_tui.core.base.abort import AbortController, AbortSignal
from ollm_tui.core.base.errors import InvalidArguments, OperationCancelled, SearchFailed
from ollm_tui.core.base.results import ToolResult
from ollm_tui.core.tools.web_search import WEB_SEARCH
from ollm_tui.core.web import ddgs_process, ddgs_provider
from ollm_tui.core.web.client import SearchHit, SearchProvider, WebAccess
from ollm_tui.core.web.ddgs_provider import Ddgs, DdgsHit, DdgsOutcome, EngineAnswer
from ollm_tui.core.web.search_providers import (
    Brave,
    ProviderName,
    SearchSettings,
    SearXNG,
    Tavily,
    UnconfiguredProvider,
    choose_provider,
    clean_url,
    normalised,
)
from tests.core.web.server import Request, Server, call, reply, running_server


@pytest_asyncio.fixture
async def server() -> AsyncIterator[Server]:
    async with running_server() as server:
        yield server


def answers(value: object, **options: str) -> bytes:
    return reply(json.dumps(value), kind="application/json", **options)


def hits(count: int, start: int = 0) -> list[dict[str, str]]:
    return [
        {"title": f"T{n}", "url": f"https://site{n}.example/", "content": f"S{n}"} for n in range(start, start + count)
    ]


def searxng_server(server: Server, pages: list[list[dict[str, str]]], **more: object) -> None:
    """The API of a SearXNG server: GET /search?q=...&format=json&pageno=N."""

    async def search(request: Request, writer: asyncio.StreamWriter) -> None:
        asked = parse_qs(urlsplit(request.target).query)
        assert urlsplit(request.target).path == "/search"
        assert asked["format"] == ["json"]
        page = int(asked["pageno"][0])
        results = pages[page - 1] if page <= len(pages) else []
        writer.write(answers({"query": asked["q"][0], "results": results, "unresponsive_engines": [], **more}))

    server.answers["*"] = search


async def search(provider: SearchProvider, query: str = "python asyncio", **arguments: object) -> ToolResult:
    return await call(WEB_SEARCH, WebAccess(search=provider), query=query, **arguments)


def results(result: ToolResult) -> list[dict[str, str]]:
    assert result.data is not None
    return result.data.model_dump(mode="json", by_alias=True)["results"]


class Fixed:
    name = "a fixed provider"

    def __init__(self, found: Sequence[SearchHit]) -> None:
        self.found = found

    async def search(self, web: WebAccess, query: str, count: int, signal: AbortSignal) -> Sequence[SearchHit]:
        return self.found


finds = st.lists(
    st.builds(
        SearchHit, st.text(max_size=20), st.text(max_size=20).map("https://example.org/".__add__), st.text(max_size=20)
    ),
    max_size=30,
)


@settings(max_examples=100, deadline=None)
@given(finds, st.integers(1, 40))
def test_there_are_never_more_results_than_asked_for(found: list[SearchHit], limit: int) -> None:
    """Property 32: web_search returns at most numResults results, and no page twice."""
    result = asyncio.run(search(Fixed(found), numResults=limit))
    shown = results(result)
    assert len(shown) <= limit
    assert len({one["url"] for one in shown}) == len(shown)
    assert result.llm_content.strip()
    assert (result.llm_content == "No results") is (not shown)


async def test_results_are_numbered_with_address_and_snippet() -> None:
    found = [SearchHit("First", "https://a.example/", "about a"), SearchHit("Second", "https://b.example/x")]
    result = await search(Fixed(found))
    assert result.llm_content == ("1. First\n   https://a.example/\n   about a\n\n2. Second\n   https://b.example/x")
    assert results(result)[1] == {"title": "Second", "url": "https://b.example/x", "snippet": ""}
    assert "untrusted" in result.for_model().split("\n")[0]


async def test_nothing_found_is_no_error() -> None:
    result = await search(Fixed([]))
    assert result.ok
    assert result.llm_content == "No results"


@pytest.mark.parametrize(
    ("url", "cleaned"),
    [
        ("https://a.example/x?utm_source=n&id=7&fbclid=q", "https://a.example/x?id=7"),
        ("https://a.example/x?utm_source=n", "https://a.example/x"),
        ("https://a.example/x?b=%20c&a=#part", "https://a.example/x?b=%20c&a=#part"),
        ("//duckduckgo.com/l/?uddg=https%3A%2F%2Fa.example%2Fp%3Fq%3D1&rut=abc", "https://a.example/p?q=1"),
        ("https://www.google.com/url?q=https://a.example/&sa=U", "https://a.example/"),
        ("https://a.example/?a=1&amp;b=2", "https://a.example/?a=1&b=2"),
        ("https://duckduckgo.com/y.js?ad_domain=x", None),
        ("javascript:alert(1)", None),
        ("/relative", None),
        ("https://user:pw@a.example/", None),
        ("http://[oops", None),
    ],
)
def test_addresses_are_unwrapped_and_freed_of_tracking(url: str, cleaned: str | None) -> None:
    assert clean_url(url) == cleaned


def test_results_are_plain_text_and_each_page_stands_once() -> None:
    found = [
        SearchHit("<b>Bold</b> &amp; more\n\u202e", "https://www.a.example/x/?utm_medium=z", "one\x1b[31m <i>two</i>"),
        SearchHit("Again", "http://a.example/x"),
        SearchHit("", "https://b.example/"),
    ]
    assert normalised(found, 10) == [
        SearchHit("Bold & more", "https://www.a.example/x/", "one[31m two"),
        SearchHit("https://b.example/", "https://b.example/"),
    ]


# -- SearXNG ---------------------------------------------------------------------------------------------------------


async def test_searxng_is_asked_by_its_json_form_on_the_persons_own_address(server: Server) -> None:
    searxng_server(server, [hits(10), hits(10, 10)])
    result = await search(SearXNG(server.origin), "größe & co", numResults=3)
    assert [one["title"] for one in results(result)] == ["T0", "T1", "T2"]
    assert parse_qs(urlsplit(server.requests[0].target).query)["q"] == ["größe & co"]
    assert len(server.requests) == 1


async def test_searxng_is_asked_for_further_pages_until_there_are_enough(server: Server) -> None:
    searxng_server(server, [hits(4), hits(4, 2), hits(4, 6)])
    assert len(results(await search(SearXNG(f"{server.origin}/search"), numResults=9))) == 9
    assert len(server.requests) == 3


async def test_searxng_without_a_result_is_nothing_found(server: Server) -> None:
    searxng_server(server, [[]])
    assert (await search(SearXNG(server.origin))).llm_content == "No results"


async def test_engines_that_were_blocked_are_an_error_and_not_nothing_found(server: Server) -> None:
    searxng_server(server, [[]], unresponsive_engines=[["google", "CAPTCHA"], ["bing", "timeout"]])
    with pytest.raises(SearchFailed, match=r"google \(CAPTCHA\), bing \(timeout\)"):
        await search(SearXNG(server.origin))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (reply("slow", status="429 Too Many Requests", headers=[("Retry-After", "60")]), "too many requests .*60"),
        (reply("no", status="403 Forbidden"), "json under search.formats"),
        (reply("no", status="500 Internal Server Error"), "HTTP 500"),
        (reply("<html>a portal</html>"), "not JSON"),
        (reply("[]", kind="application/json"), "not a JSON object"),
        (reply("{}", kind="application/json"), "no list of results"),
        (reply("[" * 100_000, kind="application/json"), "not JSON"),
        (b"nonsense", "gave no answer"),
        (reply("", status="302 Found", headers=[("Location", "https://elsewhere.example/")]), "redirects to"),
    ],
)
async def test_refusals_and_odd_answers_are_errors_that_name_the_provider(
    server: Server, answer: bytes, said: str
) -> None:
    server.answers["*"] = answer
    with pytest.raises(SearchFailed, match=rf"(?s)SearXNG at {server.origin}.*{said}"):
        await search(SearXNG(server.origin))


async def test_a_search_server_that_is_not_running_is_an_error_with_a_remedy() -> None:
    async with running_server() as gone:
        origin = gone.origin
    with pytest.raises(SearchFailed, match="gave no answer"):
        await search(SearXNG(origin))


async def test_only_the_configured_place_of_the_local_network_is_reached(server: Server) -> None:
    searxng_server(server, [hits(1)])
    web = WebAccess(search=SearXNG(server.origin))
    await call(WEB_SEARCH, web, query="x")
    from ollm_tui.core.base.errors import UrlNotAllowed
    from ollm_tui.core.tools.web_fetch import WEB_FETCH

    with pytest.raises(UrlNotAllowed):
        await call(WEB_FETCH, web, url=f"{server.origin}/search?q=x")


# -- providers with a key --------------------------------------------------------------------------------------------


async def test_brave_gets_its_key_in_a_header_alone(server: Server) -> None:
    listed = [{"title": "A", "url": "https://a.example/", "description": "<strong>d</strong>"}]
    server.answers["*"] = answers({"query": {}, "web": {"results": listed}})
    result = await search(Brave("sesame-key", f"{server.origin}/res"), "a b")
    assert results(result) == [{"title": "A", "url": "https://a.example/", "snippet": "d"}]
    (request,) = server.requests
    assert request.headers["x-subscription-token"] == "sesame-key"
    assert "sesame" not in request.target
    server.answers["*"] = answers({"query": {"original": "x"}})
    assert (await search(Brave("k", f"{server.origin}/res"))).llm_content == "No results"


async def test_tavily_gets_its_key_in_a_header_alone(server: Server) -> None:
    server.answers["*"] = answers({"results": hits(2)})
    assert len(results(await search(Tavily("sesame-key", f"{server.origin}/s")))) == 2
    (request,) = server.requests
    assert (request.method, request.headers["authorization"]) == ("POST", "Bearer sesame-key")
    assert "sesame" not in request.body.decode()
    assert json.loads(request.body)["query"] == "python asyncio"


@pytest.mark.parametrize("status", ["401 Unauthorized", "402 Payment Required", "429 Too Many Requests", "403 No"])
@pytest.mark.parametrize("provider", [Brave, Tavily])
async def test_a_refused_key_is_an_error_that_does_not_tell_the_key(
    server: Server, provider: type[Brave] | type[Tavily], status: str
) -> None:
    server.answers["*"] = reply("{}", status=status, kind="application/json")
    with pytest.raises(SearchFailed) as failure:
        await search(provider("sesame-key", f"{server.origin}/s"))
    assert "sesame" not in failure.value.message + json.dumps(failure.value.details)
    assert "did not search" in failure.value.message


# -- ddgs ------------------------------------------------------------------------------------------------------------


def outcome_of(
    *answers: tuple[str, str], results: Sequence[DdgsHit] = (), error: str = "DDGSException: No results found."
) -> Ddgs:
    async def query(words: str, count: int, signal: AbortSignal) -> DdgsOutcome:
        told = tuple(EngineAnswer(host, said) for host, said in answers)
        return DdgsOutcome(tuple(results), told, "" if results else error)

    return Ddgs(query)


async def test_ddgs_results_are_taken_over() -> None:
    provider = outcome_of(
        ("html.duckduckgo.com", ""), results=[DdgsHit("T", "https://a.example/?utm_source=x", "<b>S</b>")]
    )
    assert results(await search(provider, "q", numResults=4)) == [
        {"title": "T", "url": "https://a.example/", "snippet": "S"}
    ]


@pytest.mark.parametrize(
    ("provider", "said"),
    [
        (outcome_of(("html.duckduckgo.com", "HTTP 202"), ("en.wikipedia.org", "")), r"blocked .*HTTP 202 \(html\.duckduckgo\.com\)"),
        (outcome_of(("www.mojeek.com", "HTTP 403"), ("search.brave.com", "HTTP 429")), "HTTP 403.*HTTP 429"),
        (outcome_of(("search.yahoo.com", "it wants to know whether a human asks")), "human"),
        (outcome_of(("en.wikipedia.org", "")), "No results found"),
        (outcome_of(), "No results found"),
        (outcome_of(error="ImportError: primp"), "ImportError: primp"),
        (outcome_of(error=""), "no engine was asked"),
    ],
)  # fmt: skip
async def test_blocks_and_limits_of_ddgs_are_errors_and_not_nothing_found(provider: Ddgs, said: str) -> None:
    """The package says "No results found." for both; what each engine answered tells them apart."""
    with pytest.raises(SearchFailed, match=f"(?s){said}.*searxng_url"):
        await search(provider)


async def test_ddgs_finding_nothing_is_no_error() -> None:
    provider = outcome_of(("html.duckduckgo.com", ""), ("www.mojeek.com", "HTTP 403"))
    assert (await search(provider)).llm_content == "No results"


# -- the package itself ----------------------------------------------------------------------------------------------


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> type[Any]:  # Any: the package has no types
    """ddgs with one engine, whose address a test sets: nothing of it leaves this machine."""
    pytest.importorskip("ddgs", reason="ddgs is not installed")
    duckduckgo = importlib.import_module("ddgs.engines.duckduckgo").Duckduckgo
    client = importlib.import_module("ddgs.http_client").HttpClient
    monkeypatch.setitem(importlib.import_module("ddgs.ddgs").ENGINES, "text", {"local": duckduckgo})
    monkeypatch.setattr(client, "request", client.request)  # put back what the search wraps
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "DDGS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return duckduckgo


FOUND = "<div class='body'><h2>Title</h2><a href='https://a.example/p?q=1&amp;utm_source=x'>what it says</a></div>"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (reply("<p>slow down</p>", status="202 Accepted"), "HTTP 202"),
        (reply("<p>no</p>", status="429 Too Many Requests"), "HTTP 429"),
        (reply("<form>Please solve the CAPTCHA</form>"), "human"),
        (reply("<div class='anomaly-modal'>bots</div>"), "human"),
        (reply("x", length=500), "end of file"),
        (b"nonsense\r\n\r\n", "invalid"),
    ],
)  # fmt: skip
async def test_the_package_against_engines_that_refuse(
    server: Server, engine: type[Any], monkeypatch: pytest.MonkeyPatch, answer: bytes, said: str
) -> None:
    monkeypatch.setattr(engine, "search_url", f"{server.origin}/html/")
    server.answers["*"] = answer
    told = await asyncio.to_thread(ddgs_process.search, "größe", 10, 5.0)
    assert told["results"] == []
    (one,) = {(each["host"], each["said"]) for each in cast("list[dict[str, str]]", told["answers"])}
    assert one[0] == "127.0.0.1"
    assert said in one[1].lower() or said in one[1]


async def test_the_package_against_an_engine_that_answers(
    server: Server, engine: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "search_url", f"{server.origin}/html/")
    server.answers["*"] = reply(FOUND)

    async def query(words: str, count: int, signal: AbortSignal) -> DdgsOutcome:
        told = await asyncio.to_thread(ddgs_process.search, words, count, 5.0)
        return TypeAdapter(DdgsOutcome).validate_python(told)

    shown = results(await search(Ddgs(query), "größe & co"))
    assert shown == [{"title": "Title", "url": "https://a.example/p?q=1", "snippet": "what it says"}]
    assert parse_qs(server.requests[0].body.decode())["q"] == ["größe & co"]
    server.answers["*"] = reply("<p>There is nothing like it.</p>")
    assert (await search(Ddgs(query), "zzz")).llm_content == "No results"


async def test_the_package_is_sent_to_no_unencrypted_address(
    server: Server, engine: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.import_module("primp"), "Client", importlib.import_module("primp").Client)
    monkeypatch.setattr(engine, "search_url", f"{server.origin}/html/")
    ddgs_process.encrypted_only()
    told = await asyncio.to_thread(ddgs_process.search, "x", 10, 5.0)
    assert told["results"] == []
    assert server.requests == []


@asynccontextmanager
async def proxy(*, stalls: bool) -> AsyncIterator[tuple[str, asyncio.Event]]:
    """A proxy that lets nothing through: it stalls or refuses. All that the package sends ends here."""
    reached = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            reached.set()
            if stalls:
                await reader.read()
            writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}", reached
    finally:
        listening.close()


def children_that_search() -> list[int]:
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdecimal() and b"ddgs_process.py" in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


async def test_a_real_search_without_a_way_out_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ddgs", reason="ddgs is not installed")
    async with proxy(stalls=False) as (address, reached):
        monkeypatch.setenv("DDGS_PROXY", address)
        with pytest.raises(SearchFailed, match=r"blocked the search or could not be reached: .*wikipedia"):
            await search(Ddgs())
        assert reached.is_set()


async def test_a_search_that_stalls_ends_in_time_and_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ddgs", reason="ddgs is not installed")
    monkeypatch.setattr(ddgs_provider, "SEARCH_SECONDS", 1.5)
    async with proxy(stalls=True) as (address, _):
        monkeypatch.setenv("DDGS_PROXY", address)
        with pytest.raises(SearchFailed, match=r"did not answer within 1\.5 s"):
            await search(Ddgs())
        assert children_that_search() == []


async def test_an_abort_ends_a_search_and_its_process_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ddgs", reason="ddgs is not installed")
    async with proxy(stalls=True) as (address, reached):
        monkeypatch.setenv("DDGS_PROXY", address)
        controller = AbortController()
        web = WebAccess(search=Ddgs())
        running = asyncio.ensure_future(call(WEB_SEARCH, web, controller.signal, query="x"))
        await reached.wait()
        controller.abort()
        with pytest.raises(OperationCancelled):
            await running
        assert children_that_search() == []


# -- choosing --------------------------------------------------------------------------------------------------------


def test_what_is_configured_searches() -> None:
    everything = SearchSettings(None, "http://127.0.0.1:8888", "b", "t")
    assert isinstance(choose_provider(everything), SearXNG)
    assert isinstance(choose_provider(SearchSettings(brave_key="b", tavily_key="t")), Brave)
    assert isinstance(choose_provider(SearchSettings(tavily_key="t")), Tavily)
    assert isinstance(choose_provider(SearchSettings(ProviderName.TAVILY, "http://x:1", "b", "t")), Tavily)
    assert isinstance(choose_provider(SearchSettings(searxng_url="localhost:8888")), SearXNG)


@pytest.mark.parametrize(
    "settings_",
    [
        SearchSettings(ProviderName.BRAVE),
        SearchSettings(ProviderName.TAVILY, brave_key="b"),
        SearchSettings(ProviderName.SEARXNG),
        SearchSettings(searxng_url="ftp://x.example"),
        SearchSettings(searxng_url="http://user:pw@127.0.0.1:1/"),
    ],
)
async def test_what_is_not_configured_says_so_and_what_to_do(settings_: SearchSettings) -> None:
    provider = choose_provider(settings_)
    assert isinstance(provider, UnconfiguredProvider)
    with pytest.raises(SearchFailed, match=r"No search provider: .*config\.toml"):
        await search(provider)


async def test_no_provider_at_all_says_so_before_anyone_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SearchFailed, match="No search provider"):
        await call(WEB_SEARCH, WebAccess(), query="x")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert isinstance(choose_provider(SearchSettings()), UnconfiguredProvider)
    assert isinstance(choose_provider(SearchSettings(ProviderName.DDGS)), UnconfiguredProvider)


@pytest.mark.parametrize("arguments", [{"query": ""}, {"query": " \n"}, {"numResults": 0}, {"numResults": -1}, {}])
async def test_arguments_that_fit_nothing_are_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(InvalidArguments):
        await call(WEB_SEARCH, WebAccess(search=Fixed([])), **({"numResults": 2} | arguments))
