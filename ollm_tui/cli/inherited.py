"""Signals that whoever started us ignored or blocked: our commands would inherit that."""

from __future__ import annotations

import signal
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


def _do_nothing(_number: int, _frame: FrameType | None) -> None:
    """Unlike SIG_IGN, a handler is not handed on to what we start."""
