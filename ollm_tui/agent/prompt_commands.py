"""Fill in what `/name words` stands for: arguments, and what commands in it print, which run as every call does."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from typing import Protocol

from ollm_tui.agent.prompt_files import PromptFile, PromptFileKind, PromptFiles
from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.escape import visible, visible_block
from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.bus.states import Origin
from ollm_tui.core.execution.executor import ToolExecutor

_SHELL = re.compile(r"!\{((?:[^{}]|\{\{args\}\}|\{[^{}]*\})*)\}|!`([^`\n]+)`")
_ARGUMENTS = re.compile(r"\{\{args\}\}|\$ARGUMENTS\b|\$([1-9])(?!\d)")
_FILE = re.compile(r"@\{([^{}\n]+)\}")


class CommandFailedError(Exception):
    """A command that cannot be sent; the message says why."""


class PromptServers(Protocol):
    """Servers that keep prompts."""

    async def wait_for_prompt(self, command: str, signal: AbortSignal) -> None:
        """Wait for the server of a command, where there is one."""
        ...

    def prompt_call(self, command: str, words: str) -> tuple[str, JsonObject]:
        """Return tool and arguments for a command. Raises ValueError, LookupError."""
        ...


class PromptCommands:
    """Knows the commands and skills of the moment, and makes texts of them."""

    def __init__(
        self, executor: ToolExecutor, read: Callable[[], PromptFiles], servers: PromptServers | None = None
    ) -> None:
        """`read` looks at the files anew, and at the prompts of servers; it may block."""
        self._executor = executor
        self._read = read
        self._servers = servers

    async def expand(self, text: str, signal: AbortSignal) -> tuple[str, str] | None:
        """Return name and text of the command that a message begins with; None where it begins with none.

        Raises:
            CommandFailedError: A command inside it was denied or failed.
        """
        name, _, rest = text.removeprefix("/").partition(" ")
        if not text.startswith("/") or not name or "/" in name:
            return None
        if self._servers is not None:
            await self._servers.wait_for_prompt(name, signal)
        file = (await signal.in_thread(self._read)).find(name)
        if file is None:
            return None
        given = rest.strip()
        if file.kind is PromptFileKind.SKILL:
            filled = file.text
        elif file.kind is PromptFileKind.PROMPT:
            filled = await self._of_server(file, given, signal)
        else:
            # Commands are run as they were written: what follows the name is never part of a command line unquoted.
            filled = await self._with_output(file, given, signal)
        return f"/{name}", f"[The person ran /{name}, from {visible(file.source)}. It asks you to do this:]\n{filled}"

    async def _of_server(self, file: PromptFile, given: str, signal: AbortSignal) -> str:
        assert self._servers is not None, "they are known by no other"
        try:
            tool, arguments = self._servers.prompt_call(file.name, given)
        except (ValueError, LookupError) as error:
            usage = f"/{file.name} {file.argument_hint}".rstrip()
            raise CommandFailedError(f"/{file.name} was not sent: {error}. Write it as: {usage}") from None
        result = await self._executor.execute(tool, arguments, signal, call_id=file.name, origin=Origin.USER)
        signal.throw_if_aborted()
        if result.error is not None:
            raise CommandFailedError(f"/{file.name} was not sent: {visible(result.error.message)}")
        return result.llm_content

    async def _with_output(self, file: PromptFile, given: str, signal: AbortSignal) -> str:
        """Return the text with its places filled: arguments in the prose, what commands print, references."""
        parts: list[str] = []
        last = 0
        for number, match in enumerate(_SHELL.finditer(file.text), 1):
            parts.append(_filled(file.text[last : match.start()], given))
            command = _filled(match[1] or match[2], given, quote=True).strip()
            result = await self._executor.execute(
                "shell", {"command": command}, signal, call_id=f"{file.name}-{number}", origin=Origin.USER
            )
            signal.throw_if_aborted()
            if result.error is not None and result.exit_code is None:
                raise CommandFailedError(f"/{file.name} was not sent: {visible(command)}: {result.error.message}")
            parts.append(visible_block(result.llm_content))
            last = match.end()
        tail = _filled(file.text[last:], given)
        used = any(_ARGUMENTS.search(piece) for piece in (file.text,))
        text = _FILE.sub(r"@\1", "".join((*parts, tail)))
        return text if used or not given else f"{text}\n\n{given}"


def _filled(text: str, given: str, *, quote: bool = False) -> str:
    """Return a text with the words that follow the command's name in their places."""
    words = given.split()
    shown: Callable[[str], str] = shlex.quote if quote else str

    def place(match: re.Match[str]) -> str:
        if match[1] is None:
            return shown(given)
        at = int(match[1]) - 1
        return shown(words[at]) if at < len(words) else ""

    return _ARGUMENTS.sub(place, text)
