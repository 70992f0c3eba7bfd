"""The hub: looking at, typing into and ending live commands, the person's own shell among them."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from pathlib import Path

import pytest

from ollm_tui.core.shell.hub import CommandHub, CommandRequest, UnknownCommandError, awaitable_of
from ollm_tui.core.shell.output_log import BACKLOG
from ollm_tui.core.shell.pty_process import StartError
from ollm_tui.core.shell.status import CommandKind, CommandPhase, CommandStatus
from tests.core.shell.conftest import Bench, alive, data_of, in_session, runs_in, until


class Screen:
    """Takes what a terminal tab would be given."""

    def __init__(self) -> None:
        self.data = b""

    def __call__(self, data: bytes) -> None:
        self.data += data


async def test_the_person_types_into_the_agents_command(bench: Bench) -> None:
    """An agent's tab is the same terminal as its command: the model runs a `read`, the person answers it."""
    call = asyncio.ensure_future(bench.attended().shell("read -p 'name? ' x; echo got $x"))
    await until(bench.hub.list)
    [state] = bench.hub.list()
    screen = Screen()
    bench.hub.find(state.id).output.attach(screen)
    await until(lambda: b"name? " in screen.data)
    await until(lambda: bench.hub.find(state.id).status.waiting_for_input)
    assert bench.hub.find(state.id).write(b"Ada\n")
    result = await call
    assert data_of(result).output == "name? Ada\ngot Ada\n"
    assert not bench.hub.find(state.id).status.waiting_for_input
    assert screen.data == b"name? Ada\r\ngot Ada\r\n"


@pytest.mark.parametrize(
    "command",
    [
        "cat | cat",
        "python3 -c 'input()'",
        "python3 -c 'import getpass; getpass.getpass()'",
        "bash -c 'read -n1 x'",
        "sleep 0.3; head -1",
    ],
)
async def test_waiting_for_input_is_told_whoever_in_the_line_reads(bench: Bench, command: str) -> None:
    live = await bench.hub.start(CommandRequest(command, bench.root, attended=True))
    await until(lambda: live.status.waiting_for_input)
    live.end()
    assert not (await awaitable_of(live.done)).waiting_for_input


@pytest.mark.parametrize(
    "command", ["sleep 30", "while :; do :; done", "sleep 30 | cat", "python3 -c 'import time; time.sleep(30)'"]
)
async def test_silence_alone_is_not_taken_for_waiting(bench: Bench, command: str) -> None:
    live = await bench.hub.start(CommandRequest(command, bench.root, attended=True))
    await asyncio.sleep(0.7)
    assert live.status.running
    assert not live.status.waiting_for_input


async def test_every_change_is_told_in_the_event_loop(bench: Bench) -> None:
    told: list[CommandStatus] = []
    threads: set[str] = set()

    def hear(state: CommandStatus) -> None:
        told.append(state)
        threads.add(threading.current_thread().name)

    stop = bench.hub.subscribe(hear)
    await bench.attended().shell("exit 3")
    await until(lambda: told and told[-1].phase is CommandPhase.EXITED)
    assert told[0].pid
    assert told[-1].exit_code == 3
    assert told[-1].call_id == "call-1"
    assert threads == {threading.current_thread().name}
    stop()
    count = len(told)
    await bench.shell("true")
    await asyncio.sleep(0.05)
    assert len(told) == count


async def test_who_attaches_late_sees_what_was_there_and_all_that_follows(bench: Bench) -> None:
    live = await bench.hub.start(
        CommandRequest("echo early; until [ -e go ]; do sleep 0.02; done; seq 1 20000", bench.root, attended=True)
    )
    await until(lambda: live.output.size)
    screens = [Screen() for _ in range(20)]
    for screen in screens[:10]:
        bench.hub.find("c1").output.attach(screen)
    (bench.root / "go").touch()
    for screen in screens[10:]:
        bench.hub.find("c1").output.attach(screen)
        await asyncio.sleep(0.001)
    await awaitable_of(live.done)
    expected = b"early\r\n" + b"".join(b"%d\r\n" % number for number in range(1, 20_001))
    assert [screen.data == expected for screen in screens] == [True] * 20
    after = Screen()
    bench.hub.find("c1").output.attach(after)
    assert after.data == expected


async def test_the_backlog_is_bounded_and_starts_with_a_whole_line(bench: Bench) -> None:
    await bench.attended().shell("seq 1 200000")
    screen = Screen()
    bench.hub.find("c1").output.attach(screen)
    assert BACKLOG * 0.9 < len(screen.data) < BACKLOG * 3
    first = int(screen.data.split(b"\r\n")[0])
    assert screen.data == b"".join(b"%d\r\n" % number for number in range(first, 200_001))


async def test_who_has_detached_hears_nothing_and_who_fails_harms_nobody(bench: Bench) -> None:
    live = await bench.hub.start(
        CommandRequest("until [ -e go ]; do sleep 0.02; done; seq 1 9", bench.root, attended=True)
    )
    gone, well = Screen(), Screen()

    def faulty(data: bytes) -> None:
        raise ValueError("a screen that broke")

    bench.hub.find("c1").output.attach(gone)()
    bench.hub.find("c1").output.attach(faulty)
    bench.hub.find("c1").output.attach(well)
    (bench.root / "go").touch()
    assert (await awaitable_of(live.done)).exit_code == 0
    assert gone.data == b""
    assert well.data.startswith(b"1\r\n2\r\n")


async def test_typing_never_waits_although_nobody_reads(bench: Bench) -> None:
    live = await bench.hub.start(
        CommandRequest("stty raw -echo; echo ready; sleep 60; wc -c", bench.root, attended=True)
    )
    await until(lambda: live.output.size)
    began = time.monotonic()
    for _ in range(200):
        assert bench.hub.find("c1").write(b"x" * 1000)
    assert time.monotonic() - began < 20
    # In raw mode there is no end of input to send, so the reader is ended from outside.
    bench.hub.find("c1").interrupt()
    await asyncio.sleep(0.2)
    assert live.status.running


async def test_ctrl_c_ends_the_foreground_and_only_that(bench: Bench) -> None:
    live = await bench.hub.start(CommandRequest("bash -c 'sleep 30'; echo after", bench.root, attended=True))
    await until(lambda: live.status.pid and runs_in(live.status.pid, "sleep"))
    bench.hub.find("c1").interrupt()
    state = await awaitable_of(live.done)
    assert state.exit_code == 130
    alone = await bench.hub.start(
        CommandRequest("trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.05; done", bench.root)
    )
    await until(lambda: alone.output.size)
    bench.hub.find("c2").interrupt()
    assert (await awaitable_of(alone.done)).exit_code == 9


async def test_a_resize_reaches_the_program(bench: Bench) -> None:
    live = await bench.hub.start(
        CommandRequest("trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done", bench.root, attended=True)
    )
    screen = Screen()
    bench.hub.find("c1").output.attach(screen)
    await until(lambda: b"ready" in screen.data)
    bench.hub.find("c1").resize(77, 33)
    await until(lambda: b"33 77" in screen.data)
    live.end()
    await awaitable_of(live.done)
    bench.hub.find("c1").resize(80, 24)


async def test_a_program_is_told_the_pixels_of_its_terminal_too(bench: Bench) -> None:
    """Programs that draw pictures give up where there are none."""
    ask = "import fcntl, struct, termios; print(*struct.unpack('4H', fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8))))"
    line = (
        f'ask() {{ {sys.executable} -c "{ask}"; }}; ask; until [ "$(stty size)" = "33 77" ]; do sleep 0.05; done; ask'
    )
    live = await bench.hub.start(CommandRequest(line, bench.root, attended=True))
    screen = Screen()
    bench.hub.find("c1").output.attach(screen)
    await until(lambda: b"40 120 1200 800" in screen.data)
    bench.hub.find("c1").resize(77, 33)
    await awaitable_of(live.done)
    assert b"33 77 770 660" in screen.data


async def test_what_takes_no_input_says_so(bench: Bench) -> None:
    await bench.hub.start(CommandRequest("sleep 30", bench.root))
    assert not bench.hub.find("c1").write(b"x")
    await bench.hub.kill("c1")
    over = await bench.attended().shell("true")
    assert not bench.hub.find(data_of(over).id).write(b"x")


async def test_an_unknown_id_names_the_known_ones(bench: Bench) -> None:
    await bench.shell("true")
    for use in (
        lambda: bench.hub.find("c9").write(b""),
        lambda: bench.hub.find("c9").output.attach(print),
        lambda: bench.hub.find("c9").resize(80, 24),
        lambda: bench.hub.find("c9").interrupt(),
        lambda: bench.hub.find("c9").status,
    ):
        with pytest.raises(UnknownCommandError, match=r"c9.*known: c1"):
            use()
    with pytest.raises(UnknownCommandError):
        await bench.hub.kill("c9")


async def test_finished_commands_are_kept_until_newer_ones_are_over(tmp_path: Path) -> None:
    hub = CommandHub(tmp_path, keep=3)
    for _ in range(5):
        live = await hub.start(CommandRequest("echo kept", tmp_path))
        await awaitable_of(live.done)
    await until(lambda: len(hub.list()) == 3)
    assert [state.id for state in hub.list()] == ["c3", "c4", "c5"]
    screen = Screen()
    hub.find("c3").output.attach(screen)
    assert screen.data == b"kept\n"
    await hub.close()


async def test_a_command_that_can_not_be_started_leaves_no_entry(tmp_path: Path) -> None:
    hub = CommandHub(tmp_path)
    with pytest.raises(StartError, match="no-such-program"):
        await hub.start(CommandRequest("x", tmp_path, argv=["/no-such-program"]))
    with pytest.raises(StartError):
        await hub.start(CommandRequest("true", tmp_path / "missing"))
    assert hub.list() == ()
    await hub.close()


async def test_a_hub_without_a_folder_leaves_none_behind() -> None:
    hub = CommandHub()
    live = await hub.start(CommandRequest("seq 1 200000", Path("/")))
    await awaitable_of(live.done)
    folder = hub.log_folder()
    assert len(list(folder.iterdir())) == 1
    await hub.close()
    assert not folder.exists()


async def test_logs_are_for_the_owner_only(bench: Bench) -> None:
    await bench.shell("seq 1 200000")
    logs = list(bench.hub.log_folder().iterdir())
    assert logs
    assert {log.stat().st_mode & 0o777 for log in logs} == {0o600}


async def test_a_full_disk_ends_the_log_and_not_the_command(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    hub = CommandHub(blocked / "logs")
    live = await hub.start(CommandRequest("seq 1 200000", tmp_path))
    state = await awaitable_of(live.done)
    assert state.exit_code == 0
    assert live.output.size > 1_000_000
    await hub.close()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / ".bashrc").write_text("PS1='ready> '\nMINE=from-my-bashrc\n")
    return folder


async def test_the_persons_shell_is_theirs_and_answers(tmp_path: Path, home: Path) -> None:
    environment = {**os.environ, "HOME": str(home), "SHELL": "/bin/bash", "MY_API_KEY": "mine-to-use"}
    hub = CommandHub(tmp_path / "logs", environment=environment)
    shell = await hub.open_person_shell(90, 30, cwd=home)
    assert (hub.find(shell).status.kind, hub.find(shell).status.phase) == (CommandKind.PERSON, CommandPhase.RUNNING)
    screen = Screen()
    hub.find(shell).output.attach(screen)
    await until(lambda: b"ready> " in screen.data)
    hub.find(shell).write(b'echo "$MINE $MY_API_KEY $TERM $(stty size) $(tty)"; false\r')
    await until(lambda: b"from-my-bashrc mine-to-use xterm-256color 30 90 /dev/" in screen.data)
    await until(lambda: b"\x1b]133;D;1\a" in screen.data)
    for mark in (b"\x1b]133;A\a", b"\x1b]133;B\a", b"\x1b]133;C\a", b"\x1b]7;file://"):
        assert mark in screen.data
    assert str(home).encode() + b"\a" in screen.data
    hub.find(shell).write(b"sleep 30\r")
    await until(lambda: runs_in(hub.find(shell).status.pid, "sleep"))
    hub.find(shell).interrupt()
    hub.find(shell).write(b"exit 4\r")
    await until(lambda: not hub.find(shell).status.running)
    assert hub.find(shell).status.exit_code == 4
    assert await hub.close() == ()


async def test_the_persons_shell_ends_with_the_hub_and_its_jobs_with_it(tmp_path: Path, home: Path) -> None:
    hub = CommandHub(tmp_path / "logs", environment={**os.environ, "HOME": str(home), "SHELL": "/bin/bash"})
    shell = await hub.open_person_shell(90, 30, cwd=home)
    pid = hub.find(shell).status.pid
    screen = Screen()
    hub.find(shell).output.attach(screen)
    await until(lambda: b"ready> " in screen.data)
    hub.find(shell).write(b"sleep 71 & sleep 72 &\r")
    await until(lambda: len(in_session(pid)) >= 3)
    members = in_session(pid)
    began = time.monotonic()
    assert await hub.close() == ()
    assert time.monotonic() - began < 20
    assert [member for member in members if alive(member)] == []


async def test_a_shell_that_is_none_is_reported(tmp_path: Path) -> None:
    hub = CommandHub(tmp_path / "logs", environment={**os.environ, "SHELL": "/bin/bash"})
    with pytest.raises(StartError):
        await hub.open_person_shell(80, 24, cwd=tmp_path / "missing")
    await hub.close()
