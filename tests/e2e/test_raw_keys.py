"""Keys typed at a real terminal reach the program in the pane with the bytes that were typed."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

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


@pytest.fixture
async def pane(tmp_path: Path) -> AsyncIterator[OuterTerminal]:
    """The dashboard with the focus in the person's shell."""
    (tmp_path / "reader.py").write_text(READER)
    terminal = OuterTerminal.start("--provider", "offline", cwd=tmp_path, environment={"PS1": "$ ", "SHELL": "/bin/sh"})
    await terminal.sees("OFFLINE")
    await terminal.type("^t")
    await terminal.sees("^] leave")
    yield terminal
    await terminal.close()


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
    await pane.sees(lambda text: "F8 Send F8" not in text)
    await pane.type("^]")
    await pane.sees("F8 Send F8")
    await pane.sees(lambda text: "F8 Send F8" not in text and "^T type" in text)  # a second without a key leaves
    await pane.type("hello", "^t", "x")
    await arrived(tmp_path, typed + b"\x1b[19~\x1dx")
    await pane.sees("hello")


def readline_name(key: bytes) -> str:
    """Name a key in letters that are not in the table: readline reads again what a key stands for."""
    return "".join("ghijklmnopqrstuv"[int(digit, 16)] for digit in key.hex()) + "x"


async def test_readline_knows_every_key(pane: OuterTerminal, tmp_path: Path) -> None:
    names = ['"' + "".join(rf"\{byte:03o}" for byte in key) + f'": "{readline_name(key)}"' for key in KEYS]
    settings = ("convert-meta off", "input-meta on", "bind-tty-special-chars off", "enable-bracketed-paste off")
    (tmp_path / "inputrc").write_text("\n".join([*(f"set {one}" for one in settings), *names, '"y": accept-line\n']))
    no_signals = "stty intr undef quit undef susp undef eof undef -ixon"
    read = 'IFS= read -rep READY line; printf %s "$line" > keys'
    (tmp_path / "reader.sh").write_text(f"{no_signals}; {read}; stty sane")
    await pane.type("INPUTRC=inputrc bash --norc reader.sh", "enter")
    await pane.sees("READY")
    for key in KEYS:
        pane.send(key)
        await asyncio.sleep(0.01)
    await pane.type("y")
    async with asyncio.timeout(20):
        while not (tmp_path / "keys").exists() or not (tmp_path / "keys").read_text():
            await asyncio.sleep(0.02)  # another process gives no event to wait for
    known = {readline_name(key).removesuffix("x"): key for key in KEYS}
    assert [known.get(name) for name in (tmp_path / "keys").read_text().split("x")[:-1]] == KEYS


@pytest.mark.skipif(shutil.which("vim") is None and shutil.which("vim.tiny") is None, reason="needs vim")
async def test_vim_gets_escape_before_a_colon(pane: OuterTerminal, tmp_path: Path) -> None:
    vim = shutil.which("vim") or shutil.which("vim.tiny")
    await pane.type(f"{vim} -u NONE -N note", "enter")
    await pane.sees("note")
    for number, gap in enumerate((0.01, 0.06, 0.12)):
        await pane.type(f"oline {number}")
        for key in (ESC, b":w\r"):
            pane.send(key)
            await asyncio.sleep(gap)
        await pane.sees(f"{number + 2}L, ")
    await pane.type(":q", "enter")
    assert (tmp_path / "note").read_text().split() == ["line", "0", "line", "1", "line", "2"]
