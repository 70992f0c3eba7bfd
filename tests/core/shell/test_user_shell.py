"""The person's shell tells its prompts, commands, exit codes and folder, whatever their start files make of it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ollm_tui.core.shell.hub import CommandHub, CommandRequest, awaitable_of
from ollm_tui.core.shell.pty_process import FILE_BYTES
from ollm_tui.tui.terminal.emulator.osc import directory_from
from tests.core.shell.conftest import until

MARK = re.compile(rb"\x1b\](133;[A-D](?:;\d+)?|7;[^\a]*)\a")


class Terminal:
    """What the shell has written, and its marks in order."""

    def __init__(self, hub: CommandHub, shell: str) -> None:
        self.hub, self.shell = hub, shell
        self.data = b""
        hub.find(shell).output.attach(self.feed)

    def feed(self, data: bytes) -> None:
        self.data += data

    @property
    def marks(self) -> list[str]:
        return [mark.decode() for mark in MARK.findall(self.data)]

    async def prompts(self, count: int) -> None:
        await until(lambda: self.marks.count("133;B") >= count, 10)

    async def run(self, line: str) -> list[str]:
        """Type a line at a prompt; the marks from then to the next prompt, the folder's left out."""
        before, prompts = len(self.marks), self.marks.count("133;B")
        self.hub.find(self.shell).type(line.encode() + b"\r")
        await self.prompts(prompts + 1)
        return [mark for mark in self.marks[before:] if not mark.startswith("7;")]


@asynccontextmanager
async def shell_in(folder: Path, shell: str, start: str, home: Path) -> AsyncIterator[Terminal]:
    name = ".zshrc" if shell.endswith("zsh") else ".bashrc"
    (home / name).write_text(start)
    environment = {**os.environ, "HOME": str(home), "SHELL": shell}
    environment.pop("PROMPT_COMMAND", None)
    hub = CommandHub(folder / "logs", environment=environment, grace=0.5)
    terminal = Terminal(hub, await hub.open_person_shell(90, 30, cwd=folder))
    await terminal.prompts(1)
    yield terminal
    await hub.close()


ZSH = shutil.which("zsh") or ""

SHELLS = [
    pytest.param("/bin/bash", "PS1='> '", id="bash"),
    pytest.param("/bin/bash", "PROMPT_COMMAND='PS1=\"> \"'", id="bash that makes its prompt each time"),
    pytest.param("/bin/bash", "PROMPT_COMMAND=('true' 'PS1=\"$? > \"')", id="bash with a list of commands"),
    pytest.param("/bin/bash", "PS0='[begun]'; set -u", id="bash that is strict"),
    pytest.param(ZSH, "PS1='> '", id="zsh", marks=pytest.mark.skipif(not ZSH, reason="zsh is not installed")),
    pytest.param(
        ZSH,
        "precmd() { PS1='> ' }; preexec() { : }",
        id="zsh that makes its prompt each time",
        marks=pytest.mark.skipif(not ZSH, reason="zsh is not installed"),
    ),
]


@pytest.mark.parametrize(("shell", "start"), SHELLS)
async def test_boundaries_exit_codes_and_folder_are_told(tmp_path: Path, shell: str, start: str) -> None:
    home = tmp_path / "home"
    odd = tmp_path / "100%41 odd ü"
    home.mkdir()
    odd.mkdir()
    async with shell_in(tmp_path, shell, start, home) as terminal:
        assert await terminal.run("false") == ["133;C", "133;D;1", "133;A", "133;B"]
        assert await terminal.run("(exit 7)") == ["133;C", "133;D;7", "133;A", "133;B"]
        await terminal.run(f"cd '{odd}'")
        told = [mark for mark in terminal.marks if mark.startswith("7;")][-1]
        directory = directory_from(told.removeprefix("7;"))
        assert directory is not None
        assert directory.path == str(odd)


async def test_what_the_prompt_itself_asks_is_still_the_commands_exit_code(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    async with shell_in(tmp_path, "/bin/bash", "PROMPT_COMMAND='PS1=\"code-$? > \"'", home) as terminal:
        await terminal.run("(exit 3)")
        assert b"code-3 >" in terminal.data


async def test_the_persons_own_shell_keeps_their_limits_though_commands_are_bounded(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    hub = CommandHub(tmp_path / "logs", grace=0.5)
    before = await _output(hub, "ulimit -Sf", tmp_path)
    assert before == str(FILE_BYTES >> 10)
    async with shell_in(tmp_path, "/bin/bash", "PS1='> '", home) as terminal:
        await terminal.run("echo limits-$(ulimit -Sf)")
        assert b"limits-unlimited" in terminal.data
    await hub.close()


async def _output(hub: CommandHub, line: str, folder: Path) -> str:
    command = await hub.start(CommandRequest(line, folder))
    await awaitable_of(command.done)
    return b"".join(command.output.pieces(0)).decode().strip()
