"""What whoever started us left us with: signals ignored or blocked, standard streams closed."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType


def let_commands_have_their_signals() -> None:
    """See to it that what we start gets every signal, while what was to be ignored still does nothing to us.

    A child ignores what its parent ignores (POSIX `exec`). Behind `nohup` or the `&` of a script, ctrl+c in the
    terminal pane would end nothing; and where SIGCHLD is ignored, every command seems to exit with 0.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _do_nothing)


def stand_in_for_closed_streams() -> None:
    """Behind `<&-` nothing is read and behind `>&-` nothing is written; no file of ours gets such a number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  # open as long as the process runs


def _do_nothing(_number: int, _frame: FrameType | None) -> None:
    """Unlike SIG_IGN, a handler is not handed on to what we start."""
