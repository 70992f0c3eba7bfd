"""A workspace, a home and listeners, and commands that run there in a cage or outside."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.sandbox.engines import Sandbox, SandboxSettings

TCP = 'exec 5<>"/dev/tcp/127.0.0.1/$PORT"'
IDENTITY = "git -c user.name=a -c user.email=a@b"


@dataclass
class Room:
    """A workspace with a repository, a home with a secret, and listeners that a cage must not reach."""

    root: Path
    settings: SandboxSettings = field(default_factory=SandboxSettings)
    facts: dict[str, object] = field(default_factory=dict[str, object])
    name: str = "work space\n1"
    """The workspace's."""
    grants: dict[str, Any] = field(default_factory=dict[str, Any])
    """What else the cage is asked for."""
    said: Sequence[str] = ()
    """What there was to say of the last command."""

    @property
    def workspace(self) -> Path:
        return self.root / self.name

    @property
    def home(self) -> Path:
        return self.root / "home"

    def run(self, command: str, *, caged: bool = True) -> tuple[int, str]:
        variables = {**os.environ, **{name: str(value) for name, value in self.facts.items()}}
        variables |= {"HOME": str(self.home), "PYTHON": sys.executable}
        cage = Sandbox(self.settings).work_cage(Workspace(self.workspace), **self.grants)
        line = ["/bin/bash", "--noprofile", "--norc", "-c", command]

        def start(environment: Mapping[str, str]) -> tuple[int, str]:
            ran = subprocess.run(
                argv, cwd=self.workspace, env=environment, text=True, start_new_session=True, timeout=60,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                pass_fds=cage.passed,
            )  # fmt: skip
            return ran.returncode, ran.stdout

        try:
            argv = cage.command(line, variables) if caged else line
            return cage.start(start, variables, None) if caged else start(variables)
        finally:
            cage.close()
            self.said = cage.after()


@contextmanager
def furnished(root: Path) -> Iterator[Room]:
    """Make a room, and what its rows must not reach, for as long as it is used."""
    made = Room(root)
    made.workspace.mkdir()
    made.home.mkdir()
    (made.home / "secret").write_text("hidden words\n")
    (made.workspace / "file").write_text("one\n")
    (made.workspace / ".env").write_text("KEY=1\n")
    (made.workspace / ".ollm").mkdir()
    (made.workspace / "sub").mkdir()
    for folder in (made.workspace, made.workspace / "sub"):
        subprocess.run(["git", "init", "-q", "."], cwd=folder, check=True)
    subprocess.run(["bash", "-c", f"git add file; {IDENTITY} commit -qm first"], cwd=made.workspace, check=True)
    with ExitStack() as stack:
        other = stack.enter_context(subprocess.Popen(["sleep", "600"]))
        stack.callback(other.kill)
        made.facts["OTHER"] = other.pid
        listener = stack.enter_context(closing(socket.create_server(("127.0.0.1", 0))))
        made.facts["PORT"] = listener.getsockname()[1]
        local = stack.enter_context(closing(socket.socket(socket.AF_UNIX)))
        at = os.getcwd()
        os.chdir(made.workspace)
        local.bind("socket")
        os.chdir(at)
        local.listen()
        for each in (listener, local):
            threading.Thread(target=_accept, args=(each,), daemon=True).start()
        yield made


def _accept(listener: socket.socket) -> None:
    while True:
        try:
            listener.accept()[0].close()
        except OSError:
            return
