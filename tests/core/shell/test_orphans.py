"""A program that is killed leaves no caged command and no code running, also where the kernel does not see to it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ollm_tui.core.sandbox.landlock import abi
from ollm_tui.core.sandbox.restricted_thread import ends_what_it_starts

pytestmark = pytest.mark.skipif(not abi(), reason="a kernel without landlock")

STUBBORN = "trap '' TERM HUP; setsid sleep 4345.5 & (setsid sleep 4345.5 &); sleep 4345.5"
"""A child that leaves the session, one that has lost its parents besides, and one that stays."""

UNTRACEABLE = f"(setsid env -i setsid sleep 4345.5 &); {STUBBORN}"
"""And one that has left its environment, too: only the cage still holds it."""

PROGRAM = """
import asyncio, os, signal, sys
from pathlib import Path
from ollm_tui.core.sandbox import landlock, look, restricted_thread
from ollm_tui.core.sandbox.look import LookCage
from ollm_tui.core.shell.hub import CommandHub, CommandRequest

async def main(folder, line):
    hub = CommandHub(folder)
    over = await hub.start(CommandRequest("true", folder, cage=LookCage([folder])))
    await asyncio.wrap_future(over.done)
    await hub.start(CommandRequest(line, folder, background=True, cage=LookCage([folder])))
    await hub.start(CommandRequest("exec sleep 4346.5", folder, background=True))
    await asyncio.sleep(600)

if sys.argv[3:]:
    landlock.abi = look.abi = restricted_thread.abi = lambda: int(sys.argv[3])
asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
"""


def running(command: str) -> Sequence[bytes]:
    return subprocess.run(["pgrep", "-fx", command], capture_output=True, check=False).stdout.split()


def until(condition: Callable[[], object]) -> None:
    for _ in range(1000):  # other processes give no event to wait for
        if condition():
            return
        threading.Event().wait(0.02)
    raise AssertionError("waited 20 s")


@pytest.mark.parametrize("version", ["6", "5"])
def test_caged_commands_end_with_a_killed_program_and_recorded_jobs_go_on(tmp_path: Path, version: str) -> None:
    if abi() < int(version):
        pytest.skip(f"landlock is older than {version}")
    line, count = (UNTRACEABLE, 4) if version == "6" else (STUBBORN, 3)
    with subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path), line, version]) as program:
        until(lambda: len(running("sleep 4345.5")) == count and running("sleep 4346.5"))
        program.kill()
    until(lambda: not running("sleep 4345.5"))
    assert running("sleep 4346.5")
    subprocess.run(["pkill", "-fx", "sleep 4346.5"], check=True)


@pytest.mark.parametrize(("sandbox", "code", "count"), [("landlock", UNTRACEABLE, 4), ("off", STUBBORN, 3)])
def test_code_ends_with_a_killed_program(tmp_path: Path, sandbox: str, code: str, count: int) -> None:
    if sandbox == "landlock" and not ends_what_it_starts():
        pytest.skip("landlock does not keep signals here")
    config = Path.home() / ".config/ollm-tui"
    config.mkdir(parents=True)
    (config / "config.toml").write_text(f'[policy.sandbox]\nmode = "{sandbox}"\n')
    arguments = json.dumps({"language": "bash", "code": code})
    line = [Path(sys.executable).parent / "ollm-tui", "tool", "call", "run_code", arguments, "--yes"]
    with subprocess.Popen(line, cwd=tmp_path, stdout=subprocess.DEVNULL) as program:
        until(lambda: len(running("sleep 4345.5")) == count)
        program.kill()
    until(lambda: not running("sleep 4345.5"))


def test_the_hook_of_a_commit_ends_with_a_killed_program(tmp_path: Path) -> None:
    lines = (["init", "-q", "."], ["config", "user.name", "a"], ["config", "user.email", "a@b"], ["add", "file"])
    (tmp_path / "file").write_text("one\n")
    for line in lines:
        subprocess.run(["git", *line], cwd=tmp_path, check=True)
    hook = tmp_path / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nsetsid sleep 4348.5 &\nsleep 4348.5\n")
    hook.chmod(0o755)
    commit = [Path(sys.executable).parent / "ollm-tui", "tool", "call", "git_commit", '{"message": "x"}', "--yes"]
    with subprocess.Popen(commit, cwd=tmp_path, stdout=subprocess.DEVNULL) as program:
        until(lambda: len(running("sleep 4348.5")) == 2)
        program.kill()
    until(lambda: not running("sleep 4348.5"))
