"""The commands of the prompt (`/name words`): one table for running, completing, the help and the palette."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from inspect import isawaitable

from ollm_tui.tui.protocol.intents import ChooseModel, CompactConversation, Connect, Intent, RetryTurn, ShowContext

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


class SlashCommands:
    """The commands by name."""

    def __init__(self, *commands: SlashCommand) -> None:
        self._commands = {command.name: command for command in commands}

    def __iter__(self) -> Iterator[SlashCommand]:
        """Yield the commands by name."""
        return iter(sorted(self._commands.values(), key=lambda command: command.name))

    def help_lines(self) -> Iterator[str]:
        """Yield a line for each command: `/mode ask|plan   what it does`."""
        heads = [f"/{command.name} {command.argument}".rstrip() for command in self]
        width = max(map(len, heads), default=0)
        for head, command in zip(heads, self, strict=True):
            yield f"{head:<{width}}   {command.summary}"

    async def run(self, text: str) -> str | None:
        """Run `/name words`.

        Returns:
            The name where there is no such command; None where it ran.
        """
        name, _, rest = text[1:].partition(" ")
        command = self._commands.get(name)
        if command is None:
            return name
        done = command.run(rest.strip())
        if isawaitable(done):
            await done
        return None


def conversation_commands(handle: Callable[[Intent], object]) -> tuple[SlashCommand, ...]:
    """Return the commands about the conversation with the model, which the backend carries out."""
    return (
        SlashCommand(
            "compact",
            "Sum up the earlier conversation to make room; WORDS say what to keep",
            lambda hint: handle(CompactConversation(hint)),
            "[WORDS]",
        ),
        SlashCommand("context", "What fills the model's window", lambda _: handle(ShowContext())),
        SlashCommand("connect", "Look for model servers again", lambda _: handle(Connect())),
        SlashCommand("model", "The models there are, or another one", lambda name: handle(ChooseModel(name)), "[NAME]"),
        SlashCommand("retry", "Send the last message again", lambda _: handle(RetryTurn())),
    )
