"""Run a tool through the real executor, in a workspace of its own, with answers given beforehand."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from pydantic import JsonValue

from ollm_tui.core.base.results import ToolResult
from ollm_tui.core.bus.confirmation import ConfirmationRequest, ConfirmationResponse
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.bus.notices import ConfirmationRequested, Notice
from ollm_tui.core.bus.states import Origin, RememberScope
from ollm_tui.core.execution.executor import ToolExecutor
from ollm_tui.core.execution.options import ExecutorOptions
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.files.trash import Trash
from ollm_tui.core.policy.engine import PolicyEngine
from ollm_tui.core.policy.rules import PolicyConfig
from ollm_tui.core.tools.base import AnyTool
from ollm_tui.core.tools.context import ToolContext
from ollm_tui.core.tools.registry import ToolRegistry


@dataclass(frozen=True)
class Answer:
    """What a person answers to a confirmation."""

    approved: bool = True
    reason: str | None = None
    """Told to the model when denied."""
    caged: bool = False
    """Run it in the cage for work."""
    modified_args: dict[str, JsonValue] | None = None
    """Arguments to run with instead; the changed call is judged again."""
    reviewed: str | None = None
    """The digest of the review of those arguments; with it they are not asked about again."""
    remember: RememberScope | None = None
    remember_pattern: str | None = None

    def to(self, request: ConfirmationRequest) -> ConfirmationResponse:
        """Return the answer as the response to this request."""
        return ConfirmationResponse(
            id=request.id,
            approved=self.approved,
            caged=self.caged,
            reason=self.reason,
            modified_args=self.modified_args,
            reviewed=self.reviewed,
            remember=self.remember,
            remember_pattern=self.remember_pattern,
        )


def answer_confirmations(bus: MessageBus, *answers: Answer) -> list[ConfirmationRequest]:
    """Answer the confirmations of this bus from now on, one after the other.

    Returns:
        The requests so far; it grows. Requests beyond the answers are cancelled.
    """
    asked: list[ConfirmationRequest] = []

    def answer(notice: Notice) -> None:
        if not isinstance(notice, ConfirmationRequested):
            return
        request = notice.confirmation.request
        asked.append(request)
        loop = asyncio.get_running_loop()  # whoever asks begins to wait after this notice
        if len(asked) <= len(answers):
            loop.call_soon(bus.respond_to_confirmation, answers[len(asked) - 1].to(request))
        else:
            loop.call_soon(bus.cancel_request, request.id)

    bus.subscribe(answer)
    return asked


@dataclass(frozen=True)
class ToolRun:
    """What came of one call."""

    result: ToolResult
    confirmations: tuple[ConfirmationRequest, ...]
    """What a person was asked, in order."""
    notices: tuple[Notice, ...]
    """All that the bus published meanwhile: output, confirmations, todos."""


class ToolHarness:
    """One tool in a temporary workspace, behind the executor and a policy.

    An asynchronous context manager: the workspace is removed at the end of the block.
    """

    def __init__(
        self,
        tool: AnyTool,
        *,
        policy: PolicyConfig | None = None,
        answers: Sequence[Answer] = (),
        plugin: bool = True,
    ) -> None:
        """Prepare a workspace for `tool`.

        Args:
            tool: The tool to run.
            policy: Its rules and default action; without it every call asks.
            answers: What the person answers, one for each confirmation.
            plugin: Judge it as a plug-in, which only a rule that names it allows.
        """
        self.tool = replace(tool, plugin=plugin)
        self.bus = MessageBus()
        self._directory = tempfile.TemporaryDirectory(prefix="ollm-tool-")
        root = Path(self._directory.name).resolve()
        self.workspace = root / "workspace"
        self.workspace.mkdir()
        registry = ToolRegistry()
        registry.register(self.tool)
        engine = PolicyEngine(policy or PolicyConfig())
        context = ToolContext(bus=self.bus, trash=Trash(root))
        options = ExecutorOptions(context=context)
        self.executor = ToolExecutor(registry, engine, self.bus, Workspace(self.workspace), True, options)
        self._answers = len(answers)
        self._asked = answer_confirmations(self.bus, *answers)
        self._notices: list[Notice] = []
        self.bus.subscribe(self._notices.append)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.executor.aclose()
        self._directory.cleanup()

    def write(self, path: str, content: str | bytes) -> Path:
        """Put a file into the workspace; directories are made."""
        file = self.workspace / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file

    async def call(self, **arguments: JsonValue) -> ToolRun:
        """Call the tool as a model would, by wire names.

        Raises:
            AssertionError: A confirmation was requested for which no answer is left.
        """
        asked, noticed = len(self._asked), len(self._notices)
        result = await self.executor.execute(self.tool.name, arguments, origin=Origin.MODEL)
        if len(self._asked) > self._answers:
            request = self._asked[self._answers]
            raise AssertionError(f"no answer is left for: {request.details.description} ({request.reason})")
        return ToolRun(result, tuple(self._asked[asked:]), tuple(self._notices[noticed:]))
