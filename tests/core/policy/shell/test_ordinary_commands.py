"""What developers type all day, and whether it is asked about: a change of the reading changes no answer unseen."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ollm_tui.core.policy.engine import JudgedCall, PolicyEngine
from ollm_tui.core.sandbox.look import works as cage_works
from ollm_tui.core.tools.base import Effect
from ollm_tui.core.tools.shell import SHELL
from ollm_tui.options import Options
from ollm_tui.runtime import configure
from tests import DATA_DIR

FILES = ("README.md", "src/app.py", "tests/test_app.py", "package.json", "data.txt", ".gitignore")


@pytest.mark.skipif(not cage_works(), reason="without a cage what only reads asks as well")
def test_ordinary_commands_keep_their_answers(tmp_path: Path) -> None:
    """In an ordinary repository, by the preset `balanced`; the file's lines are answer, tab, command."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x\n")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    engine = PolicyEngine(configure(Options(workspace=tmp_path)).sources)
    wanted = (DATA_DIR / "shell_lines" / "ordinary_commands.tsv").read_text("utf-8").splitlines()
    given = [
        f"{engine.explain(JudgedCall(SHELL, {'command': command}, Effect.RUNS)).decision}\t{command}"
        for _, _, command in (line.partition("\t") for line in wanted)
    ]
    assert given == wanted
