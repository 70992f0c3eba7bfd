"""The git tools that change a repository: what they ask about, what they do, and which programs never start."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.base.errors import InvalidArguments, ShellExecutionFailed
from ollm_tui.core.base.results import ToolResult
from ollm_tui.core.bus.confirmation import TextPreview
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.tools.base import AnyInvocation, AnyTool, Effect
from ollm_tui.core.tools.context import ToolContext
from ollm_tui.core.tools.git_branches import GIT_BRANCH, GIT_CHECKOUT, GIT_PUSH, GitBranchesData
from ollm_tui.core.tools.git_changing import GIT_ADD, GIT_COMMIT
from tests.core.tools.git_repositories import NOBODY, commit, git, make_repository, write


@pytest.fixture(autouse=True)
def identity(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in NOBODY.items():
        if name.startswith(("GIT_AUTHOR", "GIT_COMMITTER")):
            monkeypatch.setenv(name, value)


def call_of(root: Path, tool: AnyTool, **arguments: object) -> AnyInvocation:
    call = tool.create_invocation(arguments, ToolContext(bus=MessageBus(), workspace=Workspace(root)))
    call.approved = True
    return call


def do(root: Path, tool: AnyTool, **arguments: object) -> ToolResult:
    async def run() -> ToolResult:
        call, signal = call_of(root, tool, **arguments), AbortController().signal
        return await call.check(signal) or await call.execute(signal)

    return asyncio.run(run())


def asked(root: Path, tool: AnyTool, **arguments: object) -> TextPreview:
    async def run() -> object:
        return await (await call_of(root, tool, **arguments).question()).preview()

    preview = asyncio.run(run())
    assert isinstance(preview, TextPreview)
    return preview


def test_files_are_staged_and_committed_as_the_question_showed(tmp_path: Path) -> None:
    root = make_repository(tmp_path, {"a": "1\n", "b": "1\n"})
    write(root, {"a": "2\n", "b": "2\n", "new/c": "3\n"})
    shown = asked(root, GIT_ADD, paths=["a", "new"])
    assert "new file: new/c" in shown.text and "+2" in shown.text and "b/b" not in shown.text
    assert "Staged a, new\n\nOn branch main" in do(root, GIT_ADD, paths=["a", "new"]).llm_content
    shown = asked(root, GIT_COMMIT, message="second\n\nwhy")
    assert shown.text.startswith("on main:\n\nsecond\n\nwhy\n\ndiff --git a/a b/a") and not shown.warnings
    result = do(root, GIT_COMMIT, message="second\n\nwhy")
    assert "second" in result.llm_content and "Not staged:\n  modified: b" in result.llm_content
    assert git(root, "log", "-1", "--format=%B").strip() == "second\n\nwhy"
    assert git(root, "show", "--name-only", "--format=", "HEAD").split() == ["a", "new/c"]


def test_single_paths_are_committed_and_a_commit_is_replaced(tmp_path: Path) -> None:
    root = make_repository(tmp_path, {"a": "1\n", "b": "1\n"})
    write(root, {"a": "2\n", "b": "2\n"})
    git(root, "add", "b")
    do(root, GIT_COMMIT, message="only a", paths=["a"])
    assert git(root, "show", "--name-only", "--format=", "HEAD").split() == ["a"]
    shown = asked(root, GIT_COMMIT, message="both", amend=True)
    assert any("replaces the commit" in warning and "only a" in warning for warning in shown.warnings)
    do(root, GIT_COMMIT, message="both", amend=True)
    assert git(root, "log", "--format=%s").split("\n")[:2] == ["both", "first"]
    with pytest.raises(ShellExecutionFailed, match="nothing to commit"):
        do(root, GIT_COMMIT, message="more")


def test_the_first_commit_of_a_repository(tmp_path: Path) -> None:
    root = make_repository(tmp_path)
    write(root, {"a": "1"})
    do(root, GIT_ADD, paths=["a"])
    assert "on main" in asked(root, GIT_COMMIT, message="first").text
    do(root, GIT_COMMIT, message="first")
    assert git(root, "log", "--format=%s").strip() == "first"


def test_hooks_are_named_and_run_only_once_somebody_was_asked(tmp_path: Path) -> None:
    root = make_repository(tmp_path, {"a": "1\n"})
    hook = root / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntouch ran\n")
    hook.chmod(0o755)
    write(root, {"a": "2\n"})
    git(root, "add", "a")
    (warning,) = asked(root, GIT_COMMIT, message="m").warnings
    assert "runs the hook" in warning and "pre-commit" in warning and "sha256" in warning

    async def unasked() -> ToolResult:
        call = call_of(root, GIT_COMMIT, message="m")
        call.approved = False
        return await call.execute(AbortController().signal)

    assert "hooks were not run" in asyncio.run(unasked()).llm_content and not (root / "ran").exists()
    do(root, GIT_COMMIT, message="m", amend=True)
    assert (root / "ran").exists()


def test_what_changed_after_the_question_asks_again(tmp_path: Path) -> None:
    root = make_repository(tmp_path, {"a": "1\n"})
    write(root, {"a": "2\n"})
    git(root, "add", "a")
    before = asyncio.run(call_of(root, GIT_COMMIT, message="m").question()).state
    write(root, {"a": "3\n"})
    git(root, "add", "a")
    assert asyncio.run(call_of(root, GIT_COMMIT, message="m").question()).state != before


def test_branches_are_made_listed_and_deleted(tmp_path: Path) -> None:
    root = make_repository(tmp_path, {"a": "1"})
    do(root, GIT_BRANCH, name="side")
    do(root, GIT_CHECKOUT, revision="side")
    commit(root, "unmerged", {"b": "1"})
    listed = do(root, GIT_BRANCH, action="list")
    assert listed.data == GitBranchesData(branches=("main", "side"), current="side")
    assert "* side" in listed.llm_content
    do(root, GIT_CHECKOUT, revision="main")
    with pytest.raises(ShellExecutionFailed, match="not fully merged"):
        do(root, GIT_BRANCH, name="side", action="delete")
    do(root, GIT_BRANCH, name="other", **{"from": "side"})
    git(root, "merge", "-q", "side")
    assert "Deleted branch side" in do(root, GIT_BRANCH, name="side", action="delete").llm_content
    with pytest.raises(InvalidArguments, match="name is missing"):
        do(root, GIT_BRANCH)


def test_a_checkout_shows_what_would_be_lost_and_keeps_what_is_not_committed(tmp_path: Path) -> None:
    root = make_repository(tmp_path, {"a": "1\n"})
    second = commit(root, "second", {"a": "2\n"})
    write(root, {"a": "mine\n"})
    shown = asked(root, GIT_CHECKOUT, revision="HEAD", paths=["a"])
    assert "-mine\n+2" in shown.text and "is lost" in shown.warnings[0]
    with pytest.raises(ShellExecutionFailed, match="overwritten"):
        do(root, GIT_CHECKOUT, revision="HEAD~1")
    assert (root / "a").read_text() == "mine\n"
    do(root, GIT_CHECKOUT, revision="HEAD", paths=["a"])
    assert (root / "a").read_text() == "2\n"
    do(root, GIT_CHECKOUT, revision=second)
    assert git(root, "branch", "--show-current") == ""
    do(root, GIT_CHECKOUT, revision="fresh", create=True)
    assert git(root, "branch", "--show-current").strip() == "fresh"


@pytest.mark.parametrize("paths", [["."], ["a", "./"], [], ["sub/.."]])
def test_everything_is_never_staged_at_once(tmp_path: Path, paths: list[str]) -> None:
    with pytest.raises(InvalidArguments):
        do(make_repository(tmp_path), GIT_ADD, paths=paths)


def test_a_push_names_the_remote_and_its_commits(tmp_path: Path) -> None:
    there = make_repository(tmp_path / "there", None, "--bare")
    root = make_repository(tmp_path / "here", {"a": "1"})
    git(root, "remote", "add", "origin", str(there))
    shown = asked(root, GIT_PUSH)
    assert f"to {there}" in shown.text and "new there" in shown.text and shown.text.endswith("first")
    result = do(root, GIT_PUSH, setUpstream=True)
    assert "Pushed main to origin" in result.llm_content and "level of origin/main" in result.llm_content
    assert git(there, "log", "--format=%s", "main").strip() == "first"
    commit(root, "second", {"a": "2"})
    shown = asked(root, GIT_PUSH)
    assert shown.text.endswith("second") and "first" not in shown.text


def test_a_push_is_forced_only_over_what_was_fetched(tmp_path: Path) -> None:
    there = make_repository(tmp_path / "there", None, "--bare")
    root = make_repository(tmp_path / "here", {"a": "1"})
    git(root, "remote", "add", "origin", str(there))
    do(root, GIT_PUSH)
    git(root, "commit", "-q", "--amend", "-m", "other")
    with pytest.raises(ShellExecutionFailed):
        do(root, GIT_PUSH)
    assert "removes these commits there" in asked(root, GIT_PUSH, forceWithLease=True).warnings[0]
    do(root, GIT_PUSH, forceWithLease=True)
    assert git(there, "log", "--format=%s", "main").strip() == "other"
    git(tmp_path, "clone", "-q", str(there), "third")
    commit(tmp_path / "third", "theirs", {"b": "1"})
    git(tmp_path / "third", "push", "-q")
    git(root, "commit", "-q", "--amend", "-m", "again")
    with pytest.raises(ShellExecutionFailed):
        do(root, GIT_PUSH, forceWithLease=True)
    assert git(there, "log", "-1", "--format=%s", "main").strip() == "theirs"


def test_a_password_in_the_address_is_not_shown(tmp_path: Path) -> None:
    root = make_repository(tmp_path, {"a": "1"})
    git(root, "remote", "add", "origin", "https://ann:s3cretpassw0rd@example.org/x.git")
    shown = asked(root, GIT_PUSH)
    assert "s3cret" not in shown.text and "example.org" in shown.text


HOSTILE = {
    "core.sshCommand": "{} #",
    "core.pager": "{}",
    "core.editor": "{}",
    "core.fsmonitor": "{}",
    "credential.helper": "!{}",
    "diff.external": "{}",
    "gpg.program": "{}",
    "commit.gpgSign": "true",
    "push.gpgSign": "true",
    "remote.origin.receivepack": "{}",
    "remote.origin.vcs": "",
    "sequence.editor": "{}",
}


def test_no_repository_starts_a_program_by_being_changed(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    there = make_repository(tmp_path / "there", None, "--bare")
    root = make_repository(tmp_path / "here", {"a": "1\n"})
    git(root, "remote", "add", "origin", str(there))
    write(tmp_path, {"evil.sh": f"#!/bin/sh\ntouch {canary}\nexit 0\n"})
    (tmp_path / "evil.sh").chmod(0o755)
    for key, value in HOSTILE.items():
        if value:
            git(root, "config", key, value.format(tmp_path / "evil.sh"))
    write(root, {"a": "2\n"})
    do(root, GIT_ADD, paths=["a"])
    do(root, GIT_COMMIT, message="m")
    do(root, GIT_BRANCH, name="side")
    do(root, GIT_CHECKOUT, revision="side")
    do(root, GIT_PUSH)
    assert git(there, "log", "-1", "--format=%s", "side").strip() == "m"
    assert not canary.exists()


def test_a_filter_of_the_repository_makes_it_ask_whatever_the_rules_say(tmp_path: Path) -> None:
    root = make_repository(tmp_path, {"a": "1\n"})
    git(root, "config", "filter.x.clean", "touch canary")
    assert "filter.x.clean" in (call_of(root, GIT_ADD, paths=["a"]).facts().question or "")
    assert GIT_PUSH.needs_approval(call_of(root, GIT_PUSH).params)
    # Mode auto-edit allows edits of files; these are commands.
    assert {tool.effect for tool in (GIT_ADD, GIT_COMMIT, GIT_BRANCH, GIT_CHECKOUT, GIT_PUSH)} <= {
        Effect.RUNS,
        Effect.SENDS,
    }
