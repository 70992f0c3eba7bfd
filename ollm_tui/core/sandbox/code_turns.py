"""Keep code that the cage lets change what paths lead to apart from commands that were judged by their paths.

Code in the cage for work runs unasked and can put a link to a protected file in the place of any other. A command
that only reads was judged by what its paths led to then; it may run long afterwards, in the background too.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Generator
from contextlib import contextmanager

from ollm_tui.core.base.abort import AbortSignal

WAIT_SECONDS = 10.0
"""How long code waits for commands that only read."""


class CodeTurns:
    """Who runs in this process: code, or commands that were judged. All methods work in any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._looking = 0
        self._running = 0
        self._begun = 0

    @property
    def moment(self) -> int:
        """Return what a judgement is bound to; negative while code runs, which no command may begin with."""
        with self._changed:
            return -1 if self._running else self._begun

    def begin_look(self, moment: int) -> bool:
        """Begin a command that was judged at a moment; False where code has run since or runs."""
        with self._changed:
            if self._running or moment != self._begun:
                return False
            self._looking += 1
            return True

    def end_look(self) -> None:
        """End a command that was begun."""
        with self._changed:
            self._looking -= 1
            self._changed.notify_all()

    @contextmanager
    def code(self) -> Generator[bool]:
        """Run code in the block; yields False, and then nothing may run, where a command still looks."""
        with self._changed:
            may_run = not self._looking
            if may_run:
                self._running += 1
                self._begun += 1
        try:
            yield may_run
        finally:
            if may_run:
                with self._changed:
                    self._running -= 1
                    self._changed.notify_all()

    async def looks_are_over(self, signal: AbortSignal) -> None:
        """Wait until no command looks, or for as long as code waits. Raises OperationCancelled."""
        await signal.in_thread(self._wait_for_looks)

    async def code_is_over(self, signal: AbortSignal) -> None:
        """Wait until no code runs. Raises OperationCancelled."""
        while self.moment < 0:
            await signal.in_thread(self._wait_for_code)

    def _wait_for_looks(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._looking, WAIT_SECONDS)

    def _wait_for_code(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._running, 1.0)  # so that an abort is heard


class LookTurn:
    """The turn of one command."""

    def __init__(self) -> None:
        self._begun = False

    def begin(self, judged: int | None) -> None:
        """Begin where it was judged by its paths. Raises OSError where that does not hold any more."""
        if judged is not None:
            if not CODE_TURNS.begin_look(judged):
                raise OSError(errno.EAGAIN, "code of another call ran meanwhile, and may have changed its paths")
            self._begun = True

    def end(self) -> None:
        """End it; a second time does nothing."""
        if self._begun:
            self._begun = False
            CODE_TURNS.end_look()


CODE_TURNS = CodeTurns()
"""Those of this process, whose sub-agents share a workspace."""
