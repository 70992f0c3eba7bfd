"""Loads the command line once, and forks a process for each start that `tests.program` asks for.

A forked process is as one that was started: it has the arguments, environment, folder and streams it is given, Python's
own signal handlers, no descriptor and no thread of this one, and it ends as `python -m ollm_tui` ends. What this one
has is the modules below; `tests/test_program.py` looks after what they keep of the environment.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import select
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import TextIO

MODULES = (
    "asyncio",
    "ctypes",
    "ollm_tui.runtime",
    *(f"ollm_tui.cli.{name}" for name in ("data", "policy", "run", "tool")),
)
"""What most commands load; none of it draws."""

MAX_REQUEST = 1 << 16
"""Bytes of the largest request."""


@dataclass(frozen=True)
class Start:
    """A program to be."""

    arguments: list[str]
    environment: dict[str, str]
    folder: str


def load() -> None:
    """Import what the programs have in common, and keep their collectors away from it: what they touch is copied."""
    for name in MODULES:
        import_module(name)
    gc.collect()
    gc.freeze()


def serve(requests: socket.socket) -> Start:
    """Fork for each request; return in each forked process, never in this one, which ends with whoever asks.

    A request comes with four descriptors: three streams, and a socket that is told the process's id, then its exit code.
    """
    ready = select.poll()
    ready.register(requests, select.POLLIN)
    running: dict[int, tuple[int, int]] = {}
    while True:
        for descriptor, _ in ready.poll():
            if descriptor in running:
                pid, told = running.pop(descriptor)
                ready.unregister(descriptor)
                _, status = os.waitpid(pid, 0)
                _tell(told, os.waitstatus_to_exitcode(status))
                os.close(told)
                os.close(descriptor)
                continue
            message, descriptors, _, _ = socket.recv_fds(requests, MAX_REQUEST, 4)
            if not message:
                os._exit(0)
            *streams, told = descriptors
            pid = os.fork()
            if pid == 0:
                requests.detach()  # closed with the others, by its number
                _take(streams)
                return Start(**json.loads(message))
            for stream in streams:
                os.close(stream)
            _tell(told, pid)
            process = os.pidfd_open(pid)
            running[process] = (pid, told)
            ready.register(process, select.POLLIN)


def _tell(listener: int, number: int) -> None:
    with suppress(BrokenPipeError):  # it has given up
        os.write(listener, b"%d\n" % number)


def _take(streams: list[int]) -> None:
    """Have these as standard streams, and no other descriptor."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))


def _opened_again(stream: TextIO) -> TextIO:
    """A standard stream as Python opens it at its start: what it read or was to write, and its locks, were another's."""
    return open(  # as long as the process runs
        stream.fileno(),
        stream.mode,
        encoding=stream.encoding,
        errors=stream.errors,
        closefd=False,
    )


def become(start: Start) -> None:
    """Run the program to its end, which is this process's."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(start.folder)
    os.environ.clear()
    os.environ.update(start.environment)
    for name in ("stdin", "stdout", "stderr"):
        stream = _opened_again(getattr(sys, name))
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.stderr.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a TextIOWrapper
    sys.argv = ["ollm_tui", *start.arguments]
    runpy.run_module("ollm_tui", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl+c ends whoever asks, and with it this process
    load()
    become(serve(socket.socket(fileno=int(sys.argv[1]))))
