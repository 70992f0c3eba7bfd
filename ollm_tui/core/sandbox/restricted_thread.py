"""Threads that restrict themselves for good, start something and can end all that it led to.

Domains and filters belong to a thread and pass on to all it starts, so each command gets a thread of its own. The rest
of this process stays as free as it was. A process can leave its session, its parent and its environment, but not its
domain: where landlock keeps signals within one, a signal to all from inside reaches just what must end.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import lru_cache
from queue import SimpleQueue
from typing import TypeVar

from ollm_tui.core.sandbox.landlock import Ruleset, abi, keep_signals_in_thread
from ollm_tui.core.sandbox.seccomp import apply_filter, look_filter

Started = TypeVar("Started")

SCOPED_SIGNALS = 6
"""The version of landlock that keeps signals within the cage."""

_LAST_ONE = """trap '' HUP INT TERM
kill -s 0 -- "$1" 2>/dev/null && exit 1
read -r line
kill -s KILL -- -1"""
"""Ends everything in its domain once this program is gone, killed or not; first it makes sure that there is one."""


def ends_what_it_starts() -> bool:
    """Return whether the kernel lets a cage end all that it holds, whatever became of it."""
    return sys.platform == "linux" and abi() >= SCOPED_SIGNALS


class RestrictedThread:
    """A thread that restricts itself by rules and starts one thing."""

    def __init__(self, ruleset: Ruleset, *, times: bool = False) -> None:
        """With `times` those of files can be set."""
        self._ruleset = ruleset
        self._outer = _outer_domain(look_filter(signals=ends_what_it_starts(), times=times))
        self._runs = False
        self._over = threading.Event()
        self._ended = threading.Event()

    def start(self, call: Callable[[], Started]) -> Started:
        """Return what `call` returns in the thread. Raises what it raises, and OSError where nothing was called."""
        result: Future[Started] = Future()

        def run() -> None:
            self._runs = True
            try:
                self._ruleset.restrict_thread()
                result.set_result(call())
            except BaseException as error:  # noqa: BLE001 - whatever it is, the caller gets it
                result.set_exception(error)
                self._over.set()
            if ends_what_it_starts():
                self._over.wait()
                self._outer.end_inner_domain()
            self._ended.set()

        try:
            self._outer.run(run, result)
            return result.result()
        finally:
            del run  # which holds the result, and an error its frames

    def end(self) -> None:
        """Kill all that still runs of what it started, where the kernel can tell; a second time does nothing."""
        if self._runs and ends_what_it_starts() and not self._over.is_set():
            self._over.set()
            self._ended.wait()


class _OuterDomain:
    """A thread with a filter, from which others inherit that, and a domain with what all of them started.

    The kernel compiles a filter when it is applied and discards it with its last thread: half a millisecond.
    """

    def __init__(self, program: bytes) -> None:
        """Start the thread. Raises OSError where the kernel refuses a part."""
        self._tasks: SimpleQueue[tuple[Callable[[], None], Future[object]]] = SimpleQueue()
        self._last_one: subprocess.Popen[bytes] | None = None
        ready: Future[None] = Future()
        threading.Thread(target=self._serve, args=(program, ready), name="look filter", daemon=True).start()
        ready.result()

    def run(self, task: Callable[[], None], result: Future[Started]) -> None:
        """Run a task in a new thread of the domain; `result` has an error where there can be none."""
        self._tasks.put((task, result))  # pyright: ignore[reportArgumentType]  # only an error is set in it

    def end_inner_domain(self) -> None:
        """Kill everything in the domain of the calling thread but this process.

        A signal to all would be one to everything of this person's, were the thread in no domain. So first it is
        sent to a process that only a domain can keep it from.
        """
        last_one = self._last_one
        if last_one is None:
            return
        try:
            os.kill(last_one.pid, 0)
        except PermissionError:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            return

    def _serve(self, program: bytes, ready: Future[None]) -> None:
        try:
            apply_filter(program)
            if ends_what_it_starts():
                keep_signals_in_thread()
                self._start_last_one()
        except OSError as error:
            ready.set_exception(error)
            return
        ready.set_result(None)
        del ready
        while True:
            task, result = self._tasks.get()
            try:
                if self._last_one is not None and self._last_one.poll() is not None:
                    self._start_last_one()
                threading.Thread(target=task, name="look cage", daemon=True).start()
            except (RuntimeError, OSError) as error:  # the system gives no more threads, or processes
                result.set_exception(OSError(errno.EAGAIN, str(error)))
            del task, result

    def _start_last_one(self) -> None:
        self._last_one = subprocess.Popen(
            ["/bin/sh", "-c", _LAST_ONE, "sh", str(os.getpid())],
            cwd="/",
            env={},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


@lru_cache(maxsize=4)
def _outer_domain(program: bytes) -> _OuterDomain:
    return _OuterDomain(program)
