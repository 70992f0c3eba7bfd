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

pytestmark = pytest.mark.skipif(not abi(), reason="a kernel without landlock")

STUBBORN = "trap '' TERM HUP; setsid sleep 4345.5 & (setsid sleep 4345.5 &); sleep 4345.5"
"""A child that leaves the session, one that has lost its parents besides, and one that stays."""

PROGRAM = """
import asyncio, os, signal, sys
from pathlib import Path
from ollm_tui.core.sandbox.look import LookCage
from ollm_tui.core.shell.hub import CommandHub, CommandRequest

async def main(folder, line):
    hub = CommandHub(folder)
    over = await hub.start(CommandRequest("true", folder, cage=LookCage([folder])))
    await asyncio.wrap_future(over.done)
    await hub.start(CommandRequest(line, folder, background=True, cage=LookCage([folder])))
    await hub.start(CommandRequest("exec sleep 4346.5", folder, background=True))
    await asyncio.sleep(600)

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


def test_caged_commands_end_with_a_killed_program_and_recorded_jobs_go_on(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path), STUBBORN]) as program:
        until(lambda: len(running("sleep 4345.5")) == 3 and running("sleep 4346.5"))
        program.kill()
    until(lambda: not running("sleep 4345.5"))
    assert running("sleep 4346.5")
    subprocess.run(["pkill", "-fx", "sleep 4346.5"], check=True)


@pytest.mark.parametrize("sandbox", ['engine = "landlock"', 'mode = "off"'])
def test_code_ends_with_a_killed_program(tmp_path: Path, sandbox: str) -> None:
    config = Path.home() / ".config/ollm-tui"
    config.mkdir(parents=True)
    (config / "policy.toml").write_text(f"[sandbox]\n{sandbox}\n")
    arguments = json.dumps({"language": "bash", "code": STUBBORN})
    line = [Path(sys.executable).parent / "ollm-tui", "tool", "call", "run_code", arguments, "--yes"]
    with subprocess.Popen(line, cwd=tmp_path, stdout=subprocess.DEVNULL) as program:
        until(lambda: len(running("sleep 4345.5")) == 3)
        program.kill()
    until(lambda: not running("sleep 4345.5"))
