"""Run a program that is over soon and was not written by the model: a formatter, an installer's look ahead."""

from __future__ import annotations

import os
import secrets
import signal as signals
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import ShellExecutionFailed, ShellTimeout
from ollm_tui.core.fence.secrets import command_environment, own_environment
from ollm_tui.core.shell.orphans import ORPHANS
from ollm_tui.core.shell.pty_process import Cage

_MOST_ERRORS = 100_000


@dataclass(frozen=True)
class ProgramRun:
    """What to run: its input, where, for how many seconds, and the most bytes that it may write to a file."""

    argv: Sequence[str]
    folder: Path
    given: bytes = b""
    seconds: float = 30.0
    most_bytes: int = 20_000_000
    cage: Cage | None = None
    """What holds it; closed when it is over."""
    variables: Mapping[str, str] | None = None
    """Set over those that commands get."""


@dataclass(frozen=True)
class ProgramOutcome:
    """How it ended: its code (negative after a signal), and what it wrote."""

    code: int
    output: bytes
    errors: str

    @property
    def wrote_too_much(self) -> bool:
        """Whether it was ended for the length of its output."""
        return self.code in (-signals.SIGXFSZ, 128 + signals.SIGXFSZ)


def run_program(run: ProgramRun, signal: AbortSignal) -> ProgramOutcome:
    """Run it to its end; what it started ends with it. Blocks.

    Raises:
        ShellExecutionFailed: It could not be started.
        ShellTimeout: It did not end in time.
        OperationCancelled: The signal aborted.
    """
    folder = str(run.folder)
    mark = secrets.token_hex(8)
    environment = command_environment(own_environment(), attended=False, cwd=folder, mark=mark)
    environment.update(run.variables or {})
    name = Path(run.argv[0]).name
    # Files, not pipes: neither side ever waits for the other, and the system bounds what is written.
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        given.write(run.given)
        given.seek(0)

        def start(variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                list(argv),
                cwd=folder,
                env=dict(variables),
                stdin=given,
                stdout=output,
                stderr=errors,
                start_new_session=True,
                pass_fds=() if run.cage is None else run.cage.passed,
            )

        try:
            # Bounded by a shell before it starts: set from here, what it starts at once could be without.
            bounded = ["/bin/sh", "-c", 'ulimit -f "$0"; exec "$@"', str(run.most_bytes // 512 + 1), *run.argv]
            argv = bounded if run.cage is None else run.cage.command(bounded, environment)
            process = start(environment) if run.cage is None else run.cage.start(start, environment, None)
            alone = run.cage is not None and run.cage.ends_alone
            with nullcontext() if alone else ORPHANS.watching(process.pid, mark):
                code = _wait(process, name, run.seconds, signal)
        except OSError as error:
            raise ShellExecutionFailed(f"{name} could not be started: {error}.") from None
        finally:
            if run.cage is not None:
                run.cage.close()
        return ProgramOutcome(
            code, _content(output, run.most_bytes), _content(errors, _MOST_ERRORS).decode("utf-8", "replace")
        )


def _content(stream: IO[bytes], most: int) -> bytes:
    stream.seek(0)
    return stream.read(most)


def _wait(process: subprocess.Popen[bytes], name: str, seconds: float, signal: AbortSignal) -> int:
    def kill() -> None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signals.SIGKILL)

    unsubscribe = signal.subscribe(kill)
    try:
        if signal.aborted:
            kill()
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        limit = round(seconds * 1000)
        raise ShellTimeout(f"{name} did not end within {seconds:g} s and was ended.", {"limitMs": limit}) from None
    finally:
        unsubscribe()
        kill()
        process.wait()
        signal.throw_if_aborted()
