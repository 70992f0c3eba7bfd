"""Workspaces where a cage has places of its own, with odd names, full and read-only ones: in every cage of this machine."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.sandbox import look
from ollm_tui.core.sandbox.bubblewrap import BubblewrapCage, BubblewrapLookCage
from ollm_tui.core.sandbox.engines import WORK_ENGINES, Sandbox, SandboxMode, SandboxSettings, bubblewrap, work_report
from ollm_tui.core.shell.pty_process import Cage

MODES = [SandboxMode(engine.name) for engine in WORK_ENGINES if not work_report(engine).problem]


def work_cage(mode: SandboxMode) -> Callable[[Path], Cage]:
    return lambda workspace: Sandbox(SandboxSettings(mode)).work_cage(Workspace(workspace))


WORK = {f"work, {mode}": work_cage(mode) for mode in MODES}
LOOK: dict[str, Callable[[Path], Cage]] = {}
if look.works():
    LOOK["look, landlock"] = lambda workspace: look.LookCage([workspace])
if not bubblewrap().problem:
    LOOK["look, bubblewrap"] = lambda workspace: BubblewrapLookCage(BubblewrapCage.locate(), [workspace])


def ran(cage: Cage, workspace: Path, command: str) -> tuple[int, str]:
    def start(environment: Mapping[str, str]) -> tuple[int, str]:
        done = subprocess.run(
            list(line), cwd=workspace, env=dict(environment), text=True, start_new_session=True, timeout=60,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
            pass_fds=cage.passed,
        )  # fmt: skip
        return done.returncode, done.stdout

    try:
        line = cage.command(["/bin/bash", "--noprofile", "--norc", "-c", command], os.environ)
        return cage.start(start, os.environ, None)
    finally:
        cage.close()


PLACES = {
    "the folder for temporary files": "/tmp",
    "another one": "/var/tmp",
    "root's home": "/root",
    "the system's settings": "/etc",
    "run": "/run",
    "optional programs": "/opt",
}


@contextmanager
def made_in(parent: str, name: str = "a b\nc'\"$x") -> Iterator[Path]:
    if not os.access(parent, os.W_OK):
        pytest.skip(f"{parent} cannot be written")
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        workspace = Path(folder, name)
        workspace.mkdir()
        (workspace / "file").write_text("one\n")
        yield workspace


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("cage", WORK)
def test_a_workspace_is_worked_in_wherever_it_is(cage: str, place: str) -> None:
    with made_in(PLACES[place]) as workspace:
        code, out = ran(WORK[cage](workspace), workspace, "cat file && echo two > made && mktemp >/dev/null && pwd")
        assert (code, out) == (0, f"one\n{workspace}\n")
        assert sorted(os.listdir(workspace)) == ["file", "made"] and os.listdir(workspace.parent) == [workspace.name]
        assert (workspace / "made").read_text() == "two\n"


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("cage", LOOK)
def test_a_workspace_is_looked_at_wherever_it_is(cage: str, place: str) -> None:
    with made_in(PLACES[place]) as workspace:
        assert ran(LOOK[cage](workspace), workspace, "cat file && ls") == (0, "one\nfile\n")
        code, _ = ran(LOOK[cage](workspace), workspace, "echo two > made")
        assert code != 0 and os.listdir(workspace) == ["file"]


@pytest.mark.parametrize("cage", [*WORK, *LOOK])
def test_a_link_leads_to_the_workspace(tmp_path: Path, cage: str) -> None:
    with made_in("/tmp") as workspace:
        link = tmp_path / "led"
        link.symlink_to(workspace)
        code, out = ran((WORK | LOOK)[cage](Workspace(link).root), link, "cat file; touch made")
        assert out.startswith("one\n") and (code == 0) is (workspace / "made").exists() is (cage in WORK)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can mount")
@pytest.mark.parametrize("cage", [*WORK, *LOOK])
def test_a_full_or_read_only_workspace_says_so(tmp_path: Path, cage: str) -> None:
    workspace = tmp_path / "small"
    workspace.mkdir()
    make = (WORK | LOOK)[cage]
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(workspace)], check=False).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        (workspace / "full").write_bytes(b"x" * (1 << 20))
        code, out = ran(make(workspace), workspace, "head -c 100000 /dev/zero > file")
        assert code != 0 and ("No space left" in out or cage in LOOK), out
        assert ran(make(workspace), workspace, "head -c 3 full") == (0, "xxx")
        subprocess.run(["mount", "-o", "remount,ro", str(workspace)], check=True)
        code, out = ran(make(workspace), workspace, "touch other")
        assert code != 0 and ("Read-only" in out or cage in LOOK), out
        assert ran(make(workspace), workspace, "head -c 3 full") == (0, "xxx")
    finally:
        subprocess.run(["umount", str(workspace)], check=True)


CREDENTIALS = (
    *(".cargo/credentials.toml", ".gem/credentials", ".docker/config.json", ".terraform.d/credentials.tfrc.json"),
    *(".config/gh/hosts.yml", ".config/gcloud/deep/key", ".devcontainer/.env", ".vscode/deep/.npmrc", ".github/id_rsa"),
    *("sub/.cargo/credentials", "sub/.husky/.env.local", "conf/prod.yml"),
)


@pytest.mark.parametrize("mode", MODES)
def test_no_secret_is_read_in_what_cannot_be_written_either(tmp_path: Path, mode: SandboxMode) -> None:
    for name in (*CREDENTIALS, ".cargo/config.toml", ".github/workflows/ci.yml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"text of {name}\n")
    fence = Workspace(tmp_path, protected_patterns=["/conf/prod.yml"])

    def run(command: str) -> tuple[int, str]:
        cage = Sandbox(SandboxSettings(mode)).work_cage(fence, secrets_hidden=True)
        return ran(cage, tmp_path, command)

    for name in CREDENTIALS:
        assert "text of" not in run(f"cat {name}")[1], name
        assert (tmp_path / name).read_text() == f"text of {name}\n"
    assert run("cat .cargo/config.toml .github/workflows/ci.yml")[1].count("text of") == 2
    assert run("echo x >> .cargo/config.toml || echo x >> .github/workflows/ci.yml")[0] != 0


@pytest.mark.parametrize("mode", MODES)
def test_what_is_protected_by_its_place_keeps_it(tmp_path: Path, mode: SandboxMode) -> None:
    secret = ("conf/deep/prod.yml", ".docker/config.json")
    for name in secret:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("secret\n")
    fence = Workspace(tmp_path, protected_patterns=["/conf/deep/prod.yml"])
    for command in ("mv conf elsewhere", "mv conf/deep elsewhere", "mv .docker elsewhere", "mv conf/deep conf/other"):
        ran(Sandbox(SandboxSettings(mode)).work_cage(fence, secrets_hidden=True), tmp_path, command)
        holding = [file for file in tmp_path.rglob("*") if file.is_file() and file.read_text() == "secret\n"]
        assert sorted(str(file.relative_to(tmp_path)) for file in holding) == sorted(secret), command
