"""Passwords in git's configuration: what could hand them on in another form asks, what is masked goes on."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ollm_tui.core.fence.secrets import mask
from ollm_tui.core.policy.rules import Decision
from ollm_tui.core.sandbox.engines import look_works
from ollm_tui.options import Options
from ollm_tui.runtime import Attendance, configure, open_core

pytestmark = pytest.mark.skipif(not look_works(), reason="no cage for what only looks works here")

TOKEN = "tokenOfTwentyLetters"
LINES = (
    *("cat .git/config", "rev .git/config", "od -c .git/config", "sed p .git/./config", "cd .git && base64 config"),
    *("grep -r url .", "grep -r url .git", "rg url .git", "rg --hidden url", "diff -r . .git", "rg -g '*' url"),
    *("git remote -v | rev", "git config --get remote.origin.url | base64", "ls; git remote get-url origin |& tac"),
)
MASKED = ("git remote -v", "git remote get-url origin", "git remote -v || true", "git remote -v; ls", "ls .git")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    return tmp_path


def add_remote(repository: Path, url: str) -> None:
    subprocess.run(["git", "-C", str(repository), "remote", "add", "origin", url], check=True)


@pytest.mark.parametrize("url", [f"https://{TOKEN}@h.example/x", "https://bob:hunter22@h.example/x"])
async def test_a_password_is_not_printed_in_another_form_unasked(repository: Path, url: str) -> None:
    async with open_core(configure(Options(workspace=repository)), Attendance.NOBODY) as core:
        for line in (*LINES, *MASKED):
            assert (await core.executor.explain("shell", {"command": line})).decision is Decision.ALLOW, line
        add_remote(repository, url)
        for line in LINES:
            assert (await core.executor.explain("shell", {"command": line})).decision is Decision.ASK, line
        for arguments in ({"path": ".git/config"}, {"path": ".git/config", "encoding": "base64"}):
            assert (await core.executor.explain("read_file", arguments)).decision is Decision.ASK  # type: ignore[arg-type]  # plain JSON
        for line in MASKED:
            result = await core.executor.execute("shell", {"command": line})
            assert result.error is None and TOKEN not in result.for_model() and "hunter22" not in result.for_model()


async def test_a_submodules_configuration_counts_as_well(repository: Path) -> None:
    inner = repository / ".git" / "modules" / "inner"
    inner.mkdir(parents=True)
    (inner / "config").write_text(f'[remote "origin"]\n\turl = https://{TOKEN}@h.example/x\n')
    async with open_core(configure(Options(workspace=repository)), Attendance.NOBODY) as core:
        for line in ("grep -r url .", "cat .git/modules/inner/config", "grep -r url .git/modules"):
            assert (await core.executor.explain("shell", {"command": line})).decision is Decision.ASK, line
        assert (await core.executor.explain("shell", {"command": "cat .git/config"})).decision is Decision.ALLOW


def test_logs_hold_no_token_that_stands_for_a_user_in_an_address() -> None:
    assert mask(f"origin https://{TOKEN}@h.example/x") == "origin https://***@h.example/x"
    assert mask("ssh://git@h.example/x https://bob@h.example") == "ssh://git@h.example/x https://bob@h.example"
