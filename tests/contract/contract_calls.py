"""The whole core in one process, assembled as the command line assembles it, with a workspace of its own."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from ollm_tui.core.base.results import JsonObject, ToolResult
from ollm_tui.options import Options
from ollm_tui.runtime import Attendance, Core, configure, open_core


@dataclass(frozen=True)
class Desk:
    """Where calls are made and their results looked at."""

    core: Core
    folder: Path
    """The workspace."""

    async def call(self, name: str, /, **arguments: JsonValue) -> ToolResult:
        return await self.core.executor.execute(name, arguments)

    async def raw(self, name: str, arguments: JsonValue) -> ToolResult:
        return await self.core.executor.execute(name, arguments)

    async def text(self, name: str, /, **arguments: JsonValue) -> str:
        """What a successful call tells the model."""
        result = await self.call(name, **arguments)
        assert result.error is None, result.error
        return result.llm_content

    async def fault(self, name: str, /, **arguments: JsonValue) -> str:
        """The type of the error that a call must end in."""
        result = await self.call(name, **arguments)
        assert result.error is not None, f"{name} {arguments} succeeded: {result.llm_content!r}"
        return result.error.type

    async def data(self, name: str, /, **arguments: JsonValue) -> JsonObject:
        """A successful call's data as it stands on stdout."""
        result = await self.call(name, **arguments)
        assert result.error is None, result.error
        data = result.on_stdout()["data"]
        assert isinstance(data, dict)
        return data

    async def decision(self, name: str, /, **arguments: JsonValue) -> str:
        """What `policy check` would say."""
        return (await self.core.executor.explain(name, arguments)).decision.value

    def write(self, path: str, content: str | bytes) -> Path:
        place = self.folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
        return place


@asynccontextmanager
async def open_desk(
    folder: Path, attendance: Attendance = Attendance.YES, policy: str | None = None, **options: object
) -> AsyncGenerator[Desk]:
    """A core over `folder`/workspace; by default every question is answered with yes."""
    workspace = folder / "workspace"
    workspace.mkdir(exist_ok=True)
    policy_file: Path | None = None
    if policy is not None:
        policy_file = folder / "policy.toml"
        policy_file.write_text(policy)
    configuration = configure(Options(workspace=workspace, policy_file=policy_file, **options))  # type: ignore[arg-type]  # tests name options by hand
    configuration.require_valid()
    async with open_core(configuration, attendance) as core:
        yield Desk(core, workspace)
