"""git asks before it prints what nobody knows the path of, or what the cage does not keep from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.policy.approval_patterns import ApprovalPattern
from ollm_tui.core.policy.engine import JudgedCall, PolicyEngine
from ollm_tui.core.policy.rules import Decision
from ollm_tui.core.sandbox import look
from ollm_tui.core.tools.base import Effect
from ollm_tui.core.tools.shell import SHELL
from ollm_tui.options import Options
from ollm_tui.runtime import configure
from tests.core.tools.git_repositories import commit, git, make_repository

pytestmark = pytest.mark.skipif(not look.works(), reason="this kernel has no landlock")

SECRETS = {".env": "KEY=1\n", ".docker/config.json": "{1}\n", ".aws/credentials": "one\n", "mine/notes": "n\n"}
Reason = Callable[..., str]


@dataclass
class Past:
    """A repository whose credentials were removed by its last commit, and what they are called by their hash."""

    root: Path

    def hash_of(self, path: str, commit: str = "HEAD~1") -> str:
        return git(self.root, "rev-parse", f"{commit}:{path}").strip()


@pytest.fixture
def past(tmp_path: Path) -> Past:
    root = make_repository(tmp_path / "work", {"plain.txt": "one\n", "src/a.py": "x = 1\n", **SECRETS})
    commit(root, "second", {path: f"{text}2\n" for path, text in SECRETS.items()})
    git(root, "tag", "blob", Past(root).hash_of(".env", "HEAD"))
    git(root, "rm", "-rq", *SECRETS)
    git(root, "commit", "-qm", "third")
    return Past(root)


def judge(root: Path, approvals: Sequence[str] = (), protected: Sequence[str] = ()) -> Reason:
    """Return what tells why a line asks; empty where it runs unasked."""
    sources = configure(Options(workspace=root)).sources
    patterns = tuple(map(ApprovalPattern.parse, approvals))
    workspace = Workspace(root, protected_patterns=protected)
    commands = replace(sources.commands, approvals=patterns, workspace=workspace)
    engine = PolicyEngine(replace(sources, commands=commands))

    def reason(line: str, cwd: str = ".") -> str:
        call = JudgedCall(SHELL, {"command": line, "background": False, "cwd": cwd}, Effect.RUNS)
        found = engine.explain(call)
        return "" if found.decision is Decision.ALLOW else found.reason

    return reason


def test_contents_named_by_their_hash_ask(past: Past) -> None:
    reason = judge(past.root)
    blob, old = past.hash_of(".env"), past.hash_of(".env", "HEAD~2")
    for line in (
        *(f"git show {blob}", f"git show {blob[:8]}", "git show blob", f"git show HEAD '{blob}^{{}}'"),
        *(
            f"git cat-file -p {blob}",
            f"git cat-file blob {blob}",
            f"git -C . show {blob}",
            f"cd src && git show {blob}",
        ),
        *(f"git diff {old} {blob}", f"git diff {old}..{blob}", f"git diff {blob} plain.txt", f"git grep K {blob}"),
    ):
        assert "may name what a file holds" in reason(line), line


def test_directories_named_by_their_hash_ask_where_their_files_are_printed(past: Past) -> None:
    reason = judge(past.root)
    tree, old = past.hash_of(".docker"), past.hash_of(".docker", "HEAD~2")
    for line in (
        *(f"git show {tree}:config.json", f"git cat-file -p {tree}:config.json", f"git grep 1 {tree}"),
        *("git grep 1 HEAD~1:.docker", "git diff HEAD~2:.docker HEAD~1:.docker", f"git diff {old} {tree}"),
        f"git diff-tree -p {old} {tree}",
    ):
        assert reason(line), line
    assert not reason(f"git show {tree}") and not reason(f"git cat-file -p {tree}"), "names alone"


def test_commits_and_what_is_told_of_contents_stay_unasked(past: Past) -> None:
    reason = judge(past.root)
    first = git(past.root, "rev-parse", "HEAD~2").strip()
    blob = past.hash_of(".env")
    for line in (
        *("git show", "git show HEAD~1", f"git show {first[:7]}", "git log -p", "git diff HEAD~2 HEAD", "git diff"),
        *(
            f"git diff {first}..HEAD -- src",
            f"git show {first}:src/a.py",
            "git grep x HEAD -- src",
            "git show HEAD:src",
        ),
        *(f"git cat-file -t {blob}", f"git cat-file -s {blob}", "git diff src/a.py", f"git log -p {first}"),
        "git show HEAD --stat",
    ):
        assert not reason(line), line


def test_all_that_has_a_name_is_not_printed_unasked(past: Past) -> None:
    reason = judge(past.root)
    for line in (
        *("git show --tags", "git show --all", "git tag -l '--format=%(raw)'", "git branch '--format=%(*raw)'"),
        *("git log -p --submodule=diff", "git diff --submodule=diff HEAD~1"),
    ):
        assert reason(line), line


def test_a_path_in_a_commit_is_judged_by_its_name_whatever_lies_there_today(past: Past) -> None:
    reason = judge(past.root, protected=["/mine/", "/a/b/notes"])
    commit(past.root, "more", {"a/b/notes": "n\n"})
    git(past.root, "rm", "-rq", "a")
    (past.root / "other" / "b").mkdir(parents=True)
    (past.root / "a").symlink_to("other")
    assert "notes may hold" in reason("git show HEAD:a/b/notes")
    assert "mine/notes may hold" in reason("git show HEAD~1:mine/notes", cwd="src")
    assert reason("cd src && git show HEAD~1:./../mine/notes")


def test_attributes_that_show_credentials_all_the_same_ask_about_the_past(past: Past) -> None:
    reason = judge(past.root)
    for text, asks in (
        *(
            ("*.yml diff=yaml\n", True),
            (".env diff\n", True),
            ("* !diff\n", True),
            ("[attr]text diff\n.e* text\n", True),
        ),
        *(("*.py diff=python\n* text=auto\n", False), ("*.png binary\n", False), ("# * diff\n", False)),
    ):
        (past.root / ".gitattributes").write_text(text)
        assert bool(reason("git log -p")) == asks, text
        assert not reason("git diff") and not reason("git log"), "no commit is printed"
    (past.root / ".gitattributes").unlink()
    commit(past.root, "attributes", {"deep/.gitattributes": "secrets.* diff\n"})
    assert "secrets" in reason("git show")


def test_git_in_a_line_that_runs_outside_the_cage_asks_before_it_prints_the_past(past: Past) -> None:
    reason = judge(past.root, approvals=["make *"])
    for line in (
        "make && git show HEAD~1",
        "git log -p; make",
        "make && git diff HEAD~1",
        "make; git diff @..HEAD^2~3",
        "make | git grep x HEAD~1",
    ):
        assert "by itself it runs in the cage" in reason(line), line
    for line in ("make && git diff", "make && git status", "make && git log --oneline", "make; git grep x -- src"):
        assert not reason(line), line
