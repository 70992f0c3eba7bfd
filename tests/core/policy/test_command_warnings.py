"""What a person is told about a command before they say yes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ollm_tui.core.base.escape import visible
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.policy.command_warnings import command_facts
from ollm_tui.core.policy.shell.shell_line import analyse


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("12345")
    (tmp_path / "src" / "b.py").write_text("1234567890")
    (tmp_path / ".env").write_text("A=1\n")
    return tmp_path


def concerns(root: Path, command: str, cwd: str = "") -> tuple[str, ...]:
    return command_facts(command, Workspace(root), cwd).concerns


@pytest.mark.parametrize("command", [
    "pytest -q", "make", "npm run build", "npm test", "cargo test", "go test ./...", "tox", "./x.sh", "python x.py",
    "python -m pytest", "uv run x", "sudo make", "bash -c 'make all'", "ls && make", "env A=1 make", "scripts/build", "node a.js",
])  # fmt: skip
def test_running_the_projects_own_code_is_said(root: Path, command: str) -> None:
    assert any("runs code of this project" in concern for concern in concerns(root, command))


@pytest.mark.parametrize(
    "command", ["ls", "git status", "npm view x", "python --version", "cargo --version", "/bin/ls", "echo make"]
)
def test_commands_that_do_not_are_left_alone(root: Path, command: str) -> None:
    assert concerns(root, command) == ()


@pytest.mark.parametrize(("command", "said"), [
    ("ls > out", "a redirection writes to out"),
    ("echo $(ls)", "command substitution"),
    ("ls\u202e", "U+202E"),
    ("ls\u200b", "U+200B"),
    ("r\u0430m x", "scripts that look alike"),
    ("ls \u2013la", "a dash that only looks like"),
    ("cat .env", ".env holds credentials"),
    ("cat ../x", "outside the workspace: ../x"),
    ("cp src/a.py /tmp", "outside the workspace: /tmp"),
    ("rm src/a.py", "takes 1 files (5 bytes): src/a.py; in no git repository"),
    ("rm -r src", "takes 2 files (15 bytes): src/"),
    ("ls && " * 40 + "ls" + " " * 3_000, "read it to its end"),
])  # fmt: skip
def test_what_calls_for_a_second_look_is_said(root: Path, command: str, said: str) -> None:
    assert any(said in concern for concern in concerns(root, command))


def test_paths_are_told_from_where_the_command_runs(root: Path) -> None:
    assert concerns(root, "rm a.py", "src") == ("It takes 1 files (5 bytes): src/a.py; in no git repository",)
    assert concerns(root, "ls ../src", "src") == ()


def test_a_deletion_says_what_git_still_has(root: Path) -> None:
    subprocess.run(["git", "init", "-q", root], check=True)
    subprocess.run(["git", "-C", root, "add", "src/a.py"], check=True)
    assert concerns(root, "rm src/a.py")[0].endswith("src/a.py; tracked by git")
    assert concerns(root, "rm src/b.py")[0].endswith("src/b.py; not tracked by git")
    assert concerns(root, "rm -r src")[0].endswith("; 1 tracked by git, 1 not")


def test_the_parts_are_named_as_they_were_understood() -> None:
    assert command_facts("ls   -l; 'git' status | head").parts == ("ls -l", "git status", "head")


@given(st.text(max_size=40))
@settings(max_examples=200, deadline=None)
def test_any_line_can_be_looked_at_and_what_is_said_can_be_shown(
    tmp_path_factory: pytest.TempPathFactory, command: str
) -> None:
    facts = command_facts(command, Workspace(tmp_path_factory.getbasetemp()))
    assert facts.parts == tuple(part.text for part in analyse(command).parts)
    for concern in facts.concerns:
        assert concern == visible(concern)
    assert bool(analyse(command).opaque_reasons) <= bool(facts.concerns)
