"""The connection to one MCP server: hold it, list what it offers, call its tools."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

import httpx2
import mcp_types as types
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ollm_tui.mcp_host.contents import Returned, pictures_of, text_of
from ollm_tui.mcp_host.frames import (
    MAX_LISTED,
    MAX_TOOLS,
    Asked,
    Call,
    CallKind,
    Connected,
    Failed,
    Frame,
    Lost,
    Progress,
    PromptArgument,
    PromptEntry,
    ResourceEntry,
    Result,
    ServerSpec,
    ToolDefinition,
)
from ollm_tui.mcp_host.stdio import stdio_server

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from mcp.client._transport import TransportStreams
    from mcp.client.session import ClientRequestContext, IncomingMessage
    from mcp.shared.dispatcher import ProgressFnT

MAX_DEFINITION = 16_000
"""Characters of one tool's definition."""
MAX_NAME = 2_000
"""Characters of a resource's URI or a prompt's name; one with more is not listed."""
MAX_ARGUMENTS = 20
"""Places in a prompt."""
MAX_PAGES = 100
QUIET_SECONDS = 0.3
"""How long a server's list must stand before it is read again."""

_HTTP_READ_SECONDS = 300.0

Tell = Callable[[Frame], Awaitable[None]]
Ask = Callable[[Asked], Awaitable[types.ElicitResult]]


class Connection:
    """One server, connected in a task of its own as long as it is wanted."""

    def __init__(self, server: ServerSpec, tell: Tell, ask: Ask, version: str) -> None:
        self.server = server
        self._tell = tell
        self._ask = ask
        self._info = types.Implementation(name="ollm-tui", version=version)
        self._wanted = True
        self._ended: asyncio.Future[str] | None = None
        self._client: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._relisting: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._limits: set[asyncio.Timeout] = set()
        """The times that calls have left."""
        self._task = asyncio.ensure_future(self._hold())

    async def close(self) -> None:
        """End the connection, and a server that is a process with all that it started."""
        self._wanted = False
        if self._ended is not None and not self._ended.done():
            self._ended.set_result("")
        elif not self._client.done():
            self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def call(self, call: Call) -> None:
        """Carry out a call, and tell its progress and its end; a server that was lost is connected again first."""
        if self._task.done():
            self._client = asyncio.get_running_loop().create_future()
            self._task = asyncio.ensure_future(self._hold())
        try:
            client = await asyncio.shield(self._client)
        except ConnectionError as error:
            await self._tell(Failed(id=call.id, reason=f"it is not there: {error}"))
            return
        seconds = self.server.timeout
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(seconds) as limit, self._counted(limit):

                async def advance(progress: float, total: float | None, message: str | None) -> None:
                    limit.reschedule(loop.time() + seconds)
                    of = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
                    await self._tell(Progress(id=call.id, text=f"{of}{f': {message[:500]}' if message else ''}"))

                returned = await _returned(client, call, advance)
        except TimeoutError:
            said = f"it said nothing for {seconds:g} s, the timeout of its configuration"
            await self._tell(Failed(id=call.id, reason=said, timed_out=True))
        except (MCPError, ValueError, RuntimeError, OSError, ExceptionGroup) as error:
            await self._tell(Failed(id=call.id, reason=reason_of(error)))
        else:
            failed = isinstance(returned, types.CallToolResult) and returned.is_error
            pictures = pictures_of(returned)
            await self._tell(Result(id=call.id, text=text_of(returned), pictures=pictures, is_error=failed))

    # -- inside ------------------------------------------------------------------------------------------------------

    async def _hold(self) -> None:
        """Connect, and stay until the connection ends or nobody wants it any more."""
        ready = self._client
        reason = ""
        try:
            async with AsyncExitStack() as stack:
                self._ended = asyncio.get_running_loop().create_future()
                try:
                    async with asyncio.timeout(self.server.connect_timeout):
                        client = await stack.enter_async_context(self._new_client(self._ended))
                        listed = await self._list(client)
                except Exception:
                    reason = self._ended.result() if self._ended.done() else ""
                    raise
                ready.set_result(client)
                await self._tell(listed)
                if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
                    self._listening = asyncio.ensure_future(self._listen(client))
                reason = await self._ended
        except TimeoutError:
            reason = reason or f"it did not answer within {self.server.connect_timeout:g} s"
        except (MCPError, ValueError, RuntimeError, OSError, ExceptionGroup, httpx2.HTTPError) as error:
            reason = reason or reason_of(error)
        finally:
            for task in (self._relisting, self._listening):
                if task is not None:
                    task.cancel()
            if not ready.done():
                ready.set_exception(ConnectionError(reason or "it is being closed"))
                ready.exception()  # whoever waits for it takes it; nobody has to
        if self._wanted:
            await self._tell(Lost(server=self.server.name, reason=reason or "the connection ended"))

    def _new_client(self, ended: asyncio.Future[str]) -> Client:
        def on_end(reason: str) -> None:
            if not ended.done():
                ended.set_result(reason)

        server = self.server
        transport = _http(server) if server.url else stdio_server(server, on_end)
        # A process that does not know the newer question may take 10 s to say nothing to it.
        newer = server.protocol in MODERN_PROTOCOL_VERSIONS if server.protocol else bool(server.url)
        return Client(
            transport,
            mode="auto" if newer else "legacy",
            client_info=self._info,
            message_handler=self._heard,
            elicitation_callback=self._elicit,
            list_roots_callback=self._roots,
            cache=None,
        )

    async def _list(self, client: Client) -> Connected:
        tools: list[ToolDefinition] = []
        left_out: list[str] = []
        cursor: str | None = None
        more = 0
        if client.server_capabilities.tools is not None:
            for _ in range(MAX_PAGES):
                page = await client.list_tools(cursor=cursor)
                for tool in page.tools:
                    length = len(tool.description or "") + len(json.dumps(tool.input_schema))
                    if length > MAX_DEFINITION:
                        left_out.append(f"{tool.name[:64]}: its definition has {length:,} characters")
                    elif len(tools) == MAX_TOOLS:
                        more += 1
                    else:
                        tools.append(_definition(tool))
                cursor = page.next_cursor
                if cursor is None:
                    break
        if more:
            left_out.append(f"{more:,} tools beyond the first {MAX_TOOLS}: name the wanted ones in `include`")
        info = client.server_info
        return Connected(
            server=self.server.name,
            title="" if info is None else f"{info.name} {info.version}".strip()[:200],
            protocol=client.protocol_version,
            tools=tuple(tools),
            resources=await _resources(client),
            prompts=await _prompts(client),
            left_out=tuple(left_out[:20]),
        )

    async def _heard(self, message: IncomingMessage) -> None:
        changed = isinstance(
            message,
            types.ToolListChangedNotification
            | types.ResourceListChangedNotification
            | types.PromptListChangedNotification,
        )
        if changed and (self._relisting is None or self._relisting.done()):
            self._relisting = asyncio.ensure_future(self._list_again())

    async def _listen(self, client: Client) -> None:
        """Hear of changes where a server does not tell of them by itself."""
        with suppress(ListenNotSupportedError, MCPError, SubscriptionLost, OSError):
            async with client.listen(
                tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True
            ) as changes:
                async for _ in changes:
                    await self._list_again()

    async def _list_again(self) -> None:
        """Read a changed list once the changes rest, however many there are."""
        await asyncio.sleep(QUIET_SECONDS)
        try:
            listed = await self._list(self._client.result())
        except (MCPError, ValueError, OSError):
            return  # the list before goes on; a server that has ended says so itself
        await self._tell(listed)

    async def _roots(self, context: ClientRequestContext) -> types.ListRootsResult:
        root = self.server.root
        return types.ListRootsResult(roots=[types.Root(uri=Path(root).as_uri())] if root else [])  # pyright: ignore[reportArgumentType]  # it becomes a URL

    @asynccontextmanager
    async def _counted(self, limit: asyncio.Timeout) -> AsyncGenerator[None]:
        self._limits.add(limit)
        try:
            yield
        finally:
            self._limits.discard(limit)

    async def _elicit(self, context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Ask the person, for whom no time runs out; a call's own goes on after that."""
        form = isinstance(params, types.ElicitRequestFormParams)
        for limit in self._limits:
            limit.reschedule(None)
        answer = await self._ask(
            Asked(
                id=0,
                server=self.server.name,
                message=params.message[:2_000],
                requested=dict(params.requested_schema) if form else None,
                url="" if form else params.url,
            )
        )
        for limit in self._limits:
            limit.reschedule(asyncio.get_running_loop().time() + self.server.timeout)
        return answer


@asynccontextmanager
async def _http(server: ServerSpec) -> AsyncGenerator[TransportStreams]:
    timeout = httpx2.Timeout(server.connect_timeout, read=_HTTP_READ_SECONDS)
    async with (
        httpx2.AsyncClient(headers=dict(server.headers), timeout=timeout) as http,
        streamable_http_client(server.url, http_client=http) as streams,
    ):
        yield streams


async def _returned(client: Client, call: Call, advance: ProgressFnT) -> Returned:
    match call.kind:
        case CallKind.TOOL:
            return await client.call_tool(call.name, dict(call.arguments), progress_callback=advance)
        case CallKind.RESOURCE:
            return await client.read_resource(call.name)
        case CallKind.PROMPT:
            return await client.get_prompt(call.name, {name: str(value) for name, value in call.arguments.items()})


async def _resources(client: Client) -> tuple[ResourceEntry, ...]:
    """Return the resources that a person can choose from; others can be read all the same by their URI."""
    if client.server_capabilities.resources is None:
        return ()
    found: list[ResourceEntry] = []
    cursor: str | None = None
    with suppress(MCPError, ValueError):  # a server whose tools work is not lost for this
        for _ in range(MAX_PAGES):
            page = await client.list_resources(cursor=cursor)
            found += [
                ResourceEntry(uri=str(one.uri), name=(one.title or one.name)[:200])
                for one in page.resources
                if len(str(one.uri)) <= MAX_NAME
            ]
            if (cursor := page.next_cursor) is None or len(found) >= MAX_LISTED:
                break
    return tuple(found[:MAX_LISTED])


async def _prompts(client: Client) -> tuple[PromptEntry, ...]:
    if client.server_capabilities.prompts is None:
        return ()
    found: list[PromptEntry] = []
    cursor: str | None = None
    with suppress(MCPError, ValueError):  # as above
        for _ in range(MAX_PAGES):
            page = await client.list_prompts(cursor=cursor)
            found += [_prompt(one) for one in page.prompts if len(one.name) <= MAX_NAME]
            if (cursor := page.next_cursor) is None or len(found) >= MAX_LISTED:
                break
    return tuple(found[:MAX_LISTED])


def _prompt(prompt: types.Prompt) -> PromptEntry:
    places = [
        PromptArgument(name=part.name[:100], required=bool(part.required))
        for part in (prompt.arguments or [])[:MAX_ARGUMENTS]
    ]
    description = (prompt.description or prompt.title or "")[:500]
    return PromptEntry(name=prompt.name, description=description, arguments=tuple(places))


def _definition(tool: types.Tool) -> ToolDefinition:
    hints = tool.annotations
    return ToolDefinition(
        name=tool.name,
        title=(tool.title or "")[:200],
        description=tool.description or "",
        input_schema=tool.input_schema,
        read_only=hints.read_only_hint if hints else None,
        destructive=hints.destructive_hint if hints else None,
    )


def reason_of(error: BaseException) -> str:
    """Return in one line what went wrong; connection faults come in groups."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    if isinstance(error, OSError) and error.strerror:
        named = f": {error.filename}" if error.filename else ""
        return f"{error.strerror}{named}"
    words = " ".join(str(error).split())[:500]
    return words or type(error).__name__
