"""Calling the reading tools in tests, and git as the judge of what is listed."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import TypeVar

import pytest
from pydantic import JsonValue

from ollm_tui.core.base.abort import AbortController, AbortSignal
from ollm_tui.core.base.results import ToolResult
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.fence.dir_handle import DirHandle
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.search.listing import Listing, ListingOptions
from ollm_tui.core.tools.base import Parameters, Tool
from ollm_tui.core.tools.context import Limits, ToolContext

P = TypeVar("P", bound=Parameters)


async def call(
    tool: Tool[P],
    root: Path | str,
    arguments: dict[str, JsonValue],
    *,
    limits: Limits | None = None,
    signal: AbortSignal | None = None,
) -> ToolResult:
    """One call as the executor makes it: preconditions, then the effect. Raises ToolFailure."""
    context = ToolContext(bus=MessageBus(), workspace=Workspace(root), limits=limits or Limits())
    invocation = tool.create_invocation(arguments, context)
    signal = signal or AbortController().signal
    return await invocation.check(signal) or await invocation.execute(signal)


def called(
    tool: Tool[P], root: Path | str, arguments: dict[str, JsonValue], *, limits: Limits | None = None
) -> ToolResult:
    """As `call`, for tests that draw many examples: one loop and its threads serve them all."""
    return _runner().run(call(tool, root, arguments, limits=limits))


@cache
def _runner() -> asyncio.Runner:
    return asyncio.Runner()  # never closed: at the interpreter's end there is nothing it could still wait for


def write(root: Path, files: dict[str, str | bytes]) -> None:
    """Files with their folders; a path that ends with a slash is an empty folder."""
    for name, content in files.items():
        path = root / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def git(root: Path, *arguments: str) -> bytes:
    program = shutil.which("git")
    if program is None:
        if os.environ.get("OLLM_TEST_TOOLS"):
            pytest.fail("git is not installed")
        pytest.skip("git is not installed")
    environment = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1"}
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"]
    done = subprocess.run([program, *identity, *arguments], cwd=root, env=environment, capture_output=True, check=True)
    return done.stdout


def listed_by_git(root: Path) -> set[bytes]:
    """What `git ls-files -co --exclude-standard` names and is there; nested repositories are asked themselves."""
    names: set[bytes] = set()
    for name in git(root, "ls-files", "-co", "--exclude-standard", "-z").split(b"\0"):
        path = os.path.join(os.fsencode(root), name)
        if not name or not os.path.lexists(path):
            continue
        if os.path.isdir(path) and not os.path.islink(path):
            inner = name if name.endswith(b"/") else name + b"/"
            names |= {inner + each for each in listed_by_git(Path(os.fsdecode(path)))}
        else:
            names.add(name)
    return names


def listed_by_us(start: Path, boundary: Path | None = None, *, include_ignored: bool = False) -> set[bytes]:
    options = ListingOptions(include_hidden=True, include_ignored=include_ignored)
    listing = Listing(DirHandle.at(os.fsencode(start)), os.fsencode(boundary or start), options)
    paths = list(listing.files(links=True))
    assert paths == sorted(set(paths)), "in order and each once"
    return set(paths)
