"""Output of real programs recorded on a PTY of 80x24 (`record`), and the screens another terminal (tmux) showed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache

from tests import DATA_DIR

DATA = DATA_DIR / "terminal"
COLUMNS, LINES = 80, 24
PROGRAMS = (
    *("less", "vim", "vim_scroll", "vim_defaults", "git", "python", "fzf"),
    *("htop", "htop_scroll", "tmux", "bash", "textual"),
)


@dataclass(frozen=True)
class Shown:
    """The screen after so many bytes of a recording."""

    program: str
    moment: str
    size: int
    screen: tuple[str, ...]
    cursor: tuple[int, int]


@cache
def raw(program: str) -> bytes:
    return (DATA / f"{program}.raw").read_bytes()


def frames() -> list[Shown]:
    programs = json.loads((DATA / "screens.json").read_text(encoding="utf-8"))["programs"]
    return [
        Shown(name, frame["shown"], frame["bytes"], tuple(frame["screen"]), (frame["cursor"][0], frame["cursor"][1]))
        for name in PROGRAMS
        for frame in programs[name]
    ]
