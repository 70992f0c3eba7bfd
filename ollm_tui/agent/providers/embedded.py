"""`EmbeddedProvider`: a GGUF file, run by llama.cpp in a child process on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import secrets
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

from ollm_tui.agent.providers.http_connection import HttpConnection
from ollm_tui.agent.providers.openai import OpenAIProvider
from ollm_tui.agent.providers.provider import (
    ChatRequest,
    ModelLoading,
    ModelOptions,
    ProviderDescription,
    ProviderError,
    ProviderErrorKind,
    StreamEvent,
)
from ollm_tui.agent.providers.provider_errors import shown
from ollm_tui.agent.providers.server_address import openai_address
from ollm_tui.core.base.abort import AbortSignal

DEFAULT_WINDOW = 8_192
LOADED_WITHIN = 600.0
"""Seconds; a large file on a slow disk takes minutes."""
ENDED_WITHIN = 2.0

_UNSTARTED = "http://127.0.0.1:9/v1"


def embedded_is_installed() -> bool:
    """Return whether the extra `embedded` is."""
    return importlib.util.find_spec("xllamacpp") is not None


class EmbeddedProvider(OpenAIProvider):
    """Starts llama.cpp with the first request, and again where it ended: its crash ends a turn alone."""

    name = "embedded"

    def __init__(
        self, path: Path, num_ctx: int | None = None, *, options: Mapping[str, ModelOptions] | None = None
    ) -> None:
        super().__init__(_UNSTARTED, path.stem, options=options)
        self._path = path
        self._window = self._options.of(path.stem).num_ctx or num_ctx or DEFAULT_WINDOW
        self._child: Process | None = None
        self._errors: Path | None = None

    def describe(self) -> ProviderDescription:
        """Return name, model, file and window."""
        described = super().describe()
        return replace(described, location=str(self._path), context_window=described.context_window or self._window)

    async def stream(self, request: ChatRequest, signal: AbortSignal) -> AsyncGenerator[StreamEvent, None]:
        """Stream one reply, once the model is loaded."""
        if self._child is None or self._child.returncode is not None:
            yield ModelLoading(self._path.stem)
            await signal.guard(self._start())
        try:
            async with aclosing(super().stream(request, signal)) as events:
                async for event in events:
                    yield event
        except ProviderError as error:
            if error.kind is ProviderErrorKind.UNREACHABLE:
                await self._end()  # it crashed a moment ago
            raise

    async def takes_images(self, model: str | None = None) -> bool | None:
        """Return False: a picture needs a second file."""
        return False

    async def aclose(self) -> None:
        """Close the connections and end llama.cpp."""
        await super().aclose()
        await self._end()

    async def _start(self) -> None:
        """Start llama.cpp and wait until it has loaded the model. Raises ProviderError."""
        await self._end()
        handle, name = await asyncio.to_thread(tempfile.mkstemp, prefix="ollm-tui-llama-", suffix=".log")
        self._errors = Path(name)
        threads = max(1, len(os.sched_getaffinity(0)) - 1) if hasattr(os, "sched_getaffinity") else 1
        # -P and the folder: the workspace's files must not be taken for the package
        module = ("-P", "-m", "ollm_tui.agent.providers.embedded_server")
        arguments = (str(self._path.resolve()), str(self._window), str(threads))
        key = secrets.token_urlsafe(32)
        try:
            child = self._child = await asyncio.create_subprocess_exec(
                sys.executable, *module, *arguments, stdin=PIPE, stdout=PIPE, stderr=handle, cwd="/"
            )
        finally:
            os.close(handle)
        assert child.stdin is not None, "it is a pipe"
        assert child.stdout is not None, "it is a pipe"
        try:
            child.stdin.write(f"{key}\n".encode())
            async with asyncio.timeout(LOADED_WITHIN):
                address = (await child.stdout.readline()).decode().strip()
        except BaseException:  # stopped meanwhile too: half a model is of no use
            await self._end()
            raise
        if not address:
            reason = await asyncio.to_thread(self._last_error)
            await self._end()
            text = f"llama.cpp could not load {self._path}: {reason}. Choose another file, or a smaller num_ctx."
            raise ProviderError(ProviderErrorKind.REFUSED, text)
        url = address if address.startswith("http") else f"http://{address}"
        await super().aclose()
        self._connection = HttpConnection(openai_address(url), api_key=key, remedy="Try again: it is started anew.")

    async def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None and child.returncode is None:
            assert child.stdin is not None, "it is a pipe"
            child.stdin.close()
            try:
                async with asyncio.timeout(ENDED_WITHIN):
                    await child.wait()
            except TimeoutError:
                child.kill()
                await child.wait()
        if self._errors is not None:
            with contextlib.suppress(OSError):
                self._errors.unlink()
            self._errors = None

    def _last_error(self) -> str:
        text = self._errors.read_text(errors="replace") if self._errors is not None else ""
        lines = [line for line in text.splitlines() if "error" in line.lower() or "fail" in line.lower()]
        return shown((lines or text.splitlines() or ["it ended without a word"])[-1])
