"""What runs because the read-only list allows it runs in the cage, and nothing else does (contract section 8)."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ollm_tui.core import MessageBus, PolicyEngine, ToolExecutor, ToolRegistry, ToolResult, Workspace
from ollm_tui.core.base.results import ExecutionPlace
from ollm_tui.core.fence import protected_paths
from ollm_tui.core.policy import command_rules
from ollm_tui.core.policy.approval_patterns import ApprovalPattern
from ollm_tui.core.policy.command_rules import CommandPolicy
from ollm_tui.core.policy.engine import PolicySources
from ollm_tui.core.policy.rules import Decision
from ollm_tui.core.sandbox import look
from ollm_tui.core.sandbox.git_attributes import CREDENTIAL_ATTRIBUTES
from ollm_tui.core.tools.shell import SHELL
from ollm_tui.testing import Answer, answer_confirmations

pytestmark = pytest.mark.skipif(not look.works(), reason="this kernel has no landlock")


@dataclass
class Room:
    executor: ToolExecutor
    root: Path
    canary: Path

    async def shell(self, command: str, **arguments: object) -> ToolResult:
        return await self.executor.execute("shell", {"command": command, **arguments})


@pytest.fixture(params=[True, False], ids=["attended", "alone"])
async def room(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Room]:
    root = tmp_path / "work"
    root.mkdir()
    (root / "file").write_text("one\n")
    git(root, "init", "-q", ".")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    workspace = Workspace(root)
    approvals = (ApprovalPattern.parse("touch approved"),)
    commands = CommandPolicy(read_only_commands=True, workspace=workspace, approvals=approvals)
    policy = PolicyEngine(PolicySources((), Decision.ASK, (), commands))
    registry = ToolRegistry()
    registry.register(SHELL)
    async with ToolExecutor(registry, policy, MessageBus(), workspace, attended=request.param) as executor:
        yield Room(executor, root, tmp_path / "canary")


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=folder, check=True)


def output(folder: Path, *words: str) -> str:
    """What a program prints outside any cage, however it ends."""
    return subprocess.run(words, cwd=folder, check=False, capture_output=True, text=True).stdout


EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


@pytest.mark.parametrize(
    "command", ["git status --short", "cat file | wc -l", "git log --format=%s; ls", f"git diff {EMPTY_TREE} HEAD"]
)
async def test_listed_commands_run_as_before(room: Room, command: str) -> None:
    result = await room.shell(command)
    assert result.error is None
    outside = output(room.root, "bash", "-c", command)
    assert result.return_display.split() == (outside or "(no output)").split()


def credential_names() -> list[str]:
    names = [each.replace("*", "x") for each in f"{protected_paths._CREDENTIALS} {protected_paths._NO_SECRETS}".split()]
    nested = [f"deep/{name}" for name in names] + [f"{name}/inside/file" for name in names]
    return [
        *names,
        *map(str.upper, names),
        *nested,
        "deep/.ssh/key.pub",
        ".envx",
        "a.py",
        "docker/config.json",
        "x.env",
    ]


def test_what_git_hides_in_the_cage_is_what_asks_before_it_is_read(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", ".")
    settings = ("-c", f"core.attributesFile={CREDENTIAL_ATTRIBUTES}", "-c", "core.ignoreCase=false")
    names = credential_names()
    said = output(tmp_path, "git", *settings, "check-attr", "diff", "--", *names)
    hidden = {line.rsplit(": ", 2)[0] for line in said.splitlines() if line.endswith(": unset")}
    assert [name for name in names if (name in hidden) != protected_paths.holds_credentials(name.split("/"))] == []
    assert len(hidden) > 100


@pytest.mark.parametrize("landlock", [True, False], ids=["landlock", "bubblewrap"])
async def test_git_prints_no_credentials_that_were_removed_long_ago(
    room: Room, landlock: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in ((".env", "KEY=of-old"), ("deep/ID_RSA", "KEY=of-old"), ("plain.txt", "KEY=of-all")):
        (room.root / name).parent.mkdir(exist_ok=True)
        (room.root / name).write_text(f"{text}\n")
    git(room.root, "add", "-f", ".")
    git(room.root, "commit", "-qm", "second")
    git(room.root, "rm", "-q", "--cached", ".env", "deep/ID_RSA")
    git(room.root, "commit", "-qm", "third")
    assert "of-old" in output(room.root, "git", "log", "-p"), "outside it is printed"
    if not landlock:
        monkeypatch.setattr(look, "works", lambda: False)
    for command in ("git log -p", "git show HEAD~1", "git show HEAD", "git grep KEY HEAD~1", "git diff HEAD~2 HEAD~1"):
        result = await room.shell(command)
        assert result.error is None, result.for_model()
        assert result.place is ExecutionPlace.READING_CAGE and "of-old" not in result.for_model()
        assert "of-all" in result.for_model() or command == "git show HEAD"
    for command in ("git log -pa", "git show --text HEAD", "git diff --binary HEAD~1", "git grep -a KEY HEAD~1"):
        assert (await room.executor.explain("shell", {"command": command})).decision is Decision.ASK, command


@pytest.mark.parametrize("landlock", [True, False], ids=["landlock", "bubblewrap"])
async def test_git_prints_nothing_old_of_what_the_person_protects(
    tmp_path: Path, landlock: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "repository" / "part [1]"
    files = ("mine/a", "deep/private.txt", "deep/b c/x", "once/only", "deep/once/only", "plain.txt")
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"content of {name}\n")
    git(root.parent, "init", "-q", ".")
    git(root.parent, "add", ".")
    git(root.parent, "commit", "-qm", "first")
    git(root.parent, "rm", "-rq", ".")
    git(root.parent, "commit", "-qm", "second")
    root.mkdir(parents=True)
    if not landlock:
        monkeypatch.setattr(look, "works", lambda: False)
    workspace = Workspace(
        root, protected_patterns=["mine/", "private.*", "deep/b c", "/once/only", "# no", "!plain.txt"]
    )
    commands = CommandPolicy(read_only_commands=True, workspace=workspace)
    policy = PolicyEngine(PolicySources((), Decision.ASK, (), commands))
    registry = ToolRegistry()
    registry.register(SHELL)
    async with ToolExecutor(registry, policy, MessageBus(), workspace) as executor:
        text = (await executor.execute("shell", {"command": "git log -p"})).for_model()
    assert [name for name in files if f"content of {name}" in text] == ["deep/once/only", "plain.txt"]


def bare_repository(folder: Path, program: str) -> None:
    """Write by hand what git takes for a repository, in which each look at a file starts a program (finding A1)."""
    for part in ("objects/k", "refs/k", "sub/k"):
        (folder / part).parent.mkdir(parents=True)
        (folder / part).write_text("")
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    settings = (
        f'[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = ..\n\tfsmonitor = "{program}; false"\n'
    )
    (folder / "config").write_text(settings)


async def test_five_written_files_start_no_program_outside_the_cage(room: Room) -> None:
    bare_repository(room.root / "b", f"touch {room.canary}")
    output(room.root / "b" / "sub", "git", "status")
    assert room.canary.exists()  # outside, git does start it
    room.canary.unlink()
    answer_confirmations(room.executor.bus)  # to whatever is asked: no
    await room.shell("cd b/sub && git status")
    await room.shell("git status", cwd="b/sub")
    assert not room.canary.exists()


@pytest.mark.parametrize(
    "settings",
    [
        '# x \\\n[core]\n\tfsmonitor = "touch {canary}; false"\n',  # finding A2
        '[filter "lfs"]\n\tclean = "git-lfs x; touch {canary}"\n',  # finding A3
    ],
)
async def test_a_configuration_that_hides_a_program_starts_none_outside(room: Room, settings: str) -> None:
    with (room.root / ".git" / "config").open("a") as config:
        config.write(settings.format(canary=room.canary))
    (room.root / ".gitattributes").write_text("file filter=lfs\n")
    (room.root / "file").write_text("two\n")
    output(room.root, "git", "status")
    output(room.root, "git", "diff")
    assert room.canary.exists()
    room.canary.unlink()
    answer_confirmations(room.executor.bus)  # to whatever is asked: no
    for command in ("git status", "git diff", "git log -p", "git show HEAD:file"):
        await room.shell(command)
    assert not room.canary.exists()


async def test_what_an_approval_allows_runs_outside(room: Room) -> None:
    assert (await room.shell("touch approved")).error is None
    assert (room.root / "approved").exists()


def unreadable_in_the_cage(room: Room, tmp_path: Path) -> str:
    """Return a listed command that reads objects of another repository: the cage lets nobody there (finding A6)."""
    elsewhere = tmp_path / "elsewhere"
    git(tmp_path, "clone", "-q", str(room.root), str(elsewhere))
    (elsewhere / "new").write_text("secret words\n")
    git(elsewhere, "add", ".")
    git(elsewhere, "commit", "-qm", "second")
    head = output(elsewhere, "git", "rev-parse", "HEAD").strip()
    (room.root / ".git" / "objects" / "info" / "alternates").write_text(f"{elsewhere}/.git/objects\n")
    return f"git show {head}:new"


async def test_what_the_cage_refuses_is_said_and_asked_about_the_second_time(room: Room, tmp_path: Path) -> None:
    command = unreadable_in_the_cage(room, tmp_path)
    asked = answer_confirmations(room.executor.bus, Answer())
    first = await room.shell(command)
    if room.executor.attended:  # the same call is offered to the person, as a question of its own
        assert first.error is None and "secret words" in first.llm_content
        assert first.place is ExecutionPlace.THIS_MACHINE
        assert len(asked) == 1 and "the cage refused it" in asked[0].reason
        return
    assert first.error is not None and asked == []
    assert "secret words" not in first.llm_content
    assert any(note.startswith("[blocked by the cage: ") for note in first.notes)
    second = await room.shell(command)
    assert second.error is not None
    assert second.error.type == "PolicyDeniedError"


async def test_who_says_no_to_running_it_outside_leaves_the_model_the_refusal(room: Room, tmp_path: Path) -> None:
    asked = answer_confirmations(room.executor.bus, Answer(approved=False, reason="look elsewhere"))
    result = await room.shell(unreadable_in_the_cage(room, tmp_path))
    notes = " ".join(result.notes)
    assert result.error is not None and result.place is ExecutionPlace.READING_CAGE
    assert "[blocked by the cage: " in notes
    assert len(asked) == room.executor.attended
    assert ("look elsewhere" in notes) is room.executor.attended


async def test_without_a_cage_only_the_simplest_programs_run_unasked(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_rules, "cage_works", lambda: False)
    assert (await room.executor.explain("shell", {"command": "cat file | wc -l"})).decision is Decision.ALLOW
    explained = await room.executor.explain("shell", {"command": "git status"})
    assert explained.decision is Decision.ASK
    assert "no cage" in explained.reason
