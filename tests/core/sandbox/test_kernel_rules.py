"""What the kernel is told: rules that are kept between commands, and the filter of system calls."""

from __future__ import annotations

import errno
import os
import pty
import struct
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from ollm_tui.core.sandbox import look, seccomp
from ollm_tui.core.sandbox.look import LookCage
from ollm_tui.core.sandbox.seccomp import look_filter

needs_landlock = pytest.mark.skipif(not look.works(), reason="this kernel has no landlock")


def run(workspace: Path, command: str, terminal: str | None = None) -> tuple[int, str]:
    cage = LookCage([workspace])

    def start(environment: Mapping[str, str]) -> tuple[int, str]:
        line = ["/bin/sh", "-c", command]
        ran = subprocess.run(line, cwd=workspace, env=environment, capture_output=True, text=True, check=False)
        return ran.returncode, ran.stdout

    try:
        return cage.start(start, os.environ, terminal)
    finally:
        cage.close()


@needs_landlock
def test_kept_rules_are_not_of_what_lay_there_before(tmp_path: Path) -> None:
    workspace, old = tmp_path / "workspace", tmp_path / "old"
    workspace.mkdir()
    (workspace / "file").write_text("one\n")
    assert run(workspace, "cat file") == (0, "one\n")
    workspace.rename(old)
    workspace.mkdir()
    (workspace / "file").write_text("two\n")
    assert run(workspace, "cat file") == (0, "two\n")
    assert run(workspace, f"cat {old}/file")[0] != 0


@needs_landlock
def test_a_terminal_of_the_same_name_is_another_one(tmp_path: Path) -> None:
    said: list[tuple[int, str]] = []
    name = ""
    for granted in (True, False):
        for _ in range(500):  # another process may have taken the name meanwhile
            ours, its = pty.openpty()
            if os.ttyname(its) == (name or os.ttyname(its)):
                break
            os.close(ours)
            os.close(its)
            time.sleep(0.02)
        name = name or os.ttyname(its)
        said.append(run(tmp_path, f"exec 3<{name} && echo opened", name if granted else None))
        os.close(ours)
        os.close(its)
    assert said[0] == (0, "opened\n") and said[1][0] != 0


def test_the_filter_answers_each_call_as_its_tables_say() -> None:
    column = {"x86_64": 0, "aarch64": 1}[os.uname().machine]
    architecture = (0xC000003E, 0xC00000B7)[column]
    filtered = look_filter(signals=False)
    eperm = {row[column] for table in (seccomp.ALWAYS, seccomp.READING_ONLY, seccomp.SIGNALS) for row in table.values()}
    for number in range(600):
        action, error = answer(filtered, number, architecture)
        if number in seccomp.ABSENT.values():
            assert error == errno.ENOSYS, number
        elif number in eperm:
            assert error == errno.EPERM, number
        else:
            assert action == 0x7FFF0000, number
    assert answer(filtered, 0x40000000 + 39, architecture) == (0x50000, errno.ENOSYS)
    assert answer(filtered, 1, 0x40000003) == (0x80000000, 0)


def answer(program: bytes, number: int, architecture: int) -> tuple[int, int]:
    """Return action and error of a filter for a call whose arguments are zero."""
    data = {0: number, 4: architecture}
    instructions = list(struct.iter_unpack("HBBI", program))
    at = value = 0
    while True:
        code, when, otherwise, operand = instructions[at]
        match code:
            case 0x20:
                value, at = data.get(operand, 0), at + 1
            case 0x06:
                return operand & 0xFFFF0000, operand & 0xFFFF if operand >> 16 == 5 else 0
            case _:
                held = {0x15: value == operand, 0x35: value >= operand, 0x45: bool(value & operand)}[code]
                at += 1 + (when if held else otherwise)


def test_older_kernels_refuse_signals_by_number() -> None:
    assert len(look_filter(signals=False)) > len(look_filter(signals=True))
