"""Records a real program for `test_programs`: `python -m tests.tui.terminal.record NAME...`, by hand, where tmux is.

A bash with nothing of its owner in it runs on a PTY of 80x24 in a process namespace of its own; keys are typed, each
when the one before has had its effect. What tmux shows for the same bytes goes to `screens.json` beside the recording.
"""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import subprocess
import sys
import tempfile
import termios
import time
from dataclasses import dataclass
from pathlib import Path

from tests.tui.terminal.recordings import COLUMNS, DATA, LINES
from tests.tui.terminal.screens import terminal

QUIET = 0.4
"""Seconds without output after which a key has had its effect."""

ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "TERM": "xterm-256color",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "LESS": "",
    "INPUTRC": "/dev/null",
}
PROMPT = "PS1='$ '; set +m\n"
TEXT = 'for n in $(seq 200); do echo "line $n of the text, with $((n * n)) in it"; done >text\n'


@dataclass(frozen=True)
class Session:
    """What to prepare (shell lines that show nothing) and what to type: keys and, if it is kept, the screen's name."""

    prepare: str
    typed: tuple[tuple[str, str], ...]


SESSIONS = {
    "vim_scroll": Session(
        TEXT,
        (
            ("vim -u NONE -N -n text\r", "opened"),
            ("\x06\x06\x19\x19\x19\x05", "scrolled"),
            (":set nu hls ai\r/line 9\rn", "searched"),
            ("ggOnew\rlines\x1bjdd3jp", "edited"),
            ("5GVjjd\x05\x05u", "undone"),
            (":qa!\r", "after"),
        ),
    ),
    "vim_defaults": Session(
        TEXT,
        (
            ("vim -n text\r", ""),
            ("ityped text that is long enough to go on in the next line of a screen of eighty columns ", "typed"),
            ("\x1b:vsplit\rG\x17l", "split"),
            (":qa!\r", "after"),
        ),
    ),
    "htop_scroll": Session(
        "for n in $(seq 30); do sleep 5$n & done\n",
        (
            ("htop -d 100\r", "running"),
            ("\x1bOB" * 18, "down"),
            ("\x1b[6~", "page"),
            ("\x1bOA" * 25, "up"),
            ("\x1b[15~", "tree"),
            ("q", "after"),
        ),
    ),
}


def record(session: Session) -> tuple[bytes, list[tuple[str, int]]]:
    """Everything the session wrote, and how much of it each kept screen is made of."""
    with tempfile.TemporaryDirectory() as home:
        Path(home, "rc").write_text(PROMPT + session.prepare)
        master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (LINES, COLUMNS))
        alone = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "setsid", "--ctty"]
        shell = subprocess.Popen(
            [*alone, "bash", "--noprofile", "--rcfile", f"{home}/rc", "-i"],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=home,
            env={**ENVIRONMENT, "HOME": home},
        )
        os.close(slave)
        answering = terminal(COLUMNS, LINES)
        written = bytearray()
        marks: list[tuple[str, int]] = []
        for keys, name in (("", ""), *session.typed):
            os.write(master, keys.encode())
            until = time.monotonic() + QUIET
            while time.monotonic() < until:
                if select.select([master], [], [], 0.02)[0]:
                    data = os.read(master, 65_536)
                    written += data
                    answering.feed(data)
                    os.write(master, "".join(answering.replies).encode())
                    answering.replies.clear()
                    until = time.monotonic() + QUIET
            if name:
                marks.append((name, len(written)))
        shell.kill()
        shell.wait()
        os.close(master)
    return bytes(written), marks


def shown_by_tmux(data: bytes) -> tuple[list[str], list[int]]:
    """The lines, without blank ones at the end, and the cursor."""
    tmux = ["tmux", "-L", f"record-{os.getpid()}", "-f", "/dev/null"]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "bytes").write_bytes(data)
        line = f"stty raw -echo; cat {folder}/bytes; touch {folder}/done; sleep 60"
        size = ["-x", str(COLUMNS), "-y", str(LINES)]
        keep_size = [";", "set", "-g", "status", "off"]
        environment = {**ENVIRONMENT, "TMUX_TMPDIR": folder}
        subprocess.run([*tmux, "-u", "new-session", "-d", *size, line, *keep_size], check=True, env=environment)
        while not Path(folder, "done").exists():
            time.sleep(0.02)
        time.sleep(0.2)
        asked = [*tmux, "display", "-p", "#{cursor_y} #{cursor_x}", ";", "capture-pane", "-p"]
        answer = subprocess.run(asked, check=True, capture_output=True, encoding="utf-8", env=environment).stdout
        subprocess.run([*tmux, "kill-server"], check=True, env=environment)
    cursor, *rows = answer.rstrip("\n").split("\n")
    return [row.rstrip() for row in rows], [int(number) for number in cursor.split()]


def main() -> int:
    for program in ("tmux", "unshare", "setsid"):
        if shutil.which(program) is None:
            sys.exit(f"recording needs {program}")
    screens = DATA / "screens.json"
    kept = json.loads(screens.read_text(encoding="utf-8"))
    for name in sys.argv[1:] or SESSIONS:
        data, marks = record(SESSIONS[name])
        (DATA / f"{name}.raw").write_bytes(data)
        frames: list[dict[str, object]] = []
        for shown, size in marks:
            rows, cursor = shown_by_tmux(data[:size])
            frames.append({"shown": shown, "bytes": size, "screen": rows, "cursor": cursor})
        kept["programs"][name] = frames
        print(f"{name}: {len(data)} bytes, {len(frames)} screens")
    screens.write_text(json.dumps(kept, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
