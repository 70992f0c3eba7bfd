"""A workspace, a home and listeners, and commands that run there in a cage or outside."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
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
