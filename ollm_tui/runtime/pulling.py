"""Loading a model from the net onto an Ollama server, with progress; leaving the stream stops the server."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field

from pydantic import JsonValue

from ollm_tui.agent.providers.http_connection import HttpConnection, Timeouts, bad_reply, cut_off
from ollm_tui.agent.providers.json_values import as_count, as_text, member, parse_json
from ollm_tui.agent.providers.provider import ProviderError, ProviderErrorKind, ProviderNotice
from ollm_tui.agent.providers.provider_errors import shown
from ollm_tui.agent.providers.reply_reader import FramingError, LineDecoder
from ollm_tui.agent.providers.server_address import ollama_address
from ollm_tui.config import Settings
from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.escape import visible
from ollm_tui.runtime.model_provider import key_of, ollama_host

PULL_PATH = "api/pull"
QUIET_SECONDS = 600.0
"""A server says nothing while it checks a file of many gigabytes."""


@dataclass(frozen=True)
class PullProgress:
    """How far a pull is: what the server does now, and the bytes of the files it has named so far."""

    status: str
    completed: int = 0
    total: int = 0

    @property
    def percent(self) -> int:
        """Whole percent of the bytes; 0 where no file was named."""
        return min(100, self.completed * 100 // self.total) if self.total else 0

    def __str__(self) -> str:
        """Return it on one line, as a person reads it."""
        if not self.total:
            return self.status
        return f"{self.percent} %  {_size(self.completed)} of {_size(self.total)}  {self.status}"


@dataclass
class _Pull:
    """What the lines of the answer have said so far."""

    url: str
    name: str
    files: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    done: bool = False

    def read(self, line: str) -> PullProgress:
        """Take one line of the answer; raise ProviderError where it tells of an error."""
        try:
            value: JsonValue = parse_json(line)
        except ValueError:
            raise bad_reply(self.url, "a line is not JSON") from None
        if error := as_text(member(value, "error")):
            raise _failed(self.name, self.url, shown(error))
        status = shown(as_text(member(value, "status")) or "working")
        self.done = status == "success"
        digest = as_text(member(value, "digest"))
        if digest is not None:
            size = as_count(member(value, "total")) or 0
            self.files[digest] = min(size, as_count(member(value, "completed")) or 0), size
            status = f"pulling {visible(digest.removeprefix('sha256:')[:12])}"
        completed, total = (sum(part) for part in zip(*self.files.values(), strict=True)) if self.files else (0, 0)
        return PullProgress(status, completed, total)


async def pull_model(
    settings: Settings, name: str, signal: AbortSignal | None = None
) -> AsyncGenerator[PullProgress, None]:
    """Have Ollama load a model from its library, and yield how far it is; what came stays there for the next pull.

    Raises:
        OperationCancelled: The signal was aborted; the server stops as the connection closes.
        ProviderError: Everything else that went wrong.
        ServerAddressError: The address that is set is none.
    """
    own = settings.base_url if settings.provider == "ollama" else None
    connection = HttpConnection(
        ollama_address(own or ollama_host()),
        api_key=await key_of(settings) if own else None,
        timeouts=Timeouts(idle=QUIET_SECONDS),
        remedy="Models are pulled by Ollama: start it (`ollama serve`), or set OLLAMA_HOST to where it runs.",
    )
    pull, lines = _Pull(connection.address.at(PULL_PATH), name), LineDecoder()
    signal = signal or AbortSignal()
    try:
        chunks = connection.stream(PULL_PATH, {"model": name, "stream": True}, model=name, signal=signal)
        async with aclosing(chunks):
            async for chunk in chunks:
                match chunk:
                    case ProviderNotice(text):
                        yield PullProgress(text)
                    case bytes():
                        for event in lines.feed(chunk):
                            yield pull.read(event.data)
                    case _:
                        pass
        for event in lines.close():
            yield pull.read(event.data)
    except FramingError as error:
        raise bad_reply(pull.url, str(error)) from None
    finally:
        await connection.aclose()
    if not pull.done:
        raise cut_off(pull.url)


def _failed(name: str, url: str, reason: str) -> ProviderError:
    text = f"{url} did not load {visible(name)}: {reason}. Check the name at ollama.com/library, then pull again."
    return ProviderError(ProviderErrorKind.REFUSED, text, url=url)


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 100_000_000 else f"{count / 1e6:.1f} MB"
