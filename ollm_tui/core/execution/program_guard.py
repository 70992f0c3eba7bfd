"""Ask once before a program of the person's own settings, a hook or server, runs what was written unasked."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import StorageFailed
from ollm_tui.core.base.escape import visible_block
from ollm_tui.core.bus.confirmation import ConfirmationDetails, TextPreview
from ollm_tui.core.bus.states import ConfirmationState, Origin, Risk
from ollm_tui.core.execution.executor import ToolExecutor
from ollm_tui.core.search.repository import read_file

MOST_SHOWN = 3
_SHOWN_BYTES = 4_000
_State = tuple[tuple[str, int, int, int], ...]


class ProgramGuard:
    """Puts such questions into the queue; where nobody answers, only `--yes` does."""

    def __init__(self, executor: ToolExecutor, timeout: float | None, *, answers_yes: bool) -> None:
        self._executor = executor
        self._timeout = timeout
        self._answers_yes = answers_yes
        self._denied: set[tuple[str, _State]] = set()
        self._asking = asyncio.Lock()

    async def why_not(self, who: str, command: str, signal: AbortSignal | None = None) -> str:
        """Return why a command must not run now; empty where it may. Asks the person where there is one.

        Args:
            who: Whose command it is, as in "the hook check.sh".
            command: What bash would run in the workspace.
            signal: Withdraws the question.
        """
        executor = self._executor
        if executor.anything_runs:
            return ""
        async with self._asking:
            while changed := await asyncio.to_thread(executor.written_unasked, command):
                reason = executor.unasked_words(changed)
                state = await asyncio.to_thread(_state_of, changed)
                if (command, state) in self._denied:
                    return f"{reason}; you said no to it"
                if not executor.attended and not self._answers_yes:
                    return f"{reason}; nobody is there to look at it"
                if executor.attended:
                    answer = await self._ask(who, command, reason, changed, signal)
                    if answer is ConfirmationState.DENIED:
                        self._denied.add((command, state))
                    if answer is not ConfirmationState.APPROVED:
                        return (
                            f"{reason}; {'you said no to it' if answer is ConfirmationState.DENIED else answer.value}"
                        )
                if state == await asyncio.to_thread(_state_of, changed):
                    try:
                        await asyncio.to_thread(executor.forget_unasked, command)
                    except StorageFailed as failure:
                        return f"{reason}, and your answer could not be kept: {failure.message}"
        return ""

    async def _ask(
        self, who: str, command: str, reason: str, changed: Sequence[Path], signal: AbortSignal | None
    ) -> ConfirmationState:
        preview = await asyncio.to_thread(self._preview, command, changed)
        details = ConfirmationDetails(
            tool_name="start_program",
            description=f"Let {who} run",
            risk=Risk.HIGH,
            args={"command": command},
            preview=preview,
        )
        bus = self._executor.bus
        opened = bus.open_confirmation(details, self._timeout, reason=reason, origin=Origin.PLUGIN)
        settled = await bus.settlement(opened, signal)
        response = settled.response
        if response is not None and (response.modified_args is not None or response.caged):
            return ConfirmationState.DENIED  # it runs as it stands in the settings, or not at all
        return settled.confirmation.state

    def _preview(self, command: str, changed: Sequence[Path]) -> TextPreview:
        parts = [command]
        for path in changed[:MOST_SHOWN]:
            content = read_file(os.fsencode(path), _SHOWN_BYTES * 100) or b""
            cut = f"\n[... {len(content) - _SHOWN_BYTES:,} bytes more]" if len(content) > _SHOWN_BYTES else ""
            text = content[:_SHOWN_BYTES].decode("utf-8", "replace")
            parts.append(f"--- {self._executor.workspace.shown(path)}\n{text}{cut}")
        warning = "It runs on this machine, in no cage; a yes holds until a call writes there unasked again."
        return TextPreview(text=visible_block("\n\n".join(parts)), warnings=(warning,))


def _state_of(paths: Sequence[Path]) -> _State:
    found: list[tuple[str, int, int, int]] = []
    for path in paths:
        with suppress(OSError):
            status = path.stat()
            found.append((str(path), status.st_ino, status.st_size, status.st_ctime_ns))
    return tuple(found)
