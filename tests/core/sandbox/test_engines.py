"""Every engine for work that this machine has, row by row; each row beside the same command outside."""

from __future__ import annotations

import itertools
import json
import shutil
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest

from ollm_tui.core.base.errors import SandboxUnavailable
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.policy.lint import lint
from ollm_tui.core.policy.policy_file import load_policy
from ollm_tui.core.sandbox.engines import WORK_ENGINES, Sandbox, SandboxMode, SandboxSettings, work_report
from ollm_tui.core.sandbox.landlock_work import LandlockCage
from ollm_tui.core.sandbox.layout import WorkGrant
from ollm_tui.core.sandbox.nsjail import NsjailCage
from ollm_tui.core.sandbox.seatbelt import SeatbeltCage
from tests.core.sandbox.work_room import IDENTITY, TCP, Room

IMPOSSIBLE = {
    "read the home": 'cat "$HOME/secret"',
    "read another's folder": 'ls "$HOME/.." | grep -x secret || cat "$HOME/../home/secret"',
    "write a setting of git": "git config core.fsmonitor true",
    "write a hook": "echo x > .git/hooks/pre-commit",
    "commit": f"{IDENTITY} commit -q --allow-empty -m x",
    "move .git away": "mv .git .git2",
    "lead git elsewhere": "echo ../sub > .git/commondir",
    "write a nested repository": "echo x > sub/.git/config",
    "write our settings": "echo x > .ollm/config.toml",
    "write a protected file": "echo x > .env",
    "move a protected file": "mv .env other",
    "TCP of this machine": TCP,
    "a socket of the workspace": '"$PYTHON" -c "import socket; socket.socket(socket.AF_UNIX).connect(\'socket\')"',
    "signal another process": 'kill -0 "$OTHER"',
    "see another process": 'test -d "/proc/$OTHER" && grep -q sleep "/proc/$OTHER/comm"',
    "a system setting": "cat /proc/sys/kernel/panic > /proc/sys/kernel/panic",
    "the shadow file": "cat /etc/shadow",
    "write the system": "f=/usr/share/ollm-work-test; touch $f && rm $f",
    "a user namespace": "unshare -U true",
    "a mount": "unshare -Urm mount -t tmpfs none /mnt",
}
"""What must fail in the cage; all but the last ones of root alone succeed outside."""

AS_ROOT = {"a system setting", "the shadow file", "write the system", "a user namespace", "a mount"}


UNHELD = {SandboxMode.LANDLOCK: {"see another process", "multiprocessing", "shared memory", "its own loopback"}}
"""What an engine cannot hold, and what does not work in it."""

BESIDE_PROTECTED = {"write", "sqlite with a log"}
"""New files where protected ones lie, which landlock cannot tell from changing those."""


def rows(names: Iterable[str]) -> list[tuple[SandboxMode, str]]:
    working = [SandboxMode(engine.name) for engine in WORK_ENGINES if not work_report(engine).problem]
    return [(mode, name) for mode in working for name in names if name not in UNHELD.get(mode, ())]


@pytest.mark.parametrize(("mode", "name"), rows(IMPOSSIBLE))
def test_what_the_cage_refuses(room: Room, mode: SandboxMode, name: str) -> None:
    room.settings = SandboxSettings(mode)
    before = sorted(path.relative_to(room.root) for path in room.root.rglob("*"))
    code, out = room.run(IMPOSSIBLE[name])
    assert code != 0, out
    assert "hidden words" not in out
    assert sorted(path.relative_to(room.root) for path in room.root.rglob("*")) == before
    if name not in AS_ROOT:
        control, said = room.run(IMPOSSIBLE[name], caged=False)
        assert control == 0, said


POSSIBLE = {
    "write": "echo two > file && mkdir -p a/b && mv file a/b && touch a/b/c",
    "temporary files": "f=$(mktemp) && echo x > $f && cat $f",
    "a private home": 'echo x > "$HOME/mine" && cat "$HOME/mine"',
    "git status": "git status --short && git diff && git log -1",
    "multiprocessing": "\"$PYTHON\" -c 'import multiprocessing as m; assert m.Pool(2).map(abs, [-1]) == [1]'",
    "shared memory": "\"$PYTHON\" -c 'from multiprocessing.shared_memory import SharedMemory as S; s = S(create=True, size=9); s.unlink()'",
    "sqlite with a log": "\"$PYTHON\" -c \"import sqlite3; c = sqlite3.connect('x.db'); c.execute('pragma journal_mode=wal'); c.execute('create table t(a)')\"",
    "its own loopback": '"$PYTHON" -c "import socket; s = socket.create_server((\'127.0.0.1\', 0)); socket.create_connection(s.getsockname())"',
    "who and when": "id -un && date && echo $LANG",
    "devices": "head -c 9 /dev/urandom > /dev/null",
}


@pytest.mark.parametrize(("mode", "name"), rows(POSSIBLE))
def test_what_works_in_the_cage(room: Room, mode: SandboxMode, name: str) -> None:
    room.settings = SandboxSettings(mode)
    if mode is SandboxMode.LANDLOCK and name in BESIDE_PROTECTED:
        (room.workspace / "plain").mkdir()
        (room.workspace / "plain" / "file").touch()
    inside = "cd plain && " if mode is SandboxMode.LANDLOCK and name in BESIDE_PROTECTED else ""
    code, out = room.run(inside + POSSIBLE[name])
    assert code == 0, out


def test_landlock_makes_nothing_new_beside_what_is_protected(room: Room) -> None:
    if work_report(LandlockCage).problem:
        pytest.skip("this kernel has no landlock")
    room.settings = SandboxSettings(SandboxMode.LANDLOCK)
    (room.workspace / "plain").mkdir()
    assert room.run("touch new")[0] != 0
    assert room.run("echo two > file && touch plain/new && rm plain/new")[0] == 0
    with pytest.raises(OSError, match="network"):
        LandlockCage("", WorkGrant([room.workspace], network=True)).command(["true"], {})


def test_nsjail_is_told_the_same_layout(room: Room) -> None:
    workspace = room.workspace
    cage = NsjailCage("/usr/bin/nsjail", WorkGrant([workspace], variables={"A": "b"}, files={"code.sh": b"exit"}))
    try:
        argv = list(cage.command(["run", "it"], {"HOME": str(room.home), "PATH": "/usr/bin"}))
        options = list(itertools.pairwise(argv))
        assert argv[0] == "/usr/bin/nsjail" and argv[-2:] == ["run", "it"]
        assert ("--bindmount", f"{workspace}:{workspace}") in options
        read_only = ("--bindmount_ro", f"{workspace}/.git:{workspace}/.git")
        assert options.index(read_only) > options.index(("--bindmount", f"{workspace}:{workspace}"))
        assert ("--env", "A=b") in options and any("SYSCALL[101]" in each for each in argv)
        assert "--disable_clone_newnet" not in argv and not any(room.home / "secret" == each for each in argv)
    finally:
        cage.close()
    networked = NsjailCage("/usr/bin/nsjail", WorkGrant([workspace], network=True))
    assert "--disable_clone_newnet" in networked.command(["true"], {})
    networked.close()
    colon = room.root / "a:b"
    colon.mkdir()
    with pytest.raises(OSError, match="colon"):
        NsjailCage("/usr/bin/nsjail", WorkGrant([colon])).command(["true"], {})


def test_the_profile_for_macos_says_the_same_layout(room: Room) -> None:
    grant = WorkGrant([room.workspace], files={"code.sh": b"exit"}, secrets_hidden=True)
    cage = SeatbeltCage("/usr/bin/sandbox-exec", grant)
    try:
        argv = cage.command(["run", "it"], {"HOME": str(room.home), "PATH": "/usr/bin"})
        rules = argv[2].splitlines()
        root = json.dumps(str(room.workspace))[:-1]

        def place(rule: str) -> int:
            return rules.index(f"({rule})")

        writes = place(f'allow file-read* file-write* (subpath {root}")')
        assert place(f"deny file-read* (subpath {json.dumps(str(room.home))})") < writes
        assert place(f'deny file-write* (subpath {root}/.git")') > writes
        assert place(f'deny file-read* file-write* (subpath {root}/.env")') > writes
        assert place(f'deny file-write-unlink (literal {root}/sub")') > writes
        assert "(deny default)" in rules and not any("network" in rule for rule in rules)
        assert list(argv[-2:]) == ["run", "it"] and argv[1] == "-p"
        assert Path(cage.file("code.sh")).read_bytes() == b"exit"
    finally:
        cage.close()
    if sys.platform != "darwin":
        assert "macOS" in work_report(SeatbeltCage).problem


def test_a_program_that_holds_nothing_is_no_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loose = tmp_path / "loose"
    loose.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift; exec "$@"\n')
    loose.chmod(0o755)

    def which(name: str, path: str | None = None) -> str:
        return str(loose)

    monkeypatch.setattr(shutil, "which", which)
    assert "wrote outside" in work_report(NsjailCage).problem
    with pytest.raises(SandboxUnavailable, match="wrote outside"):
        Sandbox(SandboxSettings(SandboxMode.NSJAIL)).work_cage(Workspace(tmp_path))


@pytest.mark.parametrize(("table", "keys"), [
    ('mode = "landlock"\nnetwork = true\npids = 99\ntmp_mb = 9', ["network", "pids", "tmp_mb"]),
    ('mode = "landlock"\nnetwork = false', []),
    ('mode = "docker"\nnetwork = true\npids = 99\ncpu_percent = 9\nimage = "x"', []),
    ('mode = "nsjail"\nnetwork = true\npids = 99\ncpu_percent = 9', ["cpu_percent"]),
])  # fmt: skip
def test_lint_says_what_the_engine_of_the_mode_cannot_honour(table: str, keys: list[str]) -> None:
    text = f"[sandbox]\n{table}\n"
    findings = lint([load_policy(tomllib.loads(text), text, "p.toml", "policy file")], ())
    assert [finding.message.split(":")[0] for finding in findings] == [f"[sandbox] {key}" for key in keys]
