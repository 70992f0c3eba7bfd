"""The docker engine's cage against an engine that notes each request and fails where it is told to."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from ollm_tui.core.base.errors import SandboxUnavailable
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.sandbox.docker import DockerCage
from ollm_tui.core.sandbox.engines import Sandbox, SandboxMode, SandboxSettings, work_report
from ollm_tui.core.sandbox.layout import CageLimits, WorkGrant
from ollm_tui.core.sandbox.private_folder import PrivateFolder
from tests.core.sandbox.fake_docker import FakeDocker, fake_docker


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDocker]:
    with fake_docker(tmp_path / "docker.sock") as made:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{made.socket}")
        yield made


@pytest.fixture
def grant(tmp_path: Path) -> WorkGrant:
    workspace = tmp_path / "a:b c"
    (workspace / ".git").mkdir(parents=True)
    (workspace / ".env").write_text("KEY=1")
    limits = CageLimits(memory_mb=512, pids=99, tmp_mb=7, file_mb=3, cpu_percent=150)
    return WorkGrant(
        [workspace], limits=limits, files={"code.py": b"print(1)"}, variables={"A": "b"}, secrets_hidden=True
    )


def start(cage: DockerCage) -> subprocess.Popen[bytes]:
    argv = cage.command(["python3", "/run/code.py"], {"HOME": "/nowhere", "LANG": "C.UTF-8", "SECRET": "x"})

    def run(environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            list(argv), env=dict(environment), pass_fds=cage.passed, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    return cage.start(run, {}, None)


def ran(engine: FakeDocker, grant: WorkGrant) -> tuple[int, bytes, bytes]:
    cage = DockerCage(str(engine.socket), grant)
    try:
        with start(cage) as process:
            out, err = process.communicate(timeout=30)
            return process.returncode, out, err
    finally:
        cage.close()


def test_the_request_holds_what_the_cage_holds(engine: FakeDocker, grant: WorkGrant) -> None:
    engine.output = [(1, b"out\n"), (2, b"err\n"), (1, b"x" * 200_000)]
    engine.exit_code = 3
    assert ran(engine, grant) == (3, b"out\n" + b"x" * 200_000, b"err\n")
    made = engine.created[0]
    host = made["HostConfig"]
    workspace = str(grant.writable[0])
    assert made["Cmd"] == ["python3", "/run/code.py"] and made["Image"] == "python:3.12-slim"
    assert made["User"] == f"{os.getuid()}:{os.getgid()}" and made["WorkingDir"] == workspace
    assert "A=b" in made["Env"] and "LANG=C.UTF-8" in made["Env"] and not any("SECRET" in each for each in made["Env"])
    assert host["ReadonlyRootfs"] and host["NetworkMode"] == "none" and host["CapDrop"] == ["ALL"] and host["Init"]
    assert host["SecurityOpt"] == ["no-new-privileges"] and "Privileged" not in host
    assert (host["Memory"], host["MemorySwap"], host["PidsLimit"]) == (512 << 20, 512 << 20, 99)
    assert (host["NanoCpus"], host["ShmSize"]) == (1_500_000_000, 7 << 20)
    assert {"Name": "fsize", "Soft": 3 << 20, "Hard": 3 << 20} in host["Ulimits"]
    bound = {each["Target"]: each["ReadOnly"] for each in host["Mounts"]}
    assert bound.pop("/run/code.py") is True
    assert bound == {workspace: False, f"{workspace}/.git": True, f"{workspace}/.env": True}
    assert all(os.path.exists(each["Source"]) or "/ollm-cage-" in each["Source"] for each in host["Mounts"])
    assert len(set(engine.removed)) == 1 and engine.removed[0].startswith("ollm-")


def test_the_network_is_the_hosts_where_the_settings_say_so(engine: FakeDocker, grant: WorkGrant) -> None:
    assert ran(engine, replace(grant, network=True))[0] == 0
    assert engine.created[0]["HostConfig"]["NetworkMode"] == "host"


@pytest.mark.parametrize(
    ("word", "said"),
    [("create", "docker pull"), ("start", "500 broken"), ("logs", "500 broken"), ("wait", "500 broken")],
)
def test_what_fails_is_said_and_the_container_goes(engine: FakeDocker, grant: WorkGrant, word: str, said: str) -> None:
    engine.failing[word] = (500, "broken")
    code, _, err = ran(engine, grant)
    assert code == 125 and said in err.decode() and engine.removed


def test_output_that_breaks_off_is_an_error(engine: FakeDocker, grant: WorkGrant) -> None:
    engine.breaks_off = True
    code, out, err = ran(engine, grant)
    assert (code, out) == (125, b"abc") and b"broke off" in err and engine.removed


def test_without_an_engine_the_helper_says_so(tmp_path: Path, grant: WorkGrant) -> None:
    cage = DockerCage(str(tmp_path / "nothing"), grant)
    with start(cage) as process:
        assert process.wait(30) == 125 and process.stderr is not None and b"No such file" in process.stderr.read()
    cage.close()


@pytest.mark.parametrize("kills", [True, False])
def test_a_cancelled_command_is_removed(engine: FakeDocker, grant: WorkGrant, kills: bool) -> None:
    engine.blocks = threading.Event()
    engine.output = [(1, b"up\n")]
    cage = DockerCage(str(engine.socket), grant)
    with start(cage) as process:
        assert process.stdout is not None and process.stdout.readline() == b"up\n"
        if kills:
            process.kill()
        else:
            process.terminate()
            assert process.wait(30) == 143 and len(engine.removed) == 1
    cage.close()
    assert engine.removed and len(set(engine.removed)) == 1


def test_containers_of_killed_programs_are_removed(engine: FakeDocker, grant: WorkGrant, tmp_path: Path) -> None:
    used = PrivateFolder()
    engine.left = [
        {"Id": "gone", "Labels": {"ollm-tui.folder": str(tmp_path / "gone")}},
        {"Id": "used", "Labels": {"ollm-tui.folder": str(used.path)}},
    ]
    ran(engine, grant)
    used.close()
    assert "gone" in engine.removed and "used" not in engine.removed


def test_the_probe_asks_the_engine_and_says_what_it_answers(engine: FakeDocker, tmp_path: Path) -> None:
    engine.failing["create"] = (404, "No such image: mine:1")
    assert "No such image: mine:1" in work_report(DockerCage, "mine:1").problem
    assert engine.created == [] and DockerCage.version(str(engine.socket)) == "99.1"
    with pytest.raises(SandboxUnavailable, match="No such image"):
        Sandbox(SandboxSettings(SandboxMode.DOCKER, image="mine:1")).work_cage(Workspace(tmp_path))


def test_remote_engines_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://10.0.0.1:2375")
    assert "local" in work_report(DockerCage).problem


def test_the_helper_waits_for_nothing_of_this_package() -> None:
    from ollm_tui.core.sandbox import docker_client

    line = (
        f"import runpy, sys; runpy.run_path({docker_client.__file__!r}); print([m for m in sys.modules if 'ollm' in m])"
    )
    shown = subprocess.run([sys.executable, "-I", "-c", line], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
