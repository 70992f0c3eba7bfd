"""Terminating all processes of a command: SIGTERM, then SIGKILL (001 R5.3); for running commands and detached jobs."""

from __future__ import annotations

import time
from signal import Signals

from ollm_tui.core.shell.process_tree import ProcessTree
from ollm_tui.core.shell.status import ProcessName

TERMINATE = (Signals.SIGTERM, Signals.SIGCONT)
"""How an agent's command is asked to end; stopped processes have to be woken to hear it."""

HANGUP = (Signals.SIGHUP, Signals.SIGTERM, Signals.SIGCONT)
"""An interactive shell ignores SIGTERM; a closed terminal ends it."""

GRACE = 2.0
"""Seconds between asking and forcing."""

VANISH_SECONDS = 0.7
"""Seconds that forced processes get to go away before they are named."""

UNSEEN_SECONDS = 0.3
"""Seconds that the leader's group gets to be empty when nobody is seen in it: where nobody reaps, it never is."""

_STEP_SECONDS = 0.03


class Termination:
    """SIGTERM, then SIGKILL, step by step, so that its owner can read output in between."""

    def __init__(self, tree: ProcessTree, ask: tuple[Signals, ...] = TERMINATE, grace: float = GRACE) -> None:
        self._tree = tree
        self._ask = ask
        self._grace = grace
        self._asked_at: float | None = None
        self._forced_at: float | None = None
        self._unseen_until: float | None = None
        self.done = False
        self.survivors: tuple[ProcessName, ...] = ()

    def step(self, now: float) -> float:
        """Do what is due; return the monotonic time of the next step."""
        members = self._tree.members()
        if self._asked_at is None:
            self._asked_at = now
            self._tree.send(self._ask, members)
        elif not members:
            self._unseen_until = self._unseen_until or now + UNSEEN_SECONDS
            self.done = not self._tree.force_unseen() or now >= self._unseen_until
        elif self._forced_at is not None and now >= self._forced_at + VANISH_SECONDS:
            self.done = True
            self.survivors = tuple(ProcessName(process.pid, process.name) for process in members)
        elif now >= self._asked_at + self._grace:
            # Every time: a process may have started another in between.
            self._forced_at = now if self._forced_at is None else self._forced_at
            self._tree.send((Signals.SIGKILL,), members)
        return now + _STEP_SECONDS

    def run_to_end(self) -> None:
        """Run all steps; blocks for up to `grace` and a bit, so not on the event loop."""
        while not self.done:
            time.sleep(max(0.0, self.step(time.monotonic()) - time.monotonic()))
