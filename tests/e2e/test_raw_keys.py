"""Keys typed at a real terminal reach the program in the pane with the bytes that were typed."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from ptyprocess import PtyProcess

from tests.e2e.outer import OuterTerminal

ESC = b"\x1b"
PUNCTUATION = b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
KEYS: list[bytes] = [
    *(bytes([code]) for code in range(32) if code not in (0x1B, 0x1D)),
    b"\x7f",
    *(bytes([code]) for code in b"aZ09 " + PUNCTUATION),
    "é".encode(),
    "日".encode(),
    "👍".encode(),
    *(ESC + bytes([code]) for code in b"bfdBF09 \r\t\x7f" + bytes(set(PUNCTUATION) - set(b"[]OP_^X"))),
    ESC + "é".encode(),
    *(b"\x1b[1;%d%c" % (modifier, final) for modifier in (2, 3, 5) for final in b"ABCDHF"),
    *(b"\x1b[%d~" % number for number in (1, 2, 3, 4, 5, 6, 15, 17, 18, 20, 21, 23, 24)),
    *(b"\x1b[%d;5~" % number for number in (3, 5, 6, 15)),
    *(b"\x1bO%c" % final for final in b"PQRS"),
    b"\x1b[Z",
    b"\x1b[A",
    b"\x1b[H",
    b"\x1b[19;2~",
    b"\x1b[27;5;13~",
]
"""Each as one write: a key with Alt, or one with a sequence."""

AMBIGUOUS = [ESC, b":", ESC, b"0", ESC, b" ", ESC, b"\r", ESC, b"b", ESC, ESC, b"O", ESC, b"[", b"x", ESC]
"""Escape and then another key: what Textual's parser reads as Alt, or drops."""

READER = """import os, sys, termios, tty
before = termios.tcgetattr(0); tty.setraw(0)
os.write(1, b"READY")
with open("keys", "wb", buffering=0) as out:
    while (data := os.read(0, 1024)) != b"Q":
        out.write(data)
termios.tcsetattr(0, termios.TCSANOW, before)
"""


@asynccontextmanager
async def open_pane(folder: Path) -> AsyncIterator[OuterTerminal]:
    """The dashboard with the focus in the person's shell."""
    (folder / "reader.py").write_text(READER)
    terminal = OuterTerminal.start("--provider", "offline", cwd=folder, environment={"PS1": "$ ", "SHELL": "/bin/sh"})
    await terminal.sees("OFFLINE")
    await terminal.type("^t")
    await terminal.sees("^] leave")
    yield terminal
    await terminal.close()


@pytest.fixture
async def pane(tmp_path: Path) -> AsyncIterator[OuterTerminal]:
    async with open_pane(tmp_path) as terminal:
        yield terminal


async def arrived(folder: Path, typed: bytes) -> None:
    """Wait until the program has read as many bytes, and compare."""
    async with asyncio.timeout(20):
        while len((folder / "keys").read_bytes()) < len(typed):  # another process gives no event to wait for
            await asyncio.sleep(0.02)
    assert (folder / "keys").read_bytes() == typed


async def test_every_key_arrives_as_it_was_typed_and_the_leave_key_passes_f8_and_itself_on(
    pane: OuterTerminal, tmp_path: Path
) -> None:
    await pane.type("python3 reader.py", "enter")
    await pane.sees("READY")
    assert len(KEYS) >= 120
    typed = b""
    for keys, gap in ((KEYS, 0.01), (AMBIGUOUS, 0.01), (AMBIGUOUS, 0.06), (AMBIGUOUS, 0.12)):
        for key in keys:
            pane.send(key)
            typed += key
            await asyncio.sleep(gap)
        await arrived(tmp_path, typed)
    await pane.type("^]", "f8", "^]", "^]")
    await arrived(tmp_path, typed + b"\x1b[19~\x1d")
    await pane.sees(lambda text: "F8 Send" not in text)
    await pane.type("^]")
    await pane.sees("F8 Send")
    await pane.sees(lambda text: "F8 Send" not in text and "^T type" in text)  # a second without a key leaves
    await pane.type("hello", "^t", "x")
    await arrived(tmp_path, typed + b"\x1b[19~\x1dx")
    await pane.sees("hello")


def readline_name(key: bytes) -> str:
    """Name a key in letters that are not in the table: readline reads again what a key stands for."""
    return "".join("ghijklmnopqrstuv"[int(digit, 16)] for digit in key.hex()) + "x"


async def raw_reader(folder: Path, gaps: Sequence[float]) -> None:
    async with open_pane(folder) as pane:
        await pane.type("python3 reader.py", "enter")
        await pane.sees("READY")
        await send(pane, KEYS, gaps)
        await arrived(folder, b"".join(KEYS) * len(gaps))


async def readline(folder: Path, gaps: Sequence[float]) -> None:
    names = ['"' + "".join(rf"\{byte:03o}" for byte in key) + f'": "{readline_name(key)}"' for key in KEYS]
    settings = ("convert-meta off", "input-meta on", "bind-tty-special-chars off", "enable-bracketed-paste off")
    (folder / "inputrc").write_text("\n".join([*(f"set {one}" for one in settings), *names, '"y": accept-line\n']))
    no_signals = "stty intr undef quit undef susp undef eof undef -ixon"
    read = 'IFS= read -rep READY line; printf %s "$line" > keys'
    (folder / "reader.sh").write_text(f"{no_signals}; {read}; stty sane")
    async with open_pane(folder) as pane:
        await pane.type("INPUTRC=inputrc bash --norc reader.sh", "enter")
        await pane.sees("READY")
        await send(pane, KEYS, gaps)
        await pane.type("y")
        known = {readline_name(key).removesuffix("x"): key for key in KEYS}
        assert [known.get(name) for name in (await written(folder)).split("x")[:-1]] == KEYS * len(gaps)


VIM = shutil.which("vim") or shutil.which("vim.tiny")
VIM_KEYS = [key for key in KEYS if key != b"\x03"]
"""Without ^C, which interrupts the script that reads."""

VIM_SCRIPT = """set nocompatible ttimeout ttimeoutlen=5 t_RV= t_u7= t_RB= t_RF= t_RS= t_RC= t_BE=
let keys = []
echo 'READY'
while 1
  let key = getchar()
  if key == char2nr('y') | break | endif
  call add(keys, type(key) == type(0) ? key : strtrans(key))
endwhile
call writefile([json_encode(keys)], 'keys')
qa!
"""


async def vim(folder: Path, gaps: Sequence[float]) -> list[object]:
    """Return what vim reads through the pane, in its own names."""
    (folder / "read.vim").write_text(VIM_SCRIPT)
    async with open_pane(folder) as pane:
        await pane.type(f"TERM=xterm-256color {VIM} -u NONE -N -S read.vim", "enter")
        await pane.sees("READY")
        await send(pane, VIM_KEYS, gaps)
        await pane.type("y")
        return json.loads(await written(folder))


async def vim_directly(folder: Path) -> list[object]:
    """Return what vim reads from a terminal of its own."""
    (folder / "read.vim").write_text(VIM_SCRIPT)
    argv = [str(VIM), "-u", "NONE", "-N", "-S", "read.vim"]
    process = PtyProcess.spawn(argv, cwd=str(folder), env={**os.environ, "TERM": "xterm-256color"})
    asyncio.get_running_loop().add_reader(process.fd, lambda: said.append(os.read(process.fd, 65_536)))
    said: list[bytes] = []
    try:
        async with asyncio.timeout(20):
            while b"READY" not in b"".join(said):
                await asyncio.sleep(0.02)  # another process gives no event to wait for
        for key in [*VIM_KEYS, b"y"]:
            process.write(key)
            await asyncio.sleep(0.01)
        return json.loads(await written(folder))
    finally:
        asyncio.get_running_loop().remove_reader(process.fd)
        process.close(force=True)


async def send(pane: OuterTerminal, keys: Sequence[bytes], gaps: Sequence[float]) -> None:
    """Type all keys once with each gap between them."""
    for gap in gaps:
        for key in keys:
            pane.send(key)
            await asyncio.sleep(gap)


async def written(folder: Path) -> str:
    """Wait for what the program writes at its end."""
    async with asyncio.timeout(40):
        while not (folder / "keys").exists() or not (folder / "keys").read_text():
            await asyncio.sleep(0.02)  # another process gives no event to wait for
    return (folder / "keys").read_text()


async def test_readline_vim_and_a_raw_reader_know_every_key_however_fast_it_is_typed(tmp_path: Path) -> None:
    def folder(name: str) -> Path:
        made = tmp_path / name
        made.mkdir()
        return made

    through: list[asyncio.Task[list[object]]] = []
    async with asyncio.TaskGroup() as together:  # side by side: nearly all of it is waiting
        direct = together.create_task(vim_directly(folder("direct"))) if VIM is not None else None
        for name, gaps in (("fast", (0.01, 0.06)), ("slow", (0.12,))):
            together.create_task(raw_reader(folder(f"raw-{name}"), gaps))
            together.create_task(readline(folder(f"readline-{name}"), gaps))
            if VIM is not None:
                through.append(together.create_task(vim(folder(f"vim-{name}"), gaps)))
    if direct is not None:
        assert len(direct.result()) >= 119
        assert [one.result() for one in through] == [direct.result() * 2, direct.result()]


@pytest.mark.skipif(VIM is None, reason="needs vim")
async def test_vim_gets_escape_before_a_colon(pane: OuterTerminal, tmp_path: Path) -> None:
    await pane.type(f"{VIM} -u NONE -N note", "enter")
    await pane.sees("note")
    for number, gap in enumerate((0.01, 0.06, 0.12)):
        await pane.type(f"oline {number}")
        for key in (ESC, b":w\r"):
            pane.send(key)
            await asyncio.sleep(gap)
        await pane.sees(f"{number + 2}L, ")
    await pane.type(":q", "enter")
    assert (tmp_path / "note").read_text().split() == ["line", "0", "line", "1", "line", "2"]
