"""An approval is about what was there: what a call wrote unasked since is asked about before an approved line runs it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import NoReturn

import pytest

from ollm_tui.core import MessageBus, PolicyEngine, ToolExecutor, ToolRegistry, ToolResult, Workspace, builtin_tools
from ollm_tui.core.base.errors import StorageFailed
from ollm_tui.core.execution.judging import ASKS_LATER
from ollm_tui.core.files.unasked_writes import CodePlace, UnaskedWrites
from ollm_tui.core.policy.approval_patterns import ApprovalPattern
from ollm_tui.core.policy.command_rules import CommandPolicy
from ollm_tui.core.policy.engine import PolicySources
from ollm_tui.core.policy.rules import Decision, Mode
from ollm_tui.core.sandbox.engines import bubblewrap
from ollm_tui.core.storage.store import InMemoryStore, Schema
from ollm_tui.options import Options
from ollm_tui.runtime import configure
from ollm_tui.testing import Answer, answer_confirmations
from ollm_tui.testing.fakes import FakeClock

APPROVED = (
    *("make test", "npm test", "./t.sh", "./scripts/t.sh", "make -C x test", "touch x"),
    *("python3 s.py *", "pytest *"),
)
LINES = tuple(pattern.replace("*", "-q") for pattern in APPROVED)
caged = pytest.mark.skipif(bool(bubblewrap().problem), reason=bubblewrap().problem or "bubblewrap works")


@dataclass
class Room:
    executor: ToolExecutor
    bus: MessageBus
    root: Path

    async def call(self, name: str, **arguments: object) -> ToolResult:
        return await self.executor.execute(name, arguments)  # type: ignore[arg-type]  # plain JSON

    async def write(self, path: str) -> None:
        assert (await self.call("write_file", path=path, content="echo written\n")).ok

    async def reason(self, command: str, **more: str) -> str:
        """Return why an approved line asks; empty where it does not."""
        found = await self.executor.explain("shell", {"command": command, **more})
        assert found.decision in (Decision.ASK, Decision.ALLOW)
        return found.reason if found.decision is Decision.ASK else ""


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[Room]:
    (tmp_path / "t.sh").write_text("#!/bin/sh\necho original\n")
    (tmp_path / "t.sh").chmod(0o755)
    (tmp_path / "s.py").write_text("print('original')\n")
    for folder in ("scripts", "evil"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "t.sh").write_text("echo original\n")
    workspace = Workspace(tmp_path)
    preset = configure(Options(workspace=tmp_path)).sources
    approvals = tuple(map(ApprovalPattern.parse, APPROVED))
    commands = CommandPolicy(read_only_commands=True, workspace=workspace, approvals=approvals)
    policy = PolicyEngine(PolicySources(preset.rule_sets, Decision.ASK, (), commands))
    registry = ToolRegistry()
    for tool in builtin_tools():
        registry.register(tool)
    bus = MessageBus()
    async with ToolExecutor(registry, policy, bus, workspace, attended=True) as executor:
        yield Room(executor, bus, tmp_path)


async def test_a_task_file_that_was_written_unasked_asks_before_it_runs(room: Room) -> None:
    for command in LINES:
        assert not await room.reason(command)
    await room.write("x/Makefile")
    assert not await room.reason("make test"), "another directory"
    for found in (await room.reason("cd x && make test"), await room.reason("make test", cwd="x")):
        assert found == "it may run x/Makefile, which was written by a call that nobody was asked about"
    assert await room.reason("make -C x test")
    await room.write("GNUmakefile")
    assert "GNUmakefile" in await room.reason("make test")
    await room.write("package.json")
    assert "package.json" in await room.reason("npm test")
    assert not await room.reason("./t.sh") and not await room.reason("touch x")


async def test_what_was_moved_into_place_asks_as_well(room: Room) -> None:
    await room.write("parts/package.json")
    assert (await room.call("move_file", **{"from": "parts", "to": "app"})).ok
    assert "app/package.json" in await room.reason("npm test", cwd="app")


@caged
async def test_code_that_changes_an_approved_program_does_not_get_it_run(room: Room) -> None:
    code = "echo evil >> t.sh; echo evil >> s.py; mv scripts old; mv evil scripts"
    assert (await room.call("run_code", language="bash", code=code)).ok
    assert "t.sh" in await room.reason("./t.sh")
    assert "s.py" in await room.reason("python3 s.py --all")
    assert "scripts/t.sh" in await room.reason("./scripts/t.sh"), "its directory was put in place"
    assert not await room.reason("cat t.sh"), "reading it is no running"


@caged
async def test_code_that_writes_elsewhere_changes_nothing(room: Room) -> None:
    code = "mkdir out; echo x > out/a; echo x > scripts/result.txt"
    assert (await room.call("run_code", language="bash", code=code)).ok
    for command in LINES:
        assert not await room.reason(command), command


async def test_new_tests_and_modules_ask_once_before_a_runner_loads_them(room: Room) -> None:
    for command in ("pytest -q", "python3 s.py -q"):
        assert not await room.reason(command)
    await room.write("README.md")
    await room.write("sub/package.json")
    assert not await room.reason("pytest -q"), "no code of its language"
    await room.write("tests/test_new.py")
    found = await room.reason("pytest -q")
    assert found == "it may run tests/test_new.py, which was written by a call that nobody was asked about"
    assert await room.reason("pytest -q", cwd="scripts"), "its root is looked for above"
    assert await room.reason("cd scripts && pytest -q") and await room.reason("make test")
    for name in ("b", "Cee", "d"):
        await room.write(f"tests/test_{name}.py")
    assert "tests/test_b.py, tests/test_Cee.py, tests/test_d.py and 1 more, which were" in await room.reason(
        "pytest -q"
    )
    assert await room.reason("python3 s.py -q"), "a module of that name would be loaded first"
    (room.root / "tests").rename(room.root / "gone")
    assert not await room.reason("pytest -q"), "what is gone is not loaded"
    (room.root / "gone").rename(room.root / "tests")
    answer_confirmations(room.bus, Answer())
    await room.call("shell", command="pytest -q")
    assert not await room.reason("pytest -q") and not await room.reason("python3 s.py -q")
    await room.write("tests/test_last.py")
    assert await room.reason("pytest -q")


async def test_a_folder_with_code_that_was_moved_asks_and_so_does_a_task_file_above(room: Room) -> None:
    (room.root / "evil" / "deep").mkdir()
    (room.root / "evil" / "deep" / "conftest.py").write_text("")
    assert (await room.call("move_file", **{"from": "evil", "to": "tests"})).ok
    assert "tests/deep/conftest.py" in await room.reason("pytest -q")
    await room.write("package.json")
    assert "package.json" in await room.reason("npm test", cwd="scripts"), "npm looks above"


async def test_a_configuration_written_unasked_asks_before_its_program_reads_it(room: Room) -> None:
    await room.write("pytest.ini")
    assert "it may run pytest.ini" in await room.reason("pytest -q")


async def test_what_would_make_it_ask_is_foretold(room: Room) -> None:
    for command, foretold in (("pytest -q", True), ("make test", True), ("touch x", False), ("ls", False)):
        found = await room.executor.explain("shell", {"command": command})
        assert found.decision is Decision.ALLOW
        assert (found.trace[-1].reason == ASKS_LATER) == foretold, command


def test_what_the_disk_did_not_take_is_known_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = InMemoryStore()
    writes = UnaskedWrites(store)

    def full(schema: Schema) -> NoReturn:
        raise StorageFailed("the disk is full")

    monkeypatch.setattr(store, "write", full)
    (tmp_path / "test_a.py").write_text("")
    with pytest.raises(StorageFailed):
        writes.note([tmp_path / "test_a.py"])
    assert writes.among([tmp_path / "test_a.py"]) == tmp_path / "test_a.py"
    assert writes.code_in([CodePlace(tmp_path, frozenset({".py"}))]) == [tmp_path / "test_a.py"]


async def test_once_approved_it_runs_again_unasked(room: Room) -> None:
    answers = answer_confirmations(room.bus, Answer())
    await room.write("GNUmakefile")
    (room.root / "GNUmakefile").write_text("test:\n\t@echo made\n")
    await room.call("shell", command="make test")
    assert len(answers) == 1 and not await room.reason("make test")


@pytest.mark.parametrize("mode", [Mode.YOLO, Mode.AUTO_EDIT])
async def test_what_a_mode_lets_be_written_is_not_held_against_it(room: Room, mode: Mode) -> None:
    room.executor.mode = mode
    edit = {"path": "s.py", "edits": [{"target": "original", "replacement": "changed"}]}
    assert (await room.call("edit_file", **edit)).ok
    assert not await room.reason("python3 s.py")


def test_it_is_forgotten_after_a_day(tmp_path: Path) -> None:
    clock = FakeClock()
    writes = UnaskedWrites(InMemoryStore(), clock)
    writes.note([tmp_path / "a", tmp_path / "folder"])
    assert writes.among([tmp_path / "b", tmp_path / "folder" / "x"]) == tmp_path / "folder" / "x"
    clock.advance(timedelta(days=1, seconds=1).total_seconds())
    assert writes.among([tmp_path / "a"]) is None
