"""What a person is told about a command before they say yes."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ollm_tui.core.base.escape import visible
from ollm_tui.core.bus.confirmation import CommandPreview, ConfirmationResponse
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.bus.notices import ConfirmationRequested, Notice
from ollm_tui.core.execution.executor import ToolExecutor
from ollm_tui.core.execution.options import ExecutorOptions
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.policy.command_warnings import ShellCommandReader
from ollm_tui.core.policy.engine import PolicyEngine
from ollm_tui.core.policy.rules import PolicyConfig
from ollm_tui.core.policy.shell.shell_line import analyse, last_program
from ollm_tui.core.shell.hub import CommandHub
from ollm_tui.core.tools.context import ToolContext
from ollm_tui.core.tools.registry import ToolRegistry
from ollm_tui.core.tools.shell import SHELL


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("12345")
    (tmp_path / "src" / "b.py").write_text("1234567890")
    (tmp_path / ".env").write_text("A=1\n")
    return tmp_path


def warnings(root: Path, command: str, cwd: str = "") -> tuple[str, ...]:
    return ShellCommandReader().facts(command, Workspace(root), cwd).warnings


@pytest.mark.parametrize("command", [
    "pytest -q", "make", "npm run build", "npm test", "cargo test", "go test ./...", "tox", "./x.sh", "python x.py",
    "python -m pytest", "uv run x", "sudo make", "bash -c 'make all'", "ls && make", "env A=1 make", "scripts/build", "node a.js",
])  # fmt: skip
def test_running_the_projects_own_code_is_said(root: Path, command: str) -> None:
    assert any("runs code of this project" in warning for warning in warnings(root, command))


@pytest.mark.parametrize(
    "command", ["ls", "git status", "npm view x", "python --version", "cargo --version", "/bin/ls", "echo make"]
)
def test_commands_that_do_not_are_left_alone(root: Path, command: str) -> None:
    assert warnings(root, command) == ()


@pytest.mark.parametrize(("command", "said"), [
    ("ls > out", "a redirection writes to out"),
    ("echo $(ls)", "command substitution"),
    ("ls\u202e", "U+202E"),
    ("ls\u200b", "U+200B"),
    ("r\u0430m x", "scripts that look alike"),
    ("ls \u2013la", "a dash that only looks like"),
    ("cat .env", ".env holds credentials"),
    ("cat ../x", "Outside the workspace: ../x"),
    ("cp src/a.py /tmp", "Outside the workspace: /tmp"),
    ("rm src/a.py", "Deletes 1 file (5 bytes): src/a.py; in no git repository"),
    ("rm -r src", "Deletes 2 files (15 bytes): src/"),
    ("ls && " * 40 + "ls" + " " * 3_000, "read it to its end"),
])  # fmt: skip
def test_what_calls_for_a_second_look_is_said(root: Path, command: str, said: str) -> None:
    assert any(said in warning for warning in warnings(root, command))


def test_paths_are_told_from_where_the_command_runs(root: Path) -> None:
    assert warnings(root, "rm a.py", "src") == ("Deletes 1 file (5 bytes): src/a.py; in no git repository",)
    assert warnings(root, "ls ../src", "src") == ()


def test_a_deletion_says_what_git_still_has(root: Path) -> None:
    subprocess.run(["git", "init", "-q", root], check=True)
    subprocess.run(["git", "-C", root, "add", "src/a.py"], check=True)
    assert warnings(root, "rm src/a.py")[0].endswith("src/a.py; tracked by git")
    assert warnings(root, "rm src/b.py")[0].endswith("src/b.py; not tracked by git")
    assert warnings(root, "rm -r src")[0].endswith("; 1 tracked by git, 1 not")


def test_a_deletion_says_what_undo_could_not_bring_back(root: Path) -> None:
    (root / ".gitignore").write_text("b.py\n")
    lost = "(ignored by git, larger than 1 MB, or credentials)"
    assert warnings(root, "rm -r src")[1:] == (f"Undo cannot bring 1 of them back {lost}",)
    assert warnings(root, "rm src/b.py")[1:] == (f"Undo cannot bring it back {lost}",)
    assert warnings(root, "rm src/a.py")[1:] == ()


def test_the_parts_are_named_as_they_were_understood() -> None:
    assert ShellCommandReader().facts("ls   -l; 'git' status | head").parts == ("ls -l", "git status", "head")


@given(st.text(max_size=40))
@settings(max_examples=100, deadline=None)
def test_any_line_can_be_looked_at_and_what_is_said_can_be_shown(
    tmp_path_factory: pytest.TempPathFactory, command: str
) -> None:
    facts = ShellCommandReader().facts(command, Workspace(tmp_path_factory.getbasetemp()))
    assert facts.parts == tuple(part.text for part in analyse(command).parts)
    for warning in facts.warnings:
        assert warning == visible(warning)
    assert bool(analyse(command).opaque_reasons) <= bool(facts.warnings)


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("grep x f", "grep"),
        ("cd src && rg 'a;b' .", "rg"),
        ("grep x f | head", "head"),
        ('echo "a && grep b"', "echo"),
        ("grep x f # and | more", "grep"),
        ("diff a b >/dev/null 2>&1", "diff"),
        ("X=1 Y=2 test -e a;", "test"),
        ("make & grep x f\n", "grep"),
        ("! grep x f", None),
        ("if grep x f; then :; fi", None),
        ("cat <<EOF\ngrep x\nEOF", "cat"),
        ("'grep' x", "grep"),
        ("/usr/bin/diff a b", "diff"),
        ('grep "$(cat p)" f', "grep"),
        ("[[ -e x ]]", "[["),
        ("true && (cd src; [ -e x ])", "["),
        ("$X x", None),
        ("grep 'x", None),
        ("   ", None),
        ("A=1", None),
    ],
)
def test_the_last_command_of_a_line_is_recognised(line: str, word: str | None) -> None:
    assert last_program(line) == word


@given(st.text(max_size=80))
@settings(max_examples=100)
def test_recognising_the_last_command_ends_on_any_text(line: str) -> None:
    word = last_program(line)
    assert word is None or word


async def test_the_executor_alone_shows_warnings_and_reads_answers(root: Path, tmp_path: Path) -> None:
    registry, bus, hub = ToolRegistry(), MessageBus(), CommandHub(tmp_path / "logs", grace=0.5)
    registry.register(SHELL)
    shown: list[CommandPreview] = []

    def approve(notice: Notice) -> None:
        if isinstance(notice, ConfirmationRequested):
            request = notice.confirmation.request
            assert isinstance(request.details.preview, CommandPreview)
            shown.append(request.details.preview)
            answer = ConfirmationResponse(id=request.id, approved=True)
            asyncio.get_running_loop().call_soon(bus.respond_to_confirmation, answer)

    bus.subscribe(approve)
    options = ExecutorOptions(context=ToolContext(bus=bus, commands=hub))
    executor = ToolExecutor(registry, PolicyEngine(PolicyConfig()), bus, Workspace(root), True, options)
    result = await executor.execute("shell", {"command": "cd  src && grep missing ../.env"})
    assert (result.exit_code, result.error) == (1, None)
    assert shown[0].parts == ("cd src", "grep missing ../.env")
    failed = await executor.execute("shell", {"command": "make no-such-target"})
    assert failed.error is not None
    assert shown[1].warnings == ("make runs code of this project",)
    assert await hub.close() == ()
