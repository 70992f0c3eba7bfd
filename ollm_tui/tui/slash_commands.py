"""The commands of the prompt (`/name words`): one table for running, completing, the help and the palette."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from inspect import isawaitable
from typing import TYPE_CHECKING

from ollm_tui.core.base.escape import visible
from ollm_tui.tui.protocol.intents import (
    AttachCommand,
    CompactConversation,
    Connect,
    ExportSession,
    Intent,
    PullModel,
    RetryTurn,
    ShowContext,
    ShowReport,
)

if TYPE_CHECKING:
    from ollm_tui.agent.prompt_files import PromptFile

Words = Callable[[], Iterable[str]]


def _no_words() -> Iterable[str]:
    return ()


@dataclass(frozen=True)
class SlashCommand:
    """A word after `/`: what it does, in a few words, and what may follow it."""

    name: str
    summary: str
    run: Callable[[str], object]
    """Called with what follows the name; what it returns is awaited where it can be."""
    argument: str = ""
    """How the help shows what follows the name: `NAME`, `[WORDS]`."""
    words: Words = _no_words
    """What Tab completes after the name."""
    in_palette: bool = True
    """False where the palette has the same action with its key."""
    is_message: bool = False
    """It stands for a text, a command or skill kept as a file: it is sent as it was typed."""


class SlashCommands:
    """The commands by name."""

    def __init__(self, *commands: SlashCommand) -> None:
        self._commands = {command.name: command for command in commands}

    def __iter__(self) -> Iterator[SlashCommand]:
        """Yield the commands by name."""
        return iter(sorted(self._commands.values(), key=lambda command: command.name))

    def offer_messages(self, offered: Iterable[SlashCommand]) -> None:
        """Offer these commands that are messages, and no others; the program's own names stay its own."""
        own = {name: command for name, command in self._commands.items() if not command.is_message}
        self._commands = {**{command.name: command for command in offered}, **own}

    def help_lines(self) -> Iterator[str]:
        """Yield a line for each command: `/mode ask|plan   what it does`."""
        heads = [f"/{command.name} {command.argument}".rstrip() for command in self]
        width = max(map(len, heads), default=0)
        for head, command in zip(heads, self, strict=True):
            yield f"{head:<{width}}   {command.summary}"

    async def take(self, text: str, tell: Callable[[str], object]) -> bool:
        """Run `/name words`, or `tell` that there is none.

        Returns:
            False for what is to be sent: a command that is a text, and `/etc/hosts`, which may well begin a message.
        """
        name, _, rest = text[1:].partition(" ")
        command = self._commands.get(name)
        if command is None:
            if "/" in name or not name:
                return False
            tell(f"There is no /{visible(name)}. /help lists what there is.")
        elif command.is_message:
            return False
        elif isawaitable(done := command.run(rest.strip())):
            await done
        return True


def conversation_commands(handle: Callable[[Intent], object]) -> tuple[SlashCommand, ...]:
    """Return the commands about the conversation with the model, which the backend carries out."""
    return (
        SlashCommand(
            "compact",
            "Sum up the earlier conversation to make room; WORDS say what to keep",
            lambda hint: handle(CompactConversation(hint)),
            "[WORDS]",
        ),
        SlashCommand(
            "context",
            "What fills the model's window; drop leaves one item of it out",
            lambda words: handle(ShowContext(words)),
            "[drop N]",
            lambda: ("drop ",),
        ),
        SlashCommand("connect", "Look for model servers again", lambda _: handle(Connect())),
        SlashCommand("doctor", "What works on this machine", lambda _: handle(ShowReport("doctor"))),
        SlashCommand(
            "export", "Write this session as Markdown to a new file", lambda path: handle(ExportSession(path)), "[FILE]"
        ),
        SlashCommand("mcp", "The MCP servers, and the tools they give", lambda _: handle(ShowReport("mcp"))),
        SlashCommand(
            "sources",
            "Other sessions that wait for a person; COMMAND, such as ssh, starts one whose questions come here",
            lambda words: handle(AttachCommand(_split(words)) if words else ShowReport("sources")),
            "[COMMAND]",
        ),
        SlashCommand(
            "pull", "Have Ollama load a model; alone: stop that", lambda name: handle(PullModel(name)), "[NAME]"
        ),
        SlashCommand("retry", "Send the last message again", lambda _: handle(RetryTurn())),
    )


def _split(words: str) -> tuple[str, ...]:
    """Return the words of a command line; one whose quotes are open as it is."""
    try:
        return tuple(shlex.split(words))
    except ValueError:
        return tuple(words.split())


def message_command(file: PromptFile) -> SlashCommand:
    """Return the command for a text that is kept as a file."""
    price = f", {file.tokens} tokens" if file.text else ""
    summary = f"{visible(file.description)[:100]} ({file.kind} of {visible(file.source)}{price})"
    hint = visible(file.argument_hint) or ("[WORDS]" if file.text else "")
    return SlashCommand(file.name, summary, lambda _: None, hint, in_palette=False, is_message=True)
