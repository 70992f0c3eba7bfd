"""What a foreign agent may ask of us: each request goes through our executor, or is a question in our queue."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any, cast

import acp
from acp import schema

from ollm_tui.agent.foreign.turn import ForeignTurn, details_of, judged_as, option_for
from ollm_tui.core.base.errors import ConfirmationCancelled, ConfirmationTimeout, ToolFailure
from ollm_tui.core.base.escape import visible
from ollm_tui.core.base.results import JsonObject, ToolData
from ollm_tui.core.bus.states import Origin
from ollm_tui.core.execution.executor import ToolExecutor
from ollm_tui.core.policy.rules import Decision, Mode
from ollm_tui.core.shell.status import CommandPhase
from ollm_tui.core.tools.read_file import ReadFileData
from ollm_tui.core.tools.shell import ShellData
from ollm_tui.core.tools.shell_jobs import ShellOutputData

WAIT_MS = 2_000
_CANCELLED = schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))


class ForeignClient:
    """Our side of the connection (`acp.Client`), for one session."""

    def __init__(self, executor: ToolExecutor, turn: ForeignTurn) -> None:
        self._executor = executor
        self._turn = turn

    def on_connect(self, conn: acp.Agent) -> None:
        """Nothing is asked of the agent from here."""

    async def session_update(self, session_id: str, update: object, **_: Any) -> None:
        """Tell what the agent says and does."""
        await self._turn.take(update)

    async def request_permission(
        self,
        session_id: str,
        tool_call: schema.ToolCallUpdate,
        options: Sequence[schema.PermissionOption],
        **_: Any,
    ) -> schema.RequestPermissionResponse:
        """Ask the person, unless the policy denies what is asked for."""
        known = self._turn.merged(tool_call)
        for name, arguments in judged_as(known):
            explained = await self._executor.explain(name, arguments, origin=Origin.MODEL)
            if explained.decision is Decision.DENY:
                self._turn.tell(f"{self._turn.agent} was refused: {visible(known.title)}: {explained.reason}.")
                return option_for(options, approved=False) or _CANCELLED
        if not self._executor.attended and self._executor.mode is not Mode.YOLO:
            self._turn.tell(f"{self._turn.agent} was refused: {visible(known.title)}: nobody is there to answer.")
            return option_for(options, approved=False) or _CANCELLED
        if self._executor.mode is Mode.YOLO:
            return option_for(options, approved=True) or _CANCELLED
        bus = self._executor.bus
        opened = bus.open_confirmation(
            details_of(known, self._turn.agent),
            None,
            call_id=self._turn.call_id(known.id),
            reason=f"{self._turn.agent} asks before it does this itself",
            source=self._turn.source,
        )
        settled = await bus.settlement(opened, self._turn.signal)
        if settled.response is None:
            return _CANCELLED
        if settled.response.reason:
            self._turn.pass_on(settled.response.reason)
        return option_for(options, approved=settled.response.approved) or _CANCELLED

    # -- files -------------------------------------------------------------------------------------------------------

    async def read_text_file(
        self, session_id: str, path: str, line: int | None = None, limit: int | None = None, **_: Any
    ) -> schema.ReadTextFileResponse:
        """Read a file as `read_file` does."""
        given: JsonObject = {"path": path}
        if line is not None or limit is not None:
            first = line or 1
            given |= {"startLine": first, **({"endLine": first + limit - 1} if limit else {})}
        data = await self._call("read_file", given)
        return schema.ReadTextFileResponse(content=data.content if isinstance(data, ReadFileData) else "")

    async def write_text_file(
        self, session_id: str, path: str, content: str, **_: Any
    ) -> schema.WriteTextFileResponse | None:
        """Write a file as `write_file` does, after the same question."""
        await self._call("write_file", {"path": path, "content": content})
        return schema.WriteTextFileResponse()

    # -- commands ----------------------------------------------------------------------------------------------------

    async def create_terminal(
        self,
        session_id: str,
        command: str,
        args: Sequence[str] | None = None,
        env: Sequence[schema.EnvVariable] | None = None,
        cwd: str | None = None,
        output_byte_limit: int | None = None,
        **_: Any,
    ) -> schema.CreateTerminalResponse:
        """Start a command as `shell` does, in the background; the person sees it in the terminal."""
        words = shlex.join([command, *args]) if args else command
        variables = " ".join(f"{one.name}={shlex.quote(one.value)}" for one in env or ())
        line = f"{variables} {words}".strip()
        data = await self._call("shell", {"command": line, "background": True, **({"cwd": cwd} if cwd else {})})
        return schema.CreateTerminalResponse(terminal_id=cast("ShellData", data).id)

    async def terminal_output(self, session_id: str, terminal_id: str, **_: Any) -> schema.TerminalOutputResponse:
        """Return what a command wrote so far."""
        data = await self._output(terminal_id)
        ended = None if data.state is CommandPhase.RUNNING else schema.TerminalExitStatus(exit_code=data.exit_code)
        return schema.TerminalOutputResponse(output=data.output, truncated=False, exit_status=ended)

    async def wait_for_terminal_exit(
        self, session_id: str, terminal_id: str, **_: Any
    ) -> schema.WaitForTerminalExitResponse:
        """Wait until a command has ended."""
        data = await self._output(terminal_id)
        while data.state is CommandPhase.RUNNING:
            since = data.next
            data = cast(
                "ShellOutputData",
                await self._call("shell_output", {"id": terminal_id, "since": since, "wait": WAIT_MS}),
            )
        return schema.WaitForTerminalExitResponse(exit_code=data.exit_code)

    async def kill_terminal(self, session_id: str, terminal_id: str, **_: Any) -> schema.KillTerminalResponse | None:
        """End a command."""
        await self._call("shell_kill", {"id": terminal_id})
        return schema.KillTerminalResponse()

    async def release_terminal(
        self, session_id: str, terminal_id: str, **_: Any
    ) -> schema.ReleaseTerminalResponse | None:
        """End a command that still runs; what it wrote stays in our terminal."""
        if (await self._output(terminal_id)).state is CommandPhase.RUNNING:
            await self._call("shell_kill", {"id": terminal_id})
        return schema.ReleaseTerminalResponse()

    # -- what is not offered -----------------------------------------------------------------------------------------

    async def create_elicitation(self, message: str, mode: object, **_: Any) -> schema.DeclineElicitationResponse:
        """Decline: this program has said that it has no forms."""
        return schema.DeclineElicitationResponse(action="decline")

    async def complete_elicitation(self, elicitation_id: str, **_: Any) -> None:
        """Pass over what was never begun."""

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Refuse what the protocol does not have."""
        raise acp.RequestError.method_not_found(method)

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """Pass over what the protocol does not have."""

    # -- inside ------------------------------------------------------------------------------------------------------

    async def _output(self, terminal_id: str) -> ShellOutputData:
        return cast("ShellOutputData", await self._call("shell_output", {"id": terminal_id, "since": 0}))

    async def _call(self, name: str, arguments: JsonObject) -> ToolData | None:
        """Run one of our tools for the agent. Raises acp.RequestError with the failure's words."""
        try:
            result = await self._executor.execute(
                name, arguments, self._turn.signal, call_id=self._turn.next_id(), origin=Origin.MODEL
            )
        except (ConfirmationCancelled, ConfirmationTimeout, ToolFailure) as failure:
            raise acp.RequestError(-32000, str(failure)) from None
        # A command that failed has run: its exit code says so.
        if result.error is not None and result.data is None:
            raise acp.RequestError(-32000, result.error.message)
        return result.data
