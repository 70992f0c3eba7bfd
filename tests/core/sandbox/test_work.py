"""The cage of what works (contract section 8): each row beside the same command outside, so that none passes for nothing."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from ollm_tui.core import PolicyConfig, PolicyEngine
from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.base.errors import SandboxUnavailable
from ollm_tui.core.base.results import ExecutionPlace, ToolResult
from ollm_tui.core.bus.confirmation import ConfirmationRequest
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.execution.calls import CallRecord
from ollm_tui.core.execution.executor import ToolExecutor
from ollm_tui.core.execution.options import AutoAnswer, ExecutorOptions
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.policy.lint import lint
from ollm_tui.core.policy.policy_file import load_policy
from ollm_tui.core.policy.rules import Decision
from ollm_tui.core.sandbox import engines
from ollm_tui.core.sandbox.bubblewrap import BubblewrapCage
from ollm_tui.core.sandbox.engines import Sandbox, SandboxMode, SandboxSettings, bubblewrap
from ollm_tui.core.sandbox.layout import CageLimits, WorkGrant
from ollm_tui.core.tools.context import ToolContext
from ollm_tui.core.tools.registry import ToolRegistry
from ollm_tui.core.tools.run_code import RUN_CODE
from ollm_tui.core.tools.shell import SHELL
from ollm_tui.core.tools.write_file import WRITE_FILE
from ollm_tui.options import Options
from ollm_tui.runtime.configuration import configure
from ollm_tui.runtime.core import audit_entry
from ollm_tui.testing import Answer, answer_confirmations
from tests.core.sandbox.work_room import IDENTITY, TCP, Room
from tests.processes import wait_until_none_runs

pytestmark = pytest.mark.skipif(bool(bubblewrap().problem), reason=bubblewrap().problem or "bubblewrap works")


def test_exit_codes_pass(room: Room) -> None:
    assert [room.run(line)[0] for line in ("exit 3", "kill -TERM $$", "kill -9 $$")] == [3, 143, 137]


def test_no_descriptor_and_no_private_folder_remain(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(room.root))
    before = len(os.listdir("/proc/self/fd"))
    code, out = room.run("ls /proc/self/fd | wc -l")
    assert (code, out.strip()) == (0, "4"), out  # 0 to 2 and the listing's own
    assert not list(room.root.glob("ollm-*")) and len(os.listdir("/proc/self/fd")) == before


def test_what_left_its_session_ends_with_the_cage(room: Room) -> None:
    code, _ = room.run("(setsid sleep 4242.5 &) ; true")
    assert code == 0
    wait_until_none_runs("sleep 4242.5")


def test_a_worktree_is_read_and_its_repository_not_written(room: Room) -> None:
    tree = room.root / "tree"
    subprocess.run(["git", "worktree", "add", "-q", str(tree)], cwd=room.workspace, check=True)
    cage = Sandbox().work_cage(Workspace(tree))
    try:
        argv = cage.command(
            ["/bin/bash", "-c", f"git log --oneline && {IDENTITY} commit --allow-empty -m x"], os.environ
        )
        ran = subprocess.run(argv, cwd=tree, pass_fds=cage.passed, capture_output=True, text=True, check=False)
    finally:
        cage.close()
    assert "first" in ran.stdout and ran.returncode != 0 and "Read-only" in ran.stderr


def test_a_protected_link_is_covered_where_it_leads(room: Room) -> None:
    (room.workspace / "real").write_text("x\n")
    (room.workspace / ".npmrc").symlink_to("real")
    assert room.run("echo y > .npmrc")[0] != 0
    assert (room.workspace / "real").read_text() == "x\n"


def test_limits_hold(room: Room) -> None:
    room.settings = replace(room.settings, limits=CageLimits(memory_mb=256, tmp_mb=16, file_mb=32))
    assert room.run("\"$PYTHON\" -c 'b = bytearray(1 << 30)'")[0] != 0
    assert room.run("head -c 20000000 /dev/zero > /tmp/big")[0] != 0
    assert room.run("head -c 50000000 /dev/zero > big")[0] != 0
    assert (room.workspace / "big").stat().st_size <= 32 << 20


def test_with_the_network_services_of_this_machine_are_reached(room: Room) -> None:
    room.settings = replace(room.settings, network=True)
    code, out = room.run(TCP)
    assert code == 0, out


def test_git_can_commit_where_the_settings_say_so_and_its_configuration_stays(room: Room) -> None:
    room.settings = replace(room.settings, git_writable=True)
    assert room.run(f"{IDENTITY} commit -q --allow-empty -m second")[0] == 0
    for command in ("git config core.fsmonitor true", "echo x > .git/hooks/pre-commit", "mv .git .git2"):
        assert room.run(command)[0] != 0


def test_what_the_person_protects_is_not_written(room: Room) -> None:
    fence = Workspace(room.workspace, protected_patterns=["fi*"])
    cage = Sandbox().work_cage(fence)
    try:
        argv = cage.command(["/bin/bash", "-c", "cat file && echo x > file"], os.environ)
        ran = subprocess.run(
            argv, cwd=room.workspace, pass_fds=cage.passed, capture_output=True, text=True, check=False
        )
    finally:
        cage.close()
    assert ran.stdout == "one\n" and "Read-only" in ran.stderr


def test_bound_directories_are_there(room: Room) -> None:
    for name in ("shared", "fixed"):
        (room.root / name).mkdir()
    room.settings = replace(room.settings, bind=(str(room.root / "shared"), f"{room.root / 'fixed'}:ro"))
    room.facts["ROOT"] = room.root
    assert room.run('touch "$ROOT/shared/x"')[0] == 0
    assert room.run('ls "$ROOT/fixed"')[0] == 0
    assert room.run('touch "$ROOT/fixed/x"')[0] != 0


@pytest.mark.parametrize("problem", ["not installed", "fails"])
def test_without_an_engine_nothing_runs(
    room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: str
) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho no permission to make a namespace >&2\nexit 1\n")
    broken.chmod(0o755)
    found = None if problem == "not installed" else str(broken)

    def which(name: str, path: str | None = None) -> str | None:
        return found

    monkeypatch.setattr(shutil, "which", which)
    sandbox = Sandbox(SandboxSettings(mode=SandboxMode.BUBBLEWRAP))
    assert not sandbox.works
    with pytest.raises(SandboxUnavailable, match="installed" if found is None else "no permission"):
        sandbox.work_cage(Workspace(room.workspace))


def test_a_probe_that_held_is_not_run_again_while_its_program_is_the_same(tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    program.write_text(f'#!/bin/sh\necho ran >> {tmp_path}/runs\nexec {BubblewrapCage.locate()} "$@"\n')
    program.chmod(0o755)
    process = "import sys; from ollm_tui.core.sandbox.engines import BubblewrapCage, bubblewrap"
    process += "; BubblewrapCage.locate = classmethod(lambda cls: sys.argv[1]); sys.exit(bubblewrap().problem or None)"
    runs: list[int] = []
    for _ in range(2):
        for _ in range(2):
            subprocess.run([sys.executable, "-c", process, str(program)], check=True)
        runs.append(len((tmp_path / "runs").read_text().splitlines()))
        os.utime(program, (1, 1))
    assert runs == [1, 2]


def test_a_killed_program_leaves_nothing_that_runs(room: Room) -> None:
    line = "import os, subprocess, sys; subprocess.Popen(sys.argv[1:], close_fds=False); print('up', flush=True); sys.stdin.read()"
    cage = BubblewrapCage("/usr/bin/bwrap", WorkGrant([room.workspace]))
    try:
        argv = cage.command(["/bin/bash", "-c", "setsid sleep 4343.5 & sleep 4343.5"], os.environ)
        with subprocess.Popen(
            [sys.executable, "-c", line, *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=room.workspace,
            pass_fds=cage.passed,
        ) as program:
            assert program.stdout is not None
            assert program.stdout.readline() == b"up\n"
            _until(lambda: _count("sleep 4343.5") >= 2)
            program.send_signal(signal.SIGKILL)
        _until(lambda: _count("sleep 4343.5") == 0)
        assert subprocess.run(["git", "status"], cwd=room.workspace, capture_output=True, check=False).returncode == 0
    finally:
        cage.close()


def _count(command: str) -> int:
    found = subprocess.run(["pgrep", "-fx", command], capture_output=True, check=False)
    return len(found.stdout.split())


def _until(condition: object) -> None:
    assert callable(condition)
    wait = threading.Event()
    for _ in range(600):
        if condition():
            return
        wait.wait(0.05)
    raise AssertionError("it did not come to that")


@pytest.mark.parametrize("table", [
    'mode = "auto"\nnetwork = true\nbind = ["/a", "/b:ro"]\nmemory_mb = 512',
    'mode = "auto"\nnetworkAccess = true\nbindMounts = ["/a", "/b:ro"]\nmaxMemoryMb = 512',
])  # fmt: skip
def test_settings_have_two_spellings(tmp_path: Path, table: str) -> None:
    (tmp_path / "policy.toml").write_text(f'[sandbox]\n{table}\ngit = "rw"\npids = 99\ntmp_mb = 7\n')
    found = configure(Options(workspace=tmp_path, policy_file=tmp_path / "policy.toml"))
    limits = CageLimits(memory_mb=512, pids=99, tmp_mb=7)
    assert found.policy_error is None
    assert found.sandbox == SandboxSettings(SandboxMode.AUTO, True, True, ("/a", "/b:ro"), limits)


def test_lint_says_which_keys_have_no_effect() -> None:
    text = '[sandbox]\ncpu_percent = 50\nimage = "x"\n'
    findings = lint([load_policy(tomllib.loads(text), text, "p.toml", "policy file")], ())
    assert [finding.message.split(":")[0] for finding in findings] == ["[sandbox] cpu_percent", "[sandbox] image"]


@pytest.mark.parametrize(("mode", "code"), [(SandboxMode.OFF, 0), (SandboxMode.AUTO, 1)])
def test_the_mode_says_where_an_allowed_command_runs(tmp_path: Path, mode: SandboxMode, code: int) -> None:
    (tmp_path / ".env").write_text("KEY=1\n")

    async def run() -> ToolResult:
        context = ToolContext(bus=MessageBus(), workspace=Workspace(tmp_path), sandbox=Sandbox(SandboxSettings(mode)))
        try:
            call = SHELL.create_invocation({"command": "echo KEY=2 > .env && test -t 1 && echo done"}, context)
            preview = await (await call.question()).preview()
            assert preview is not None and preview.kind == "command" and preview.place is call.place
            return await call.execute(AbortController().signal)
        finally:
            await context.defaults.aclose()

    result = asyncio.run(run())
    assert result.exit_code == code
    assert (tmp_path / ".env").read_text() == ("KEY=2\n" if code == 0 else "KEY=1\n")
    if code:
        assert "[blocked by the cage: " in result.for_model() and "Read-only" in result.llm_content


async def test_what_no_cage_could_hold_ran_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BubblewrapCage, "locate", lambda: "")
    records: list[CallRecord] = []
    registry = ToolRegistry()
    registry.register(SHELL)
    context = ToolContext(bus=MessageBus(), sandbox=Sandbox(SandboxSettings(SandboxMode.BUBBLEWRAP)))
    options = ExecutorOptions(context=context, on_record=records.append, auto_answer=AutoAnswer.YES)
    policy = PolicyEngine(PolicyConfig(default_action=Decision.ALLOW, rules=[]))
    async with ToolExecutor(registry, policy, MessageBus(), Workspace(tmp_path), options=options) as executor:
        result = await executor.execute("shell", {"command": "touch made"})
    await context.defaults.aclose()
    assert result.error is not None and result.error.type == SandboxUnavailable.type
    assert result.place is None and records[-1].place is None and not (tmp_path / "made").exists()


@pytest.mark.parametrize("mode", [SandboxMode.OFF, SandboxMode.AUTO])
async def test_a_result_and_its_record_say_where_it_ran(tmp_path: Path, mode: SandboxMode) -> None:
    records: list[CallRecord] = []
    registry = ToolRegistry()
    registry.register(SHELL)
    policy = PolicyEngine(PolicyConfig(default_action=Decision.ALLOW, rules=[]))
    context = ToolContext(bus=MessageBus(), sandbox=Sandbox(SandboxSettings(mode)))
    options = ExecutorOptions(context=context, on_record=records.append, auto_answer=AutoAnswer.YES)
    async with ToolExecutor(registry, policy, MessageBus(), Workspace(tmp_path), options=options) as executor:
        result = await executor.execute("shell", {"command": "touch made"})
    await context.defaults.aclose()
    place = ExecutionPlace.THIS_MACHINE if mode is SandboxMode.OFF else ExecutionPlace.WORK_CAGE
    assert result.place is place and records[-1].place is place and records[0].place is None
    assert audit_entry(records[-1]).place is place


def repository(tmp_path: Path) -> tuple[Path, Path]:
    """Make one; returns it and a file in it that the cage does not let be made."""
    subprocess.run(["git", "init", "-q", str(tmp_path / "work")], check=True)
    return tmp_path / "work", tmp_path / "work" / ".git" / "made"


def attended(tmp_path: Path, *answers: Answer) -> tuple[ToolExecutor, list[ConfirmationRequest]]:
    registry = ToolRegistry()
    for tool in (SHELL, RUN_CODE, WRITE_FILE):
        registry.register(tool)
    bus = MessageBus()
    policy = PolicyEngine(PolicyConfig(default_action=Decision.ASK, rules=[]))
    return ToolExecutor(registry, policy, bus, Workspace(tmp_path), True), answer_confirmations(bus, *answers)


async def test_an_answer_can_say_that_it_runs_in_the_cage_and_a_refusal_there_is_offered(tmp_path: Path) -> None:
    work, outside = repository(tmp_path)
    executor, asked = attended(work, Answer(caged=True), Answer(caged=True), Answer(), Answer(caged=True))
    async with executor:
        inside = await executor.execute("shell", {"command": "echo x > made"})
        assert inside.error is None and inside.place is ExecutionPlace.WORK_CAGE and (work / "made").exists()
        again = await executor.execute("shell", {"command": "touch .git/made"})
        assert again.error is None and again.place is ExecutionPlace.THIS_MACHINE and outside.exists()
        assert [request.details.cage_problem for request in asked] == ["", "", "it was refused there"]
        assert "the cage refused it" in asked[2].reason and "let it run again outside" in " ".join(again.notes)
        refused = await executor.execute("write_file", {"path": "f", "content": "x"})
        assert refused.error is not None and refused.error.type == "SandboxUnavailableError"
        assert not (work / "f").exists()


async def test_code_that_the_cage_refused_something_is_offered_too(tmp_path: Path) -> None:
    work, outside = repository(tmp_path)
    executor, asked = attended(work, Answer(), Answer())
    async with executor:
        code = f"open({str(outside)!r}, 'w')\nprint('done')"
        result = await executor.execute("run_code", {"language": "python", "code": code})
    assert result.error is None and outside.exists() and len(asked) == 2


async def test_an_answer_for_the_cage_never_runs_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executor, asked = attended(tmp_path, Answer(caged=True))
    monkeypatch.setattr(engines, "WORK_ENGINES", ())
    async with executor:
        result = await executor.execute("shell", {"command": "touch made"})
    assert asked[0].details.cage_problem
    assert result.error is not None and result.error.type == "SandboxUnavailableError"
    assert not (tmp_path / "made").exists()


async def test_where_a_yes_leads_to_the_cage_there_is_no_other_to_choose(tmp_path: Path) -> None:
    registry = ToolRegistry()
    registry.register(SHELL)
    bus = MessageBus()
    asked = answer_confirmations(bus, Answer(), Answer(caged=True))
    policy = PolicyEngine(PolicyConfig(default_action=Decision.ASK, rules=[]))
    context = ToolContext(bus=bus, sandbox=Sandbox(SandboxSettings(SandboxMode.AUTO)))
    options = ExecutorOptions(context=context)
    async with ToolExecutor(registry, policy, bus, Workspace(tmp_path), True, options=options) as executor:
        for number in range(2):
            result = await executor.execute("shell", {"command": f"touch made{number}"})
            assert result.error is None and result.place is ExecutionPlace.WORK_CAGE
    await context.defaults.aclose()
    assert [request.details.cage_problem for request in asked] == [None, None]
