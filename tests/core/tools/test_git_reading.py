"""The git tools that only look: their answers on real repositories, and that no repository starts a program."""

from __future__ import annotations

import asyncio
import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import pytest

from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.base.errors import FileTooLarge, InvalidArguments, ShellExecutionFailed
from ollm_tui.core.base.results import ExecutionPlace, ToolData, ToolResult
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.git.reports import GitBlameData, GitDiffData, GitLogData, GitShowData, GitStatusData
from ollm_tui.core.sandbox import look
from ollm_tui.core.sandbox.engines import bubblewrap
from ollm_tui.core.tools import git_calls
from ollm_tui.core.tools.base import AnyInvocation, AnyTool
from ollm_tui.core.tools.context import Limits, ToolContext
from ollm_tui.core.tools.git_reading import GIT_BLAME, GIT_DIFF, GIT_LOG, GIT_SHOW, GIT_STATUS
from tests.core.tools.git_repositories import commit, git, make_repository, write

Data = TypeVar("Data", bound=ToolData)


@pytest.fixture(params=["landlock", "bubblewrap"])
def held_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have one engine hold what only reads."""
    works = look.works() if request.param == "landlock" else not bubblewrap().problem
    if not works:
        pytest.skip(f"{request.param} does not work here")
    monkeypatch.setattr(look, "works", lambda: request.param == "landlock")
    return str(request.param)


def ask(root: Path, tool: AnyTool, **arguments: object) -> ToolResult:
    return asyncio.run(call_of(root, tool, arguments).execute(AbortController().signal))


def call_of(root: Path, tool: AnyTool, arguments: dict[str, object], limits: Limits | None = None) -> AnyInvocation:
    context = ToolContext(bus=MessageBus(), workspace=Workspace(root), limits=limits or Limits())
    return tool.create_invocation(arguments, context)


def data(result: ToolResult, kind: type[Data]) -> Data:
    assert isinstance(result.data, kind)
    return result.data


def status_of(root: Path, **arguments: object) -> GitStatusData:
    return data(ask(root, GIT_STATUS, **arguments), GitStatusData)


def test_states_of_files_stand_apart(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "a b", {"old": "1\n2\n3\n", "both": "x\n", "gone": "y\n"})
    git(root, "mv", "old", "new")
    write(root, {"both": "staged\n"})
    git(root, "add", "both")
    write(root, {"both": "again\n", "extra/file": "", "we\nird": ""})
    (root / "gone").unlink()
    status = status_of(root)
    assert [(each.kind, each.path, each.old_path) for each in status.staged] == [
        ("modified", "both", None),
        ("renamed", "new", "old"),
    ]
    assert [(each.kind, each.path) for each in status.unstaged] == [("modified", "both"), ("deleted", "gone")]
    assert status.untracked == ("extra/file", '"we\\nird"')
    text = ask(root, GIT_STATUS).llm_content
    assert text.startswith("On branch main\n\nStaged:\n  modified: both\n  renamed: old -> new\n\nNot staged:")
    assert status_of(root, path="extra").untracked == ("extra/file",)


def test_a_clean_an_unborn_and_a_detached_head(tmp_path: Path) -> None:
    root = make_repository(tmp_path)
    assert ask(root, GIT_STATUS).llm_content.startswith("On branch main, no commits yet")
    assert ask(root, GIT_LOG).llm_content == "No commits yet"
    first = commit(root, "first", {"a": "1"})
    assert ask(root, GIT_STATUS).llm_content == "On branch main\nNothing to commit, working tree clean"
    git(root, "checkout", "-q", "--detach")
    assert ask(root, GIT_STATUS).llm_content.startswith(f"HEAD detached at {first[:9]}")
    assert status_of(root).branch is None


def test_a_conflict_names_its_files_and_the_merge(tmp_path: Path) -> None:
    root = make_repository(tmp_path, {"a": "one\n"})
    git(root, "checkout", "-q", "-b", "side")
    commit(root, "side", {"a": "two\n"})
    git(root, "checkout", "-q", "main")
    commit(root, "main", {"a": "three\n"})
    git(root, "merge", "side", check=False)
    status = status_of(root)
    assert [(each.kind, each.path) for each in status.conflicts] == [("UU", "a")]
    assert status.operation == "merge" and "A merge is not finished" in ask(root, GIT_STATUS).llm_content


def test_a_branch_says_how_far_it_is_from_its_upstream(tmp_path: Path) -> None:
    origin = make_repository(tmp_path / "origin", {"a": "1"})
    git(tmp_path, "clone", "-q", str(origin), "copy")
    commit(tmp_path / "copy", "mine", {"b": "1"})
    commit(origin, "theirs", {"c": "1"})
    git(tmp_path / "copy", "fetch", "-q")
    status = status_of(tmp_path / "copy")
    assert (status.upstream, status.ahead, status.behind) == ("origin/main", 1, 1)
    assert "1 ahead and 1 behind of origin/main" in ask(tmp_path / "copy", GIT_STATUS).llm_content


@pytest.mark.parametrize("options", [(), ("--object-format=sha256",)])
def test_diffs_name_files_with_their_counts(tmp_path: Path, options: tuple[str, ...]) -> None:
    root = make_repository(tmp_path, {"a": "1\n2\n3\n4\n", "b": "old\n"}, *options)
    write(root, {"a": "1\n2\nthree\n4\n5\n"})
    git(root, "mv", "b", "c")
    unstaged = data(ask(root, GIT_DIFF), GitDiffData)
    assert [(each.path, each.additions, each.deletions) for each in unstaged.files] == [("a", 2, 1)]
    assert "-3\n+three" in unstaged.diff and ask(root, GIT_DIFF).llm_content.startswith("1 file, +2 -1\n\ndiff --git")
    staged = data(ask(root, GIT_DIFF, staged=True), GitDiffData)
    assert [(each.kind, each.path, each.old_path) for each in staged.files] == [("renamed", "c", "b")]
    narrow = data(ask(root, GIT_DIFF, revision="HEAD", contextLines=0), GitDiffData)
    assert {each.path for each in narrow.files} == {"a", "c"} and "\n 2\n" not in narrow.diff
    assert ask(root, GIT_DIFF, paths=["c"]).llm_content == "No changes"


def test_a_binary_file_has_no_counts(tmp_path: Path) -> None:
    root = make_repository(tmp_path, {"a": "1"})
    (root / "a").write_bytes(b"\0\1")
    assert data(ask(root, GIT_DIFF), GitDiffData).files[0].additions is None


def test_commits_are_found_by_words_author_and_path(tmp_path: Path) -> None:
    root = make_repository(tmp_path, {"a": "1"})
    second = commit(root, "second: Parser\n\nwhy it was\nchanged", {"b": "1"})
    commit(root, "third", {"a": "2"})
    commits = data(ask(root, GIT_LOG), GitLogData).commits
    assert [each.subject for each in commits] == ["third", "second: Parser", "first"]
    assert (commits[1].hash, commits[1].body) == (second, "why it was\nchanged")
    assert commits[0].refs == ("HEAD -> main",) and commits[1].parents == (commits[2].hash,)
    assert ask(root, GIT_LOG, grep="parser").llm_content == f"{second[:9]} 2026-01-02 Ann Author: second: Parser"
    assert [each.subject for each in data(ask(root, GIT_LOG, paths=["b"]), GitLogData).commits] == ["second: Parser"]
    assert ask(root, GIT_LOG, author="bob").llm_content == "No commits found"
    assert ask(root, GIT_LOG, limit=2).llm_content.endswith("[stopped at 2 commits; there are more]")


def test_a_commit_and_a_file_as_it_was(tmp_path: Path) -> None:
    root = make_repository(tmp_path, {"sub/a": "old\n"})
    commit(root, "second\n\nbody", {"sub/a": "new\n"})
    shown = ask(root, GIT_SHOW)
    assert shown.llm_content.startswith("commit ") and "second\n\nbody\n\n1 file, +1 -1\n\ndiff" in shown.llm_content
    assert data(ask(root, GIT_SHOW, revision="HEAD~1", path="sub/a"), GitShowData).content == "old\n"
    assert data(ask(root / "sub", GIT_SHOW, revision="main~1", path="a"), GitShowData).content == "old\n"
    assert "+new" in data(ask(root / "sub", GIT_SHOW), GitShowData).diff


def test_a_merge_shows_what_it_brought(tmp_path: Path) -> None:
    root = make_repository(tmp_path, {"a": "1\n"})
    git(root, "checkout", "-q", "-b", "side")
    commit(root, "side", {"b": "2\n"})
    git(root, "checkout", "-q", "main")
    commit(root, "main", {"c": "3\n"})
    git(root, "merge", "-q", "--no-edit", "side")
    shown = data(ask(root, GIT_SHOW), GitShowData)
    assert [each.path for each in shown.files] == ["b"] and shown.commit is not None and len(shown.commit.parents) == 2


def test_lines_have_their_commits(tmp_path: Path) -> None:
    root = make_repository(tmp_path, {"a": "1\n2\n3\n"})
    second = commit(root, "second", {"a": "1\ntwo\n3\n"})
    lines = data(ask(root, GIT_BLAME, path="a"), GitBlameData).lines
    assert [(each.start_line, each.end_line, each.subject) for each in lines] == [
        (1, 1, "first"),
        (2, 2, "second"),
        (3, 3, "first"),
    ]
    assert ask(root, GIT_BLAME, path="a", startLine=2, endLine=2).llm_content == (
        f"{second[:9]} 2026-01-02 Ann Author 2|two"
    )
    assert [each.subject for each in data(ask(root, GIT_BLAME, path="a", revision="HEAD~1"), GitBlameData).lines] == [
        "first"
    ]


def test_what_holds_secrets_is_left_out_unless_it_is_named(tmp_path: Path) -> None:
    root = make_repository(tmp_path, {".env": "KEY=abc\n" + STAYS, "a": "1\n"})
    write(root, {".env": "KEY=def\n" + STAYS, "a": "2\n"})
    for result in (ask(root, GIT_DIFF), ask(root, GIT_SHOW), ask(root, GIT_DIFF, revision="HEAD")):
        assert "KEY" not in result.llm_content and "left out" in result.notes[0] and ".env" in result.notes[0]
        assert "KEY" not in data(result, GitDiffData).diff
    git(root, "mv", ".env", "plain.txt")
    assert "KEY" not in ask(root, GIT_DIFF, revision="HEAD").llm_content
    assert "KEY=abc" in ask(root, GIT_DIFF, revision="HEAD", paths=[".env"]).llm_content  # the policy asks for it


def test_a_revision_that_is_no_commit_is_refused(tmp_path: Path) -> None:
    root = make_repository(tmp_path, {".env": "KEY=1\n", ".docker/config.json": "KEY=1\n"})
    commit(root, "second", {".env": "KEY=2\n", ".docker/config.json": "KEY=2\n"})
    for path in (".env", ".docker"):
        old, new = (git(root, "rev-parse", f"{revision}:{path}").strip() for revision in ("HEAD~1", "HEAD"))
        for tool, arguments in (
            *((GIT_DIFF, {"revision": revision}) for revision in (old, f"{old}..{new}", f"{old}...{new}")),
            *((GIT_SHOW, {"revision": new, **more}) for more in ({}, {"path": "config.json"})),
        ):
            with pytest.raises(ShellExecutionFailed, match="names no commit"):
                ask(root, tool, **arguments)
    git(root, "tag", "-am", "x", "v1")
    assert "KEY" not in ask(root, GIT_DIFF, revision="v1~1..v1").llm_content
    assert "KEY=2" in ask(root, GIT_SHOW, revision="v1", path=".env").llm_content, "named, it was asked about"


@pytest.mark.parametrize("revision", ["--output=x", "", "HEAD:.env", "a\nb", "-p"])
def test_a_revision_is_no_option_and_no_path(tmp_path: Path, revision: str) -> None:
    root = make_repository(tmp_path, {"a": "1"})
    for tool in (GIT_DIFF, GIT_LOG, GIT_SHOW):
        with pytest.raises(InvalidArguments, match="HEAD~1"):
            ask(root, tool, revision=revision)


def test_failures_say_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    with pytest.raises(ShellExecutionFailed, match="git init"):
        ask(tmp_path / "none", GIT_STATUS)
    root = make_repository(tmp_path / "some", {"a": "x" * 5_000})
    with pytest.raises(ShellExecutionFailed, match="git_log and git_branch show"):
        ask(root, GIT_DIFF, revision="nope")
    with pytest.raises(FileTooLarge, match="more than 1,000 bytes"):
        asyncio.run(call_of(root, GIT_SHOW, {"path": "a"}, Limits(file_bytes=1_000)).execute(AbortController().signal))
    with pytest.raises(InvalidArguments, match="startLine"):
        ask(root, GIT_BLAME, path="a", startLine=3, endLine=2)


def test_git_itself_never_comes_from_the_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_repository(tmp_path, {"a": "1"})
    (root / "git").write_text("#!/bin/sh\ntouch canary\n")
    (root / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{root}{os.pathsep}{os.environ['PATH']}")
    assert status_of(root).untracked == ("git",) and not (root / "canary").exists()


@pytest.mark.usefixtures("held_by")
def test_the_persons_own_ignored_files_are_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_repository(tmp_path / "w", {"a": "1"})
    write(tmp_path, {"config/git/ignore": "*.tmp\n"})
    write(root, {"x.tmp": "", "y": ""})
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert status_of(root).untracked == ("y",)


STAYS = "a line that stays\n" * 5

HOSTILE: dict[str, str] = {
    "core.fsmonitor": "{}",
    "core.pager": "{}",
    "core.editor": "{}",
    "core.sshCommand": "{}",
    "core.hooksPath": "hooks",
    "diff.external": "{}",
    "diff.evil.command": "{}",
    "diff.evil.textconv": "{}",
    "filter.evil.clean": "{}",
    "filter.evil.smudge": "{}",
    "filter.evil.process": "{}",
    "gpg.program": "{}",
    "log.showSignature": "true",
    "pager.log": "{}",
    "credential.helper": "!{}",
    "blame.ignoreRevsFile": "nothing",
}


@pytest.mark.usefixtures("held_by")
def test_no_repository_starts_a_program_that_reaches_out(tmp_path: Path) -> None:
    canary, program = tmp_path / "canary", tmp_path / "w" / "evil.sh"
    root = make_repository(tmp_path / "w", {"a": "1\n", ".gitattributes": "* diff=evil filter=evil\n"})
    write(
        root,
        {"evil.sh": f"#!/bin/sh\ntouch {canary}\ncat\n", "hooks/post-index-change": f"#!/bin/sh\ntouch {canary}\n"},
    )
    for script in (program, root / "hooks/post-index-change"):
        script.chmod(0o755)
    for key, value in HOSTILE.items():
        git(root, "config", key, value.format(program))
    write(root, {"a": "2\n"})
    subprocess.run(["git", "-C", str(root), "diff"], check=False, capture_output=True)
    assert canary.exists(), "the repository would start it"
    canary.unlink()
    calls: list[tuple[AnyTool, dict[str, object]]] = [
        (GIT_STATUS, {}),
        (GIT_DIFF, {}),
        (GIT_DIFF, {"staged": True}),
        (GIT_LOG, {}),
        (GIT_LOG, {"paths": ["a"]}),
        (GIT_SHOW, {}),
        (GIT_SHOW, {"path": "a"}),
        (GIT_BLAME, {"path": "a"}),
    ]
    for tool, arguments in calls:
        assert call_of(root, tool, arguments).facts().question is None
        with suppress(ShellExecutionFailed):
            ask(root, tool, **arguments)
        assert not canary.exists(), (tool.name, arguments)


def test_without_a_cage_each_of_them_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_calls, "cage_works", lambda: False)
    root = make_repository(tmp_path, {"a": "1"})
    assert "no cage works here" in (call_of(root, GIT_STATUS, {}).facts().question or "")
    assert status_of(root).branch == "main"  # once a person said yes


@pytest.mark.usefixtures("held_by")
@pytest.mark.parametrize("tool", [GIT_STATUS, GIT_DIFF, GIT_LOG, GIT_SHOW, GIT_BLAME], ids=lambda tool: tool.name)
def test_where_it_reads_is_said(tmp_path: Path, tool: AnyTool, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_repository(tmp_path / "r", {"a.txt": "1\n"})
    call = call_of(root, tool, {"path": "a.txt"} if tool is GIT_BLAME else {})
    assert call.place is ExecutionPlace.READING_CAGE
    monkeypatch.setattr(git_calls, "cage_works", lambda: False)
    assert call.place is ExecutionPlace.THIS_MACHINE
