"""What a caged command leaves: nothing of the cage, and nothing that would act outside of it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.base.errors import SandboxUnavailable
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.sandbox.engines import Sandbox, SandboxMode, SandboxSettings, bubblewrap
from ollm_tui.core.sandbox.private_folder import PrivateFolder, sweep
from ollm_tui.core.tools.context import ToolContext
from ollm_tui.core.tools.shell import SHELL
from tests.core.sandbox.work_room import IDENTITY, Room

works = pytest.mark.skipif(bool(bubblewrap().problem), reason=bubblewrap().problem or "bubblewrap works")


def test_a_private_folder_is_swept_once_its_process_was_killed(tmp_path: Path) -> None:
    line = "from ollm_tui.core.sandbox.private_folder import PrivateFolder as P; p = P(); print(p.path, flush=True); input()"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-P", "-c", line],
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3],
    ) as program:  # fmt: skip
        assert program.stdout is not None
        left = Path(program.stdout.readline().strip())
        (left / "file").touch()
        sweep(str(tmp_path))
        assert left.is_dir()  # it is in use
        program.send_signal(signal.SIGKILL)
    assert left.is_dir()
    sweep(str(tmp_path))
    assert not left.exists()


def test_a_private_folder_ends_with_its_cage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = PrivateFolder()
    assert folder.path.parent == tmp_path
    folder.close()
    folder.close()
    assert not os.listdir(tmp_path)


@works
def test_what_would_lead_git_elsewhere_is_set_aside(room: Room) -> None:
    room.settings = SandboxSettings(git_writable=True)
    assert room.run("echo ../sub/.git > .git/commondir && echo x > .git/config.worktree")[0] == 0
    for name in ("commondir", "config.worktree"):
        assert not (room.workspace / ".git" / name).exists()
        assert (room.workspace / ".git" / f"{name}.set-aside").exists()
    assert len(room.said) == 2 and "commondir.set-aside" in "".join(room.said)
    assert room.run("git status", caged=False)[0] == 0


CONFIGURES = {
    "a program": "git init -q . && git config core.fsmonitor ./run",
    "on one line": "git init -q . && printf '[core] fsmonitor = ./run' >> .git/config",
    "a filter": "git init -q . && git config filter.x.clean ./run",
    "a hook": "git init -q . && mkdir -p .git/hooks && echo x > .git/hooks/pre-commit",
    "another repository": "git init -q other && echo 'gitdir: other/.git' > .git",
    "a link": "git init -q other && ln -s other/.git .git",
    "a common directory": "git init -q . && echo ../other > .git/commondir",
    "an include": "git init -q . && git config include.path ../other",
}


@works
@pytest.mark.parametrize("name", CONFIGURES)
def test_a_new_repository_that_configures_git_is_set_aside(room: Room, name: str) -> None:
    room.name = "empty"
    room.workspace.mkdir()
    code, out = room.run(CONFIGURES[name])
    assert code == 0, out
    assert not os.path.lexists(room.workspace / ".git") and os.path.lexists(room.workspace / ".git.set-aside")
    assert ".git.set-aside" in room.said[0]


@works
def test_a_plain_new_repository_stays(room: Room) -> None:
    room.name = "empty"
    room.workspace.mkdir()
    code, out = room.run(
        f"git init -q . && git remote add origin https://x.org/y && {IDENTITY} commit -q --allow-empty -m x"
    )
    assert code == 0 and not room.said, out
    assert room.run("git log", caged=False)[0] == 0


@works
def test_a_linked_repository_is_put_back(room: Room) -> None:
    os.rename(room.workspace / ".git", room.workspace / "real")
    (room.workspace / ".git").symlink_to("real")
    assert room.run("rm .git && git init -q . && git config core.fsmonitor ./run")[0] == 0
    assert os.readlink(room.workspace / ".git") == "real" and (room.workspace / ".git.set-aside").is_dir()


@works
def test_the_shell_says_what_was_set_aside(tmp_path: Path) -> None:
    async def run() -> str:
        sandbox = Sandbox(SandboxSettings(SandboxMode.AUTO))
        context = ToolContext(bus=MessageBus(), workspace=Workspace(tmp_path), sandbox=sandbox)
        try:
            call = SHELL.create_invocation({"command": "mkdir .ollm; mkdir .git; echo x > .git/commondir"}, context)
            return (await call.execute(AbortController().signal)).for_model()
        finally:
            await context.defaults.aclose()

    text = asyncio.run(run())
    assert "renamed to .git.set-aside" in text and "renamed to .ollm.set-aside" in text
    assert sorted(os.listdir(tmp_path)) == [".git.set-aside", ".ollm.set-aside"]


@works
def test_other_names_of_protected_files_are_covered(room: Room) -> None:
    os.link(room.workspace / ".env", room.workspace / "sub" / "plain")
    os.link(room.workspace / ".git" / "config", room.workspace / "settings")
    before = (room.workspace / ".git" / "config").read_text()
    assert room.run("echo x > sub/plain")[0] != 0
    assert room.run("echo x > settings")[0] != 0
    assert (room.workspace / ".git" / "config").read_text() == before
    room.grants = {"secrets_hidden": True}
    assert room.run("cat sub/plain") == (0, "")


@works
def test_passwords_in_the_configuration_of_git_are_not_there(room: Room) -> None:
    git = ["git", "config"]
    for key, value in {
        "remote.origin.url": "https://me:hidden1@x.org/y",
        "remote.b.url": "https://hidden2@x.org/y",
    }.items():
        subprocess.run([*git, key, value], cwd=room.workspace, check=True)
    subprocess.run([*git, "http.extraheader", "AUTHORIZATION: basic hidden3"], cwd=room.workspace, check=True)
    code, out = room.run("cat .git/config && git remote -v && git status")
    assert code == 0 and "hidden" not in out and "https://***@x.org/y" in out
    assert "hidden1" in (room.workspace / ".git" / "config").read_text()


@works
def test_the_home_as_workspace_hides_what_programs_keep_there(room: Room) -> None:
    room.name = "home"
    (room.home / ".ssh").mkdir()
    (room.home / ".ssh" / "id").write_text("hidden words\n")
    (room.home / ".config" / "some").mkdir(parents=True)
    (room.home / ".config" / "some" / "token").write_text("hidden words\n")
    (room.home / ".history").write_text("hidden words\n")
    code, out = room.run("cat secret; touch made; cat .ssh/id .config/some/token .history")
    assert code != 0 and out.count("hidden words") == 1 and (room.home / "made").exists()
    assert room.run("echo x > .history")[0] != 0
    room.name = "."
    assert room.run("cat home/.history") == (0, "")


@works
def test_the_whole_file_system_is_no_workspace() -> None:
    with pytest.raises(SandboxUnavailable, match="whole file system"):
        Sandbox().work_cage(Workspace("/"))
