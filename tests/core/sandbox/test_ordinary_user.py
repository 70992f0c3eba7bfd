"""The rows of both cages again as an ordinary user, each beside its bare control; elsewhere the tests may run as root."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ollm_tui.core.sandbox import look
from ollm_tui.core.sandbox.engines import Sandbox, SandboxMode, SandboxSettings, look_works
from tests.core.sandbox import test_engines, test_look, work_room

NOBODY = 65534
REPOSITORY = Path(__file__).parents[3]

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="the other tests run as an ordinary user already"),
    pytest.mark.skipif(not os.access("/usr/bin/python3", os.X_OK), reason="needs an interpreter of the system"),
]


@pytest.mark.parametrize("cage", ["bubblewrap", "landlock", "look", "look in bubblewrap"])
def test_every_row_holds_for_an_ordinary_user(cage: str) -> None:
    folder = tempfile.mkdtemp(prefix="ollm-user-")  # below the tests' own directory only root can go
    os.chown(folder, NOBODY, NOBODY)
    own = {"HOME": folder, "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    line = "import sys; from tests.core.sandbox.test_ordinary_user import run_rows; run_rows(*sys.argv[1:])"
    try:
        ran = subprocess.run(
            [sys.executable, "-P", "-c", line, cage, folder], check=False, cwd=REPOSITORY,
            env={**own, "PYTHONPATH": str(REPOSITORY)}, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        said = json.loads(ran.stdout)
        if said["problem"]:
            pytest.skip(said["problem"])
        assert said["wrong"] == [] and said["rows"] >= 20
    finally:
        shutil.rmtree(folder)


def run_rows(cage: str, folder: str) -> None:
    """Print what was not as it should be, run by a process of its own that began as root."""
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    look.works.cache_clear()  # root's answer is not this user's
    sys.prefix = sys.base_prefix = sys.exec_prefix = "/usr"  # the interpreter of these tests may be root's alone
    sys.executable = "/usr/bin/python3"
    os.chdir(folder)
    if cage.startswith("look"):
        if cage != "look":
            look.abi = lambda: 0
        problem = "" if look_works() else "no cage of what only looks"
        found = list(_look_rows(Path(folder), own_folder=cage != "look")) if not problem else []
    else:
        settings = SandboxSettings(SandboxMode(cage))
        problem = Sandbox(settings).problem
        found = list(_work_rows(Path(folder), settings)) if not problem else []
    wrong = [f"{name}: {what}" for name, what in found if what]
    print(json.dumps({"problem": problem, "rows": len(found), "wrong": wrong}))


def _work_rows(folder: Path, settings: SandboxSettings) -> Iterator[tuple[str, str]]:
    unheld = test_engines.UNHELD.get(settings.mode, ())
    for name, command in {**test_engines.IMPOSSIBLE, **test_engines.POSSIBLE}.items():
        if name in unheld:
            continue
        root = folder / "rows" / name.replace("/", "")
        root.mkdir(parents=True)
        with work_room.furnished(root) as room:
            room.settings = settings
            refused = name in test_engines.IMPOSSIBLE
            beside = name in test_engines.BESIDE_PROTECTED and settings.mode is SandboxMode.LANDLOCK
            if beside:
                (room.workspace / "plain").mkdir()
                (room.workspace / "plain" / "file").touch()
            code, out = room.run(f"cd plain && {command}" if beside else command)
            yield name, "" if (code != 0) is refused and "hidden words" not in out else f"caged {code} {out}"
            if refused and name not in test_engines.AS_ROOT:
                control, out = room.run(command, caged=False)
                yield name, "" if control == 0 else f"outside {control} {out}"


def _look_rows(folder: Path, *, own_folder: bool) -> Iterator[tuple[str, str]]:
    """Yield what each row did; a cage with a /tmp of its own lets that be written."""
    refused = {**test_look.WRITES, **test_look.OTHERS, "read outside": 'cat "$OUTSIDE/secret"'}
    if own_folder:
        refused.pop("/tmp")
    for name, command in refused.items():
        root = folder / "rows" / name.replace("/", "")
        root.mkdir(parents=True)
        with test_look.furnished(root) as room:
            before = test_look.listing(room.root)
            code, out = room.run(f"set -o pipefail; {command}", caged=True)
            kept = test_look.listing(room.root) == before and "hidden words" not in out
            yield name, "" if code != 0 and kept else f"caged {code} {out}"
            code, out = room.run(f"set -o pipefail; {command}", caged=False)
            yield name, "" if code == 0 else f"outside {code} {out}"
    for name, (command, expected) in test_look.MUST_WORK.items():
        root = folder / "rows" / name.replace("/", "")
        root.mkdir(parents=True)
        with test_look.furnished(root) as room:
            caged, outside = room.run(command, caged=True), room.run(command, caged=False)
            held = caged[0] == 0 and caged == outside and expected in (None, caged[1])
            yield name, "" if held else f"caged {caged} outside {outside}"
