"""Start commands in a session of their own, on a PTY (else a pipe).

No Python code runs between fork and exec: `subprocess` then uses vfork, which costs about a millisecond
however large this process is, and can not deadlock in a process with threads.
"""

from __future__ import annotations

import errno
import fcntl
import os
import pty
import resource
import struct
import subprocess
import termios
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TypeVar

COLUMNS, LINES = 120, 40
"""Size of the terminals that commands are given before anybody looks at them."""

CELL_WIDTH, CELL_HEIGHT = 10, 20
"""Pixels of a cell, as programs are told that draw pictures."""

BASH = "/bin/bash"

FILE_BYTES = 16 << 30
"""The largest file that a command may write, where no cage sets less."""

MORE_TASKS = 4096
"""Processes and threads that a command may add to those that run now; the system does not count root's."""

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


class ChildProcess(ABC):
    """A started process and our end of its terminal or pipe."""

    def __init__(self, pid: int, end: int, terminal: str | None, *, takes_input: bool) -> None:
        self.pid = pid
        self.end = end
        """Our descriptor: non-blocking; read for output, written for input."""
        self.terminal = terminal
        """Name of the process's terminal; None on a pipe."""
        self.takes_input = takes_input
        """Whether what is written to `end` reaches the process."""
        os.set_blocking(end, False)

    @abstractmethod
    def reap(self) -> int | None:
        """Return the exit code if the process has ended, -n for signal n; never wait."""

    def close(self) -> None:
        """Close `end`; may take a tenth of a second, so not on the event loop."""
        with suppress(OSError):
            os.close(self.end)

    @abstractmethod
    def release(self) -> None:
        """Close `end` and forget the process, which goes on."""


Started = TypeVar("Started")


class Cage(Protocol):
    """What holds a command: it is started from within and closed when its command is over."""

    passed: tuple[int, ...]
    """Descriptors that the command gets; known once `command` was called."""

    @property
    def ends_alone(self) -> bool:
        """Whether all that it holds ends with this program, also when that is killed."""
        ...

    def command(self, argv: Sequence[str], environment: Mapping[str, str]) -> Sequence[str]:
        """Return what runs `argv` in the cage. Raises OSError."""
        ...

    def start(
        self, start: Callable[[Mapping[str, str]], Started], environment: Mapping[str, str], terminal: str | None
    ) -> Started:
        """Call `start` from within the cage, with the environment the command gets there. Raises OSError."""
        ...

    def end(self) -> None:
        """End what the command left running, once it is over."""
        ...

    def close(self) -> None:
        """Remove what the cage kept for its command."""
        ...


class CommandProcess(ChildProcess):
    """A process started by `start_command`."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        end: int,
        terminal: str | None,
        *,
        takes_input: bool,
        cage: Cage | None = None,
    ) -> None:
        super().__init__(process.pid, end, terminal, takes_input=takes_input)
        self._process = process
        self._cage = cage

    def reap(self) -> int | None:
        """Return the exit code if it has ended, and what it left in a cage with it; never wait."""
        code = self._process.poll()
        if code is not None and self._cage is not None:
            self._cage.end()
        return code

    def close(self) -> None:
        """Close `end` and the cage."""
        super().close()
        if self._cage is not None:
            self._cage.close()

    def release(self) -> None:
        """Let the process go on without us."""
        self.close()
        # Else `subprocess` warns that it still runs, which is just what is wanted.
        self._process.returncode = 0


def bash_line(command: str) -> list[str]:
    """How a command line is run: as it was judged, without anybody's start files."""
    return [BASH, "--noprofile", "--norc", "-c", "--", command]


def start_command(
    argv: Sequence[str], cwd: Path, environment: Mapping[str, str], *, with_input: bool, cage: Cage | None = None
) -> CommandProcess:
    """Start `argv` in a new session, in its cage if it has one. Raises StartError.

    With `with_input` its standard input is its terminal, which is also its controlling one, so that prompts work.
    Without, standard input is empty and there is no controlling terminal: whatever asks there fails at once; output
    still goes to a terminal, which keeps it in order and unbuffered. Where the system gives no terminal, output comes
    through a pipe and input is empty.
    """
    argv = argv if cage is None else _caged(cage, argv, environment)
    try:
        master, slave, name = _open_terminal()
    except OSError:
        return _start_on_pipe(argv, cwd, environment, cage)
    try:
        if with_input:
            argv = ["/bin/sh", "-c", _TAKE_TERMINAL, name, *argv]
        else:
            # Programs that find no other terminal read from their standard error: this one can only be written to.
            _pass_bytes_as_they_are(slave)
            write_only = os.open(name, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)
            os.close(slave)
            slave = write_only
        process = _popen(argv, cwd, environment, slave, cage, name)
    except BaseException:
        os.close(master)
        if cage is not None:
            cage.close()
        raise
    finally:
        os.close(slave)
    return CommandProcess(process, master, name, takes_input=with_input, cage=cage)


def _caged(cage: Cage, argv: Sequence[str], environment: Mapping[str, str]) -> Sequence[str]:
    try:
        return cage.command(argv, environment)
    except OSError as error:
        cage.close()
        raise StartError(f"The cage cannot be made: {error}. The command was not started.") from None


def set_window_size(terminal: int, columns: int, lines: int) -> None:
    """Set a terminal's size in cells, and in pixels, which `termios.tcsetwinsize` leaves at none. Raises OSError."""
    size = struct.pack("HHHH", lines, columns, CELL_WIDTH * columns, CELL_HEIGHT * lines)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, size)


def _open_terminal() -> tuple[int, int, str]:
    """Both ends and the name of a new terminal. Raises OSError."""
    master, slave = pty.openpty()
    try:
        # Before anything runs: a program may ask for the size at once.
        set_window_size(slave, COLUMNS, LINES)
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


def _start_on_pipe(argv: Sequence[str], cwd: Path, environment: Mapping[str, str], cage: Cage | None) -> CommandProcess:
    ours, theirs = os.pipe()
    try:
        process = _popen(argv, cwd, {**environment, "TERM": "dumb"}, theirs, cage, None)
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    return CommandProcess(process, ours, None, takes_input=False, cage=cage)


def _popen(
    argv: Sequence[str],
    cwd: Path,
    environment: Mapping[str, str],
    output: int,
    cage: Cage | None,
    terminal: str | None,
) -> subprocess.Popen[bytes]:
    def start(environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            pass_fds=() if cage is None else cage.passed,
        )

    try:
        _bound_children()
        return start(environment) if cage is None else cage.start(start, environment, terminal)
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


def _bound_children() -> None:
    """Set this process's soft limits, which its children inherit: no core dumps, bounded files and processes.

    None of them is felt here. Set in the child they would need Python code between fork and exec, or a shell that
    drops variables; set from here once it runs, they come too late for what it starts first.
    """
    bounds = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: FILE_BYTES}
    with suppress(OSError, ValueError, IndexError):  # elsewhere than on Linux
        running = int(Path("/proc/loadavg").read_text().split()[3].split("/")[1])
        bounds[resource.RLIMIT_NPROC] = running + MORE_TASKS
    for kind, most in bounds.items():
        soft, hard = limits_before.setdefault(kind, resource.getrlimit(kind))
        with suppress(OSError, ValueError):
            resource.setrlimit(kind, (most if soft == resource.RLIM_INFINITY else min(most, soft), hard))


limits_before: dict[int, tuple[int, int]] = {}
"""The limits this process was started with, which the person's own shell gets."""
