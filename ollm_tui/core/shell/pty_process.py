"""Starting a command's process: in a session of its own, on a terminal where there is one, on a pipe where not.

No Python code runs between fork and exec: `subprocess` then uses vfork, which costs about a millisecond however large
this process is, and can not deadlock in a process with threads.
"""

from __future__ import annotations

import errno
import os
import pty
import subprocess
import termios
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

COLUMNS, LINES = 120, 40
"""Size of the terminals that commands are given before anybody looks at them."""

BASH = "/bin/bash"

_OUTPUT_MODES = 1
"""Where termios.tcgetattr keeps the flag word that has OPOST."""

_TAKE_TERMINAL = """trap '' HUP; exec 0<>"$0" 1>&0 2>&0; exec "$@\""""
"""Run by sh as the leader of a new session: the first terminal that a leader opens becomes its controlling one.

When such a leader exits, the system hangs up on the foreground group: `server &` would die with the line that started
it, or not, depending on who is faster. So hanging up is ignored; ending commands is ours to do, and what goes on is
named.
"""


class StartError(Exception):
    """A process that could not be started; the message says why and what to do."""


class ChildProcess(Protocol):
    """A started process and our end of its terminal or pipe."""

    @property
    def pid(self) -> int:
        """The pid of the leader."""
        ...

    @property
    def end(self) -> int:
        """Our descriptor: non-blocking; read for output, written for input."""
        ...

    @property
    def terminal(self) -> str | None:
        """Name of the process's terminal; None on a pipe."""
        ...

    @property
    def takes_input(self) -> bool:
        """Whether what is written to `end` reaches the process."""
        ...

    def reap(self) -> int | None:
        """Return the exit code if the process has ended, -n for signal n; never waits."""
        ...

    def close(self) -> None:
        """Close `end`; may take a tenth of a second, so not on the event loop."""
        ...

    def release(self) -> None:
        """Close `end` and forget the process, which goes on."""
        ...


@dataclass
class CommandProcess:
    """A process started by `start_command`."""

    process: subprocess.Popen[bytes]
    end: int
    terminal: str | None
    takes_input: bool

    @property
    def pid(self) -> int:
        """The pid of the leader."""
        return self.process.pid

    def reap(self) -> int | None:
        """Return the exit code if it has ended; never wait."""
        return self.process.poll()

    def close(self) -> None:
        """Close our end."""
        with suppress(OSError):
            os.close(self.end)

    def release(self) -> None:
        """Let the process go on without us."""
        self.close()
        # Else `subprocess` warns that it still runs, which is just what is wanted.
        self.process.returncode = 0


def bash_line(command: str) -> list[str]:
    """How a command line is run: as it was judged, without anybody's start files."""
    return [BASH, "--noprofile", "--norc", "-c", command]


def start_command(
    argv: Sequence[str], cwd: Path, environment: Mapping[str, str], *, with_input: bool
) -> CommandProcess:
    """Start `argv` in a new session.

    With `with_input` its standard input is its terminal, which is also its controlling one, so that prompts work.
    Without, standard input is empty and there is no controlling terminal: whatever asks there fails at once instead
    of waiting for nobody; output still goes to a terminal, which keeps it in order and unbuffered.
    Where the system gives no terminal, output comes through a pipe and input is empty. Raises StartError.
    """
    try:
        master, slave, name = _open_terminal()
    except OSError:
        return _start_on_pipe(argv, cwd, environment)
    try:
        if with_input:
            argv = ["/bin/sh", "-c", _TAKE_TERMINAL, name, *argv]
        else:
            # Programs that find no other terminal read from their standard error: this one can only be written to.
            _pass_bytes_as_they_are(slave)
            write_only = os.open(name, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)
            os.close(slave)
            slave = write_only
        process = _popen(argv, cwd, environment, slave)
    except BaseException:
        os.close(master)
        raise
    finally:
        os.close(slave)
    os.set_blocking(master, False)
    return CommandProcess(process, master, name, takes_input=with_input)


def _open_terminal() -> tuple[int, int, str]:
    """Both ends and the name of a new terminal. Raises OSError."""
    master, slave = pty.openpty()
    try:
        # Before anything runs: a program may ask for the size at once.
        termios.tcsetwinsize(slave, (LINES, COLUMNS))
        return master, slave, os.ttyname(slave)
    except BaseException:
        os.close(master)
        os.close(slave)
        raise


def _pass_bytes_as_they_are(terminal: int) -> None:
    """No `\\r` before each newline: nobody looks at this terminal, and bytes are counted as the program wrote them."""
    with suppress(termios.error):
        modes = termios.tcgetattr(terminal)
        modes[_OUTPUT_MODES] &= ~termios.OPOST
        termios.tcsetattr(terminal, termios.TCSANOW, modes)


def _start_on_pipe(argv: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> CommandProcess:
    ours, theirs = os.pipe()
    try:
        process = _popen(argv, cwd, {**environment, "TERM": "dumb"}, theirs)
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    os.set_blocking(ours, False)
    return CommandProcess(process, ours, None, takes_input=False)


def _popen(argv: Sequence[str], cwd: Path, environment: Mapping[str, str], output: int) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    except ValueError as error:
        # A NUL, or a lone surrogate: nothing that can stand in an argument.
        raise StartError(f"The command line can not be passed to the system: {error}.") from None
    except OSError as error:
        if error.errno == errno.E2BIG:
            raise StartError(
                f"The command line is longer than the system takes ({len(argv[-1])} characters). "
                "Write it to a file and run that."
            ) from None
        reason = error.strerror or str(error)
        raise StartError(f"{error.filename or argv[0]}: {reason}. The command was not started.") from None
