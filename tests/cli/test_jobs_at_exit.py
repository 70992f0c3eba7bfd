"""Without a dashboard jobs end with the program, however it ends, and are named (contract, `shell`)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.core.shell.conftest import alive

JOB = {"name": "shell", "arguments": {"command": "setsid sleep 91 & sleep 92; wait", "background": True}}


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
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if _read(path) == b"sleep\0" + b"91\0"]


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
