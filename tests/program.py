"""Run the command line as a process of its own, forked from one that has its modules loaded.

Starting takes 0.6 s of CPU, nearly all of it for imports, and a fork a tenth. Tests of starting itself, of signals and of
closed streams start `python -m ollm_tui`.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from tests import program_server
from tests.program_server import MAX_REQUEST

AT_START = ("PYTHON", "PYDANTIC_", "LC_", "LANG", "TZ", "LD_")
"""Beginnings of variables that count when Python or a module is loaded."""

TIMEOUT = 60

CompletedProgram = subprocess.CompletedProcess[bytes]


def run(
    *arguments: str, cwd: Path, stdin: bytes = b"", environment: Mapping[str, str] | None = None
) -> CompletedProgram:
    """Run `ollm-tui` to its end; `environment` is added to this process's, with which it looks for no servers."""
    variables = {**os.environ, "OLLM_PROBE": "0", **(environment or {})}
    request = json.dumps({"arguments": arguments, "environment": variables, "folder": str(cwd)}).encode()
    if not hasattr(os, "pidfd_open") or len(request) > MAX_REQUEST or _at_start(variables) != _at_start(os.environ):
        command = [sys.executable, "-m", "ollm_tui", *arguments]
        return subprocess.run(
            command, cwd=cwd, input=stdin, capture_output=True, timeout=TIMEOUT, check=False, env=variables
        )
    (its_in, stdin_end), (stdout_end, its_out), (stderr_end, its_err) = os.pipe(), os.pipe(), os.pipe()
    told, tells = socket.socketpair()
    socket.send_fds(_server(_at_start(os.environ)), [request], [its_in, its_out, its_err, tells.fileno()])
    for descriptor in (its_in, its_out, its_err, tells.detach()):
        os.close(descriptor)
    with told.makefile() as numbers, told, ThreadPoolExecutor(3) as threads:
        out, err = threads.submit(_read, stdout_end), threads.submit(_read, stderr_end)
        threads.submit(_write, stdin_end, stdin)
        pid = int(numbers.readline())
        told.settimeout(TIMEOUT)
        try:
            code = int(numbers.readline())
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise
        return subprocess.CompletedProcess(arguments, code, out.result(), err.result())


def _at_start(variables: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(item for item in variables.items() if item[0].startswith(AT_START)))


@functools.cache
def _server(_variables: tuple[tuple[str, str], ...]) -> socket.socket:
    """One for each set of variables that count at the start; it ends with this process."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        command = [sys.executable, "-P", program_server.__file__, str(its.fileno())]
        process = subprocess.Popen(
            command, pass_fds=[its.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def _read(descriptor: int) -> bytes:
    with open(descriptor, "rb") as stream:
        return stream.read()


def _write(descriptor: int, data: bytes) -> None:
    with suppress(BrokenPipeError), open(descriptor, "wb", buffering=0) as stream:
        view = memoryview(data)
        while view:
            view = view[stream.write(view) :]
