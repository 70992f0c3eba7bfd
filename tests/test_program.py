"""What `tests.program` runs is as what `python -m ollm_tui` starts."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import ROOT, program, program_server

KNOWN = {"HOME", "_PYTHON_PROJECT_BASE", "_PYTHON_SYSCONFIGDATA_NAME"}
"""What Python's `sysconfig` reads when it is loaded: where packages of this user would lie, and where Python was built."""

LOADS = """
import json, os, sys, threading
from collections.abc import MutableMapping
class Recorded(MutableMapping):
    def __init__(self, items): self.items, self.read = items, set()
    def __getitem__(self, key): self.read.add(key); return self.items[key]
    def __contains__(self, key): self.read.add(key); return key in self.items
    def __setitem__(self, key, value): raise AssertionError(key)
    def __delitem__(self, key): raise AssertionError(key)
    def __iter__(self): raise AssertionError("all of it")
    def __len__(self): return len(self.items)
os.environ = Recorded(os.environ)
sys.path.append(sys.argv[1])
from tests import program_server
before = set(os.listdir("/proc/self/fd"))
program_server.load()
print(json.dumps([sorted(os.environ.read), threading.active_count(), set(os.listdir("/proc/self/fd")) == before]))
"""

FORKS = """
import json, os, socket, sys
sys.path.append(sys.argv[1])
from tests import program_server
asks, answers = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
told, tells = socket.socketpair()
if os.fork() == 0:
    asks.close()
    start = program_server.serve(answers)
    sys.stdout.write(json.dumps([start.arguments, sorted(os.listdir("/proc/self/fd"))]) + chr(10))
    sys.stdout.flush()
    sys.stdin.read()  # lives until the second is there as well
    os._exit(int(start.arguments[0]))
holds, kept = os.pipe()
for number in ("3", "4"):
    request = {"arguments": [number], "environment": {}, "folder": "/"}
    socket.send_fds(asks, [json.dumps(request).encode()], [holds, 1, 2, tells.fileno()])
answers.close()
numbers = told.makefile()
pids = {int(numbers.readline()) for _ in range(2)}
os.close(kept)
print(json.dumps([sorted(int(numbers.readline()) for _ in range(2)), len(pids)]))
"""


forks = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="without them each program is started anew")


def started(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "ollm_tui", *arguments]
    variables = {**os.environ, "OLLM_PROBE": "0"}
    return subprocess.run(command, cwd=cwd, input=b"", capture_output=True, check=False, env=variables)


def shell(command: str) -> tuple[str, ...]:
    return ("tool", "call", "shell", json.dumps({"command": command}), "--yes")


def output(done: subprocess.CompletedProcess[bytes]) -> str:
    return str(json.loads(done.stdout)["data"]["output"])


@forks
def test_a_forked_program_has_the_signals_folder_group_and_variables_of_a_started_one(tmp_path: Path) -> None:
    tells = (
        "grep -E 'SigBlk|SigIgn|SigCgt|SigPnd|Umask' /proc/$PPID/status;"
        " readlink /proc/$PPID/cwd 2>&1; env | grep -v '^RUN_BY_OLLM_TUI=' | sort; ps -o pgid= -p $PPID"
    )
    forked = output(program.run(*shell(tells), cwd=tmp_path))
    assert forked == output(started(*shell(tells), cwd=tmp_path)) and "SigCgt" in forked
    named = output(program.run(*shell("tr '\\0' ' ' </proc/$PPID/cmdline"), cwd=tmp_path))
    assert Path(program_server.__file__).name in named, "or what is compared here was not forked at all"


@forks
def test_a_forked_program_has_no_descriptor_but_its_streams(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-c", FORKS, str(ROOT)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    *programs, codes = map(json.loads, done.stdout.splitlines())
    looking = "3"  # the listing's own
    assert sorted(programs) == [[["3"], ["0", "1", "2", looking]], [["4"], ["0", "1", "2", looking]]]
    assert codes == [[3, 4], 2]


@pytest.mark.parametrize(
    "arguments",
    [
        ("tool", "list"),
        ("tool", "call", "read_file", '{"path": "é.txt"}'),
        ("tool", "call", "nope", "{}"),
        ("run", "x", "--provider", "scripted", "--script", "/nowhere"),
        ("--nonsense",),
        ("tool", "--help"),
        (),
    ],
)
def test_it_says_and_returns_the_same(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    (tmp_path / "é.txt").write_text("ü\n")

    def told(done: subprocess.CompletedProcess[bytes]) -> tuple[int, bytes, bytes]:
        return done.returncode, re.sub(rb'"durationMs":\d+', b"", done.stdout), done.stderr

    assert told(program.run(*arguments, cwd=tmp_path)) == told(started(*arguments, cwd=tmp_path))


def test_a_signal_that_ends_it_is_its_exit_code_and_what_it_is_given_is_read(tmp_path: Path) -> None:
    assert program.run(*shell("kill -9 $PPID"), cwd=tmp_path).returncode == -signal.SIGKILL
    rows = b'{"name": "ls", "arguments": {}}\n' * 1000
    done = program.run("tool", "call", "--batch", "-", cwd=tmp_path, stdin=rows)
    assert (done.returncode, done.stdout.count(b"\n")) == (0, 1000)


def test_what_counts_when_python_starts_starts_it_anew(tmp_path: Path) -> None:
    done = program.run(*shell("tr '\\0' ' ' </proc/$PPID/cmdline"), cwd=tmp_path, environment={"PYTHONUTF8": "1"})
    assert "-m ollm_tui" in output(done)


def test_one_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program.run("tool", "list", cwd=tmp_path)  # so that the others are forked
    monkeypatch.setattr(program, "TIMEOUT", 1)
    with pytest.raises((TimeoutError, subprocess.TimeoutExpired)):
        program.run(*shell("sleep 61.5"), cwd=tmp_path)


def test_nothing_is_kept_of_the_environment_that_may_differ(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-c", LOADS, str(ROOT)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    names, threads, same_descriptors = json.loads(done.stdout)
    assert [name for name in names if name not in KNOWN and not name.startswith(program.AT_START)] == []
    assert (threads, same_descriptors) == (1, True)


def test_its_server_ends_with_whoever_asks(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; sys.path.append(sys.argv[1]); from pathlib import Path; from tests import program\n"
        "program.run('tool', 'list', cwd=Path('.'))\n"
        "print(open(f'/proc/self/task/{os.getpid()}/children').read(), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    command = [sys.executable, "-P", "-c", code, str(ROOT)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    [server] = done.stdout.split()
    deadline = time.monotonic() + 20
    while Path(f"/proc/{server}").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not Path(f"/proc/{server}").exists() or "Z" in Path(f"/proc/{server}/stat").read_text()
