"""Ends what a killed program leaves running, where the kernel does not: a process of its own that waits for that.

It is for what must not outlive this program, caged commands and code, and is started with the first of them.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

from ollm_tui.core.fence.secrets import cleaned
from ollm_tui.core.shell.process_tree import ProcessTree, birth_of
from ollm_tui.core.shell.termination import Termination

_PROGRAM = "import sys; sys.path.append(sys.argv[1]); from ollm_tui.core.shell import orphans; orphans.main(sys.stdin)"
_DEAF = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
"""What ends a whole terminal or session does not end the one who tidies up after it."""

log = logging.getLogger(__name__)


class OrphanWatch:
    """Tells a process of its own which commands run. All methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watched: dict[str, int] = {}
        self._process: subprocess.Popen[str] | None = None

    def watch(self, leader: int, mark: str) -> None:
        """Have the processes of a command ended if this program is killed."""
        with self._lock:
            if mark not in self._watched:
                self._watched[mark] = leader
                self._tell(f"{mark} {leader}\n")

    def forget(self, mark: str) -> None:
        """Say that a command is over."""
        with self._lock:
            if self._watched.pop(mark, None) is not None:
                self._tell(f"{mark}\n")

    @contextmanager
    def watching(self, leader: int, mark: str) -> Generator[None]:
        """Watch a command for as long as the block runs."""
        self.watch(leader, mark)
        try:
            yield
        finally:
            self.forget(mark)

    def _tell(self, line: str) -> None:
        try:
            if self._process is None or self._process.poll() is not None:
                self._process = _start_watcher()
                line = "".join(f"{mark} {leader}\n" for mark, leader in self._watched.items())
            pipe = self._process.stdin
            assert pipe is not None
            pipe.write(line)
            pipe.flush()
        except OSError as error:
            log.warning("If this program is killed, what it runs in a cage may go on: %s", error)


ORPHANS = OrphanWatch()
"""This process's own."""


def _start_watcher() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-I", "-c", _PROGRAM, str(Path(__file__).parents[3])],
        cwd="/",
        env=cleaned(os.environ),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    )


def main(lines: Iterable[str]) -> None:
    """Follow what is told, a command a line, until the teller is gone; then end what still runs."""
    for one in _DEAF:
        signal.signal(one, signal.SIG_IGN)
    watched: dict[str, tuple[int, str]] = {}
    for line in lines:
        mark, *leader = line.split()
        if leader:
            watched[mark] = (int(leader[0]), birth_of(int(leader[0])))
        else:
            watched.pop(mark, None)
    trees = [ProcessTree.of_earlier_process(leader, born, mark) for mark, (leader, born) in watched.items()]
    endings: list[Termination] = [Termination(tree) for tree in trees]
    while endings:
        now = time.monotonic()
        time.sleep(max(0.0, max(ending.step(now) for ending in endings) - time.monotonic()))
        endings = [ending for ending in endings if not ending.done]
