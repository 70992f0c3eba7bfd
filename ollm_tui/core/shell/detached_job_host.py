"""Holds the terminal of a job that was left running, and goes on writing its output into its log.

Run as a program of its own, by path and without this package, in a session of its own: a job whose terminal closes
would be hung up on and could no longer write. It ends when the job has ended or closed a pipe for good.
Standard input is our end of the terminal or pipe, standard output the log, standard error whoever waits to hear that
it stands. Arguments: the pid of the job's leader, and how many more bytes the log may take.
"""

from __future__ import annotations

import os
import signal
import sys
import time

READY = b"ready\n"
"""Written to standard error as soon as nothing can go wrong any more."""

FULL = b"\n[the log is full; what follows is not kept]\n"
_PIECE = 65_536
_AGAIN = 1.0
"""Seconds until the next look at a terminal that nobody has open, while the job's leader still runs."""


def copy_output(leader: int, room: int) -> None:
    """Copy until there is nothing left to come."""
    while True:
        try:
            piece = os.read(0, _PIECE)
        except OSError:
            # Linux says EIO while nobody has the terminal open; its leader may still open it again.
            if not _runs(leader):
                return
            time.sleep(_AGAIN)
            continue
        if not piece:
            return
        room = _write(piece, room)


def _write(piece: bytes, room: int) -> int:
    """Write what fits; returns the room that is left. A full disk ends the log, never the job."""
    if room <= 0:
        return 0
    kept = piece[:room] if len(piece) <= room else piece[:room] + FULL
    try:
        while kept:
            kept = kept[os.write(1, kept) :]
    except OSError:
        return 0
    return room - len(piece)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # its number has gone to somebody else, or it has another user now
    return True


def main() -> None:
    """Run the program."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    os.set_blocking(0, True)
    os.write(2, READY)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    copy_output(int(sys.argv[1]), int(sys.argv[2]))


if __name__ == "__main__":
    main()
