"""Commands that take what they can get: processes, memory, disk and time."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.sandbox.bubblewrap import BubblewrapCage
from ollm_tui.core.sandbox.engines import WORK_ENGINES, Sandbox, SandboxMode, SandboxSettings, bubblewrap, work_report
from ollm_tui.core.sandbox.layout import CageLimits, WorkGrant
from ollm_tui.core.sandbox.restricted_thread import ends_what_it_starts
from ollm_tui.core.tools.run_code import RUN_CODE, RunCodeData
from tests.core.sandbox.work_room import Room
from tests.core.tools import file_calls
from tests.processes import wait_until_none_runs

works = pytest.mark.skipif(bool(bubblewrap().problem), reason=bubblewrap().problem or "bubblewrap works")
MODES = [SandboxMode(engine.name) for engine in WORK_ENGINES if not work_report(engine).problem]
WITH_TMP = [mode for mode in MODES if mode is not SandboxMode.LANDLOCK]


@pytest.mark.parametrize("mode", MODES)
def test_a_large_file_ends_at_its_limit(room: Room, mode: SandboxMode) -> None:
    room.settings = SandboxSettings(mode, limits=CageLimits(file_mb=8))
    (room.workspace / "plain").mkdir()
    assert room.run("head -c 10000000000 /dev/zero > plain/big")[0] != 0
    assert (room.workspace / "plain" / "big").stat().st_size == 8 << 20


@pytest.mark.parametrize("mode", MODES)
def test_private_memory_ends_at_its_limit(room: Room, mode: SandboxMode) -> None:
    room.settings = SandboxSettings(mode, limits=CageLimits(memory_mb=256))
    code, out = room.run("\"$PYTHON\" -c 'b = bytearray(1 << 30)'")
    assert code != 0 and "MemoryError" in out


@pytest.mark.parametrize("place", ["/dev/shm", "/tmp", "$HOME"])
@pytest.mark.parametrize("mode", WITH_TMP)
def test_what_is_kept_in_memory_ends_at_its_limit(room: Room, mode: SandboxMode, place: str) -> None:
    room.settings = SandboxSettings(mode, limits=CageLimits(tmp_mb=8))
    code, out = room.run(f"for i in 1 2 3; do head -c 4000000 /dev/zero > {place}/$i || exit 1; done")
    assert code == 1 and "No space left" in out


@pytest.mark.parametrize("place", ["/", "/dev", "/etc", "/var", "/proc"])
@pytest.mark.parametrize("mode", WITH_TMP)
def test_no_other_place_in_memory_can_be_written(room: Room, mode: SandboxMode, place: str) -> None:
    room.settings = SandboxSettings(mode)
    code, out = room.run(f"echo x > {place}/made")
    assert code != 0 and "made" in out
    assert room.run("echo x > /dev/null && head -c 8 /dev/urandom >/dev/null && echo x | cat /dev/stdin")[0] == 0


@works
@pytest.mark.skipif(os.getuid() != 0, reason="it starts a command as another user")
def test_a_fork_bomb_ends_at_its_limit_for_an_ordinary_user(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(tempfile.mkdtemp())
    monkeypatch.setattr(sys, "prefix", "/usr")  # the interpreter of these tests may be root's alone
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
    cage = BubblewrapCage("/usr/bin/bwrap", WorkGrant([folder], limits=CageLimits(pids=40)))
    try:
        bomb = "import os\nn = 0\ntry:\n while os.fork(): n += 1\n os.pause()\nexcept OSError: print(n)"
        argv = cage.command(
            ["/usr/bin/python3", "-c", bomb.replace("os.pause", "__import__('signal').pause")], environment
        )
        os.chown(folder, 65534, 65534)
        os.chmod(argv[argv.index("/etc") - 1], 0o755)  # what root's cage has there is root's alone
        ran = subprocess.run(
            argv, cwd=folder, env=environment, user=65534, group=65534, extra_groups=[], pass_fds=cage.passed,
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert 10 < int(ran.stdout) <= 40, ran.stderr
    finally:
        cage.close()
        shutil.rmtree(folder)


@pytest.mark.parametrize("mode", MODES)
def test_what_left_twice_with_nothing_and_ignores_every_signal_ends_with_the_code(
    tmp_path: Path, mode: SandboxMode
) -> None:
    if mode is SandboxMode.LANDLOCK and not ends_what_it_starts():
        pytest.skip("landlock does not keep signals here")
    room = file_calls.Room(tmp_path)
    context = replace(room.context, sandbox=Sandbox(SandboxSettings(mode)))
    seconds = f"46{MODES.index(mode)}6.{os.getpid()}"
    code = f"trap '' HUP INT QUIT TERM; (setsid env -i setsid sleep {seconds} &) >/dev/null 2>&1; sleep {seconds}"
    call = RUN_CODE.create_invocation({"language": "bash", "code": code, "timeout": 1}, context)
    result = asyncio.run(call.execute(AbortController().signal))
    assert isinstance(result.data, RunCodeData) and result.data.exit_code is None
    wait_until_none_runs(f"sleep {seconds}")
