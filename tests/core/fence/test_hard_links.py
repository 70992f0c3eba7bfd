"""Other names of credentials anywhere in the workspace ask, or are left out, as the credentials do."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ollm_tui.core import MessageBus, PolicyEngine, ToolExecutor, ToolRegistry, ToolResult, Workspace, builtin_tools
from ollm_tui.core.fence import file_identity
from ollm_tui.core.policy.rules import Decision
from ollm_tui.core.sandbox.engines import bubblewrap
from ollm_tui.options import Options
from ollm_tui.runtime import configure

SECRET = "KEY=canary"
NAMES = {"notes.txt": "deep/.aws/credentials", "x/env.txt": "x/y/.env", "key.txt": ".ssh/id_rsa", "m.txt": "my/own"}


@dataclass
class Room:
    executor: ToolExecutor
    root: Path

    async def call(self, name: str, **arguments: object) -> ToolResult:
        return await self.executor.execute(name, arguments)  # type: ignore[arg-type]  # plain JSON

    async def asks(self, name: str, **arguments: object) -> bool:
        return (await self.executor.explain(name, arguments)).decision is Decision.ASK  # type: ignore[arg-type]  # plain JSON


@pytest.fixture
async def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Room]:
    root, home = tmp_path / "work", tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    for name, secret in NAMES.items():
        place = (home if secret.startswith(".ssh") else root) / secret
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"{SECRET}\n")
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        os.link(place, root / name)
    (root / "plain.txt").write_text("KEY=plain\n")
    os.link(root / "plain.txt", root / "plain2.txt")
    workspace = Workspace(root, protected_patterns=["/my/own"])
    sources = configure(Options(workspace=root)).sources
    policy = PolicyEngine(replace(sources, commands=replace(sources.commands, workspace=workspace)))
    registry = ToolRegistry()
    for tool in builtin_tools():
        registry.register(tool)
    async with ToolExecutor(registry, policy, MessageBus(), workspace) as executor:
        yield Room(executor, root)


@pytest.mark.parametrize("name", NAMES)
async def test_another_name_asks_wherever_the_credential_lies(room: Room, name: str) -> None:
    assert await room.asks("read_file", path=name)
    assert await room.asks("grep", pattern="KEY", directory=name)
    assert await room.asks("shell", command=f"cat {name}")
    assert not await room.asks("read_file", path="plain2.txt")


async def test_searches_leave_other_names_out(room: Room) -> None:
    for name, arguments in (
        ("grep", {"pattern": "KEY"}),
        ("search_code", {"query": "KEY"}),
        ("read_many_files", {"paths": ["*.txt", "x/*.txt"]}),
    ):
        text = (await room.call(name, **arguments)).for_model()
        assert "KEY=plain" in text and SECRET not in text, name


async def test_a_search_by_a_command_asks(room: Room) -> None:
    for line in ("rg KEY", "rg KEY x", "grep -r KEY x"):
        assert await room.asks("shell", command=line), line
    for name in (*NAMES, "my/own"):
        (room.root / name).unlink()
    assert not await room.asks("shell", command="rg KEY"), "plain files with two names are no matter"


@pytest.mark.skipif(bool(bubblewrap().problem), reason=bubblewrap().problem or "bubblewrap works")
async def test_code_finds_them_empty(room: Room) -> None:
    code = f"cat {' '.join(NAMES)} plain2.txt"
    text = (await room.call("run_code", language="bash", code=code)).for_model()
    assert "KEY=plain" in text and SECRET not in text


async def test_links_that_a_pattern_finds_are_judged_by_where_they_lead(room: Room) -> None:
    (room.root / "one.md").symlink_to("x/y/.env")
    (room.root / "two.md").symlink_to("notes.txt")
    (room.root / "three.md").symlink_to("plain.txt")
    result = await room.call("read_many_files", paths=["*.md"])
    assert SECRET not in result.for_model() and "KEY=plain" in result.for_model()
    assert any("2 left out" in note for note in result.notes)


async def test_where_too_much_lies_to_tell_it_asks(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_identity, "MOST_BELOW", 3)
    found = await room.executor.explain("read_file", {"path": "plain2.txt"})
    assert found.decision is Decision.ASK and "too much lies here" in found.reason
    assert not await room.asks("read_file", path="my/../x/other"), "a file with one name"
