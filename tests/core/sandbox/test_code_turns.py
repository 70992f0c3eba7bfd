"""Code that may change what paths lead to does not run beside commands and calls that were judged by their paths."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ollm_tui.core import MessageBus, PolicyEngine, ToolExecutor, ToolRegistry, Workspace, builtin_tools
from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.sandbox import code_turns, look
from ollm_tui.core.sandbox.code_turns import CODE_TURNS
from ollm_tui.core.sandbox.engines import Sandbox, bubblewrap
from ollm_tui.options import Options
from ollm_tui.runtime import configure

pytestmark = pytest.mark.skipif(not look.works() or not Sandbox().works, reason="needs both cages")
SWAP: JsonObject = {"language": "bash", "code": "ln -sf .env x.txt; echo swapped"}


@pytest.fixture
async def executor(tmp_path: Path) -> AsyncIterator[ToolExecutor]:
    (tmp_path / ".env").write_text("SECRET\n")
    (tmp_path / "x.txt").write_text("plain\n")
    registry = ToolRegistry()
    for tool in builtin_tools():
        registry.register(tool)
    policy = PolicyEngine(configure(Options(workspace=tmp_path)).sources)
    async with ToolExecutor(registry, policy, MessageBus(), Workspace(tmp_path)) as made:
        yield made


@pytest.mark.parametrize("landlock", [True, False], ids=["landlock", "bubblewrap"])
async def test_code_waits_for_a_command_in_the_background_that_was_judged_before(
    executor: ToolExecutor, landlock: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not landlock:
        if bubblewrap().problem:
            pytest.skip(bubblewrap().problem)
        monkeypatch.setattr(look, "works", lambda: False)
    started = await executor.execute("shell", {"command": "sleep 1; cat x.txt", "background": True})
    assert started.ok and started.data is not None
    job = started.data.id  # type: ignore[union-attr]  # a job's data
    swapped = await executor.execute("run_code", {**SWAP})
    assert swapped.ok and "swapped" in swapped.llm_content
    output = await executor.execute("shell_output", {"id": job})
    assert "plain" in output.llm_content and "SECRET" not in output.llm_content
    after = await executor.execute("shell", {"command": "cat x.txt"})
    assert after.error is not None and after.error.type == "PolicyDeniedError", "judged anew"


async def test_code_does_not_run_where_such_a_command_does_not_end(
    executor: ToolExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_turns, "WAIT_SECONDS", 0.05)
    job = (await executor.execute("shell", {"command": "sleep 60; cat x.txt", "background": True})).data
    refused = await executor.execute("run_code", {**SWAP})
    assert refused.error is not None and "still running" in refused.error.message
    assert not (tmp_path / "x.txt").is_symlink()
    await executor.execute("shell_kill", {"id": job.id})  # type: ignore[union-attr]  # a job's data
    monkeypatch.setattr(code_turns, "WAIT_SECONDS", 10)
    assert (await executor.execute("run_code", {**SWAP})).ok


async def test_a_command_waits_for_code_and_is_judged_after_it(executor: ToolExecutor, tmp_path: Path) -> None:
    code: JsonObject = {"language": "bash", "code": "touch begun; sleep 0.5; ln -sf .env x.txt"}
    running = asyncio.ensure_future(executor.execute("run_code", {**code}))
    while not (tmp_path / "begun").exists():
        await asyncio.sleep(0.01)
    looked = await executor.execute("shell", {"command": "cat x.txt"})
    assert "SECRET" not in looked.for_model() and looked.error is not None
    assert (await running).ok and CODE_TURNS.moment >= 0


@contextmanager
def swapping(folder: Path) -> Generator[None]:
    """Change a file into a link to credentials and back, as code beside a call could."""
    over = threading.Event()

    def swap() -> None:
        number = 0
        while not over.is_set():
            number += 1
            (folder / "new").symlink_to(".env" if number % 2 else "plain")
            os.rename(folder / "new", folder / "x.txt")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("read_file", {"path": "x.txt"}),
        ("grep", {"pattern": "[a-zA-Z]", "directory": "x.txt"}),
        ("read_many_files", {"paths": ["x.txt"]}),
        ("read_many_files", {"paths": ["x*"]}),
    ],
)
async def test_a_path_leads_where_it_led_when_the_call_was_judged(
    executor: ToolExecutor, tmp_path: Path, name: str, arguments: dict[str, object]
) -> None:
    (tmp_path / "plain").write_text("plain\n")
    with swapping(tmp_path):
        texts = [(await executor.execute(name, arguments)).for_model() for _ in range(80)]  # type: ignore[arg-type]  # plain JSON
    assert not any("SECRET" in text for text in texts)
    assert any("plain" in text for text in texts)
