"""The hub's commands as tabs, and the bytes between them and the terminal views."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ollm_tui.core.shell.hub import CommandHub, CommandKind, CommandStatus, StartError, UnknownCommandError
from ollm_tui.core.shell.status import CommandPhase
from ollm_tui.tui.controllers.detached_jobs_controller import DetachedJobsController
from ollm_tui.tui.values import CommandMark, CommandTab


class CommandsController:
    """Raw bytes go from the hub's threads straight into a view's engine; nothing of them is an event."""

    def __init__(
        self,
        hub: CommandHub,
        left: DetachedJobsController,
        workspace: Path,
        changed: Callable[[tuple[CommandTab, ...]], object],
    ) -> None:
        self._hub = hub
        self._left = left
        self._workspace = workspace
        self._changed = changed
        self._attached: dict[str, Callable[[], None]] = {}
        self._unsubscribe = hub.subscribe(self._on_state)

    def close(self) -> None:
        """Stop listening; the commands go on."""
        self._unsubscribe()
        for detach in self._attached.values():
            detach()
        self._attached.clear()
        self._left.close()

    def tabs(self) -> tuple[CommandTab, ...]:
        return (*self._left.tabs(), *(_tab(state) for state in self._hub.list()))

    async def open_shell(self, columns: int, lines: int, typed: str) -> None:
        """Start the person's shell. Raises StartFailed."""
        command_id = await self._hub.open_person_shell(columns, lines, self._workspace)
        self._changed(self.tabs())
        if typed:
            self._hub.type(command_id, typed.encode())

    def attach(self, command_id: str, feed: Callable[[bytes], None]) -> None:
        """Give a view the command's bytes, those of the past first; a command that is gone has none."""
        self.detach(command_id)
        if self._left.attach(command_id, feed):
            return
        try:
            self._attached[command_id] = self._hub.attach(command_id, feed)
        except UnknownCommandError:
            feed(b"[this command is no longer kept]\r\n")

    def detach(self, command_id: str) -> None:
        self._left.detach(command_id)
        detach = self._attached.pop(command_id, None)
        if detach is not None:
            detach()

    def type(self, command_id: str, data: bytes) -> None:
        """What the person typed; lost where the command takes no input any more."""
        with suppress(UnknownCommandError):
            self._hub.type(command_id, data)

    def answer(self, command_id: str, data: bytes) -> None:
        """What the terminal answers its program."""
        with suppress(UnknownCommandError):
            self._hub.write(command_id, data)

    def interrupt(self, command_id: str) -> None:
        with suppress(UnknownCommandError):
            self._hub.interrupt(command_id)

    def take_over(self, command_id: str) -> None:
        with suppress(UnknownCommandError):
            self._hub.take_over(command_id)

    def resize(self, command_id: str, columns: int, lines: int) -> None:
        with suppress(UnknownCommandError):
            self._hub.resize(command_id, columns, lines)

    def running(self) -> int:
        """Commands of the agent that a turn waits for, and that quitting would end."""
        return sum(state.running and not state.is_job for state in self._hub.list() if state.kind is CommandKind.AGENT)

    def _on_state(self, state: CommandStatus) -> None:
        self._changed(self.tabs())


def mark_of(state: CommandStatus) -> CommandMark:
    """Where a command stands, for the screen."""
    if state.running and state.waiting_for_input:
        return CommandMark.WAITING
    marks = {
        CommandPhase.RUNNING: CommandMark.RUNNING,
        CommandPhase.EXITED: CommandMark.EXITED,
        CommandPhase.KILLED: CommandMark.KILLED,
    }
    return marks[state.phase]


def _tab(state: CommandStatus) -> CommandTab:
    return CommandTab(
        id=state.id,
        label=state.command,
        state=mark_of(state),
        exit_code=state.exit_code,
        person=state.kind is CommandKind.PERSON,
        started=state.started,
        ended=state.ended,
        cwd=state.cwd,
        taken_over=state.user_input.took_over,
    )


__all__ = ["CommandsController", "StartError", "mark_of"]
