"""Without a dashboard jobs end with the program, however it ends, and are named (contract, `shell`)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ollm_tui.core.sandbox.engines import bubblewrap
from ollm_tui.core.sandbox.restricted_thread import ends_what_it_starts
from tests.core.shell.conftest import alive

SECONDS = f"91.{os.getpid()}"
"""No other run's of these tests, which may be on this machine at the same time."""
JOB = {"name": "shell", "arguments": {"command": f"setsid sleep {SECONDS} & sleep 92; wait", "background": True}}


def start(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "ollm_tui", *arguments],
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OLLM_PROBE": "0"},
    )


def first_line(process: subprocess.Popen[str]) -> dict[str, dict[str, int]]:
    assert process.stdout is not None
    answer = json.loads(process.stdout.readline())
    assert isinstance(answer, dict)
    return answer


@pytest.mark.parametrize("number", [None, signal.SIGINT, signal.SIGTERM])
def test_a_batch_ends_and_names_its_jobs(tmp_path: Path, number: signal.Signals | None) -> None:
    batch = start("tool", "call", "--batch", "-", "--yes", cwd=tmp_path)
    assert batch.stdin is not None
    batch.stdin.write(json.dumps(JOB) + "\n")
    batch.stdin.flush()
    pid = first_line(batch)["data"]["pid"]
    assert alive(pid)
    if number is not None:
        batch.send_signal(number)
        batch.wait(20)  # before its standard input is closed, which would end it, too
    _, said = batch.communicate(timeout=30)
    assert batch.returncode == (0 if number is None else 130)
    assert f"ended with this process: j1 (pid {pid}): {JOB['arguments']['command']}" in said
    assert not alive(pid)
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if _read(path) == f"sleep\0{SECONDS}\0".encode()]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_a_headless_turn_ends_and_names_its_jobs_with_their_control_characters_visible(tmp_path: Path) -> None:
    command = "sleep 93 # \x1b]0;title\x07"
    script = [
        {"toolCalls": [{"name": "shell", "arguments": {"command": command, "background": True}}]},
        {"text": "Up."},
    ]
    (tmp_path / "script.json").write_text(json.dumps(script))
    turn = start("run", "go", "--provider", "scripted", "--script", "script.json", "--mode", "yolo", cwd=tmp_path)
    _, said = turn.communicate(timeout=30)
    assert turn.returncode == 0
    [named] = [line for line in said.splitlines() if line.startswith("ended with this process: j1 (pid ")]
    assert "sleep 93" in named and "\x1b" not in said
    pid = int(named.partition("pid ")[2].partition(")")[0])
    assert not alive(pid)


@pytest.mark.skipif(bool(bubblewrap().problem), reason=bubblewrap().problem or "bubblewrap works")
@pytest.mark.parametrize("tool", ["shell", "run_code"])
@pytest.mark.parametrize("engine", ["bubblewrap", "landlock"])
def test_kill_9_in_the_middle_of_a_caged_command_leaves_nothing(tmp_path: Path, tool: str, engine: str) -> None:
    if engine == "landlock" and not ends_what_it_starts():
        pytest.skip("landlock does not keep signals here")
    workspace, seconds = tmp_path / "ws", f"45{len(tool)}{len(engine)}.{os.getpid()}"
    (workspace / "sub").mkdir(parents=True)
    (workspace / "sub" / "file").write_text("one\n")
    (workspace / ".env").write_text("KEY=1\n")
    git(workspace, "init", "-q", ".")
    git(workspace, "add", ".")
    git(workspace, "commit", "-qm", "first")
    (workspace / "sub" / "file").write_text("two\n")
    command = f"(setsid env -i setsid sleep {seconds} &); git status >/dev/null; touch sub/ready; sleep {seconds}"
    arguments = {"command": command} if tool == "shell" else {"language": "bash", "code": command}
    (tmp_path / "script.json").write_text(json.dumps([{"toolCalls": [{"name": tool, "arguments": arguments}]}]))
    (tmp_path / "p.toml").write_text(f'[sandbox]\nmode = "{engine}"\n[[rules]]\ntool = "*"\naction = "allow"\n')
    before = (files_of(workspace), git(workspace, "status", "--porcelain"), git(workspace, "fsck"))
    own = ("--provider", "scripted", "--script", str(tmp_path / "script.json"), "--mode", "yolo")
    program = start("run", "go", *own, "--policy", str(tmp_path / "p.toml"), cwd=workspace)
    try:
        assert happens((workspace / "sub" / "ready").exists), program.communicate(timeout=5)
        assert running(seconds)
    finally:
        program.kill()
        program.communicate()
    assert happens(lambda: not running(seconds)), running(seconds)
    (workspace / "sub" / "ready").unlink()
    assert (files_of(workspace), git(workspace, "status", "--porcelain"), git(workspace, "fsck")) == before


def running(seconds: str) -> str:
    found = subprocess.run(["pgrep", "-af", f"sleep {seconds}"], capture_output=True, text=True, check=False)
    return found.stdout


def happens(condition: Callable[[], object], within: float = 20.0) -> bool:
    """Wait until something holds; return whether it did."""
    end = time.monotonic() + within
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return bool(condition())


def files_of(folder: Path) -> list[tuple[Path, int, int]]:
    found = ((path, path.lstat()) for path in folder.rglob("*") if path.name != "index")
    return sorted((path, status.st_mode, 0 if path.is_dir() else status.st_size) for path, status in found)


def git(folder: Path, *arguments: str) -> str:
    line = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    return subprocess.run(line, cwd=folder, check=True, capture_output=True, text=True).stdout
