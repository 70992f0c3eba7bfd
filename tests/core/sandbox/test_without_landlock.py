"""A kernel without landlock, and what bubblewrap there is: what runs, what asks, and what is said."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from ollm_tui.cli import main
from ollm_tui.core.sandbox import work
from ollm_tui.core.sandbox.bubblewrap import BubblewrapCage
from ollm_tui.core.sandbox.engines import bubblewrap
from ollm_tui.core.sandbox.seccomp import apply_filter

pytestmark = pytest.mark.skipif(bool(bubblewrap().problem), reason=bubblewrap().problem or "bubblewrap works")

REPOSITORY = Path(__file__).parents[3]
CALLS = [
    {"name": "shell", "arguments": {"command": "cat a.py"}},
    {"name": "shell", "arguments": {"command": "git status --short"}},
    {"name": "format_code", "arguments": {"paths": ["a.py"], "check": True}},
]
SIMPLE, READING = "on this machine", "caged, reads only"


@dataclass(frozen=True)
class Given:
    """A program called bwrap, and what is to be seen of it."""

    script: str | None
    places: tuple[str | None, ...]
    """Of the calls; None where one asks."""
    said: tuple[str, ...]
    """By `sandbox check`."""


ASKS = (SIMPLE, None, None)
GIVEN = {
    "works": Given(
        'exec "$REAL" "$@"', (READING,) * 3, ("look: what runs", "bubblewrap holds what only reads", "files      enforced")
    ),
    "is missing": Given(None, ASKS, ("bwrap is not installed", "without bubblewrap all that only reads asks")),
    "is too old": Given(
        'case "$*" in *--disable-userns*) echo "bwrap: Unknown option --disable-userns" >&2; exit 1;; esac\n'
        'exec "$REAL" "$@"',
        ASKS,
        ("Unknown option --disable-userns (it is too old: 0.8.0 or newer is needed)",),
    ),
    "fails": Given(
        "echo 'bwrap: No permissions to create new namespace' >&2; exit 1", ASKS, ("No permissions to create new namespace",)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GIVEN)
def test_a_kernel_without_landlock_where_bubblewrap(name: str, tmp_path: Path) -> None:
    given, folder, tools, workspace = GIVEN[name], tmp_path / "bin", tmp_path / "tools", tmp_path / "ws"
    for each in (folder, tools, workspace):
        each.mkdir()
    (tools / "ruff").write_text("#!/bin/sh\necho 'x = {1}'\n")
    (tools / "ruff").chmod(0o755)
    (workspace / "a.py").write_text("x = {  1 }\n")
    subprocess.run(["git", "init", "-q", "."], cwd=workspace, check=True)
    if given.script is not None:
        (folder / "bwrap").write_text(f"#!/bin/sh\n{given.script}\n".replace("$REAL", BubblewrapCage.locate()))
        (folder / "bwrap").chmod(0o755)
    line = "import sys; from tests.core.sandbox.test_without_landlock import run; run(*sys.argv[1:])"
    ran = subprocess.run(
        [sys.executable, "-P", "-c", line, str(folder), str(workspace)], check=False, cwd=REPOSITORY, text=True,
        input="".join(json.dumps(call) + "\n" for call in CALLS), capture_output=True, timeout=60,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PATH": f"{tools}:/usr/bin:/bin"},
    )  # fmt: skip
    rows, _, checked = ran.stdout.partition("landlock ABI 0")
    results = [json.loads(row) for row in rows.splitlines()]
    assert tuple(row.get("place") for row in results) == given.places, (results, ran.stderr)
    for row, place in zip(results, given.places, strict=True):
        assert row["ok"] if place else row["error"]["type"] == "PolicyDeniedError", row
    assert all(each in checked for each in given.said), checked
    assert "which this kernel has not" in checked


def run(folder: str, workspace: str) -> None:
    """Make the calls and check the engines, in a process in which the kernel has no landlock."""
    apply_filter(_without_landlock())
    work.PROGRAM_FOLDERS = folder
    main(["tool", "call", "--batch", "-", "-C", workspace])
    main(["sandbox", "check"])


def _without_landlock() -> bytes:
    """Return a filter in which the three system calls of landlock are unknown, as on Linux 5.12."""
    load_number, at_least, give = 0x20, 0x35, 0x06
    program = [(load_number, 0, 0, 0), (at_least, 0, 2, 444), (at_least, 1, 0, 447), (give, 0, 0, 0x50000 | 38)]
    return b"".join(struct.pack("HBBI", *each) for each in (*program, (give, 0, 0, 0x7FFF0000)))
