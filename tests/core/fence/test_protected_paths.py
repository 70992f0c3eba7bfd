"""A person's own list of protected files, from the settings to every tool that could reach them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ollm_tui.core import Workspace
from ollm_tui.core.fence.workspace import Access
from ollm_tui.options import Options
from ollm_tui.runtime import Attendance, configure, open_core


@pytest.mark.parametrize(
    ("pattern", "path", "covered"),
    [
        ("*.private", "a.private", True),
        ("*.private", "deep/er/a.private", True),
        ("/contracts/", "contracts/2026/one.txt", True),
        ("/contracts/", "other/contracts/one.txt", False),
        ("secrets/**", "secrets/a/b", True),
        ("*.private", "a.private.txt", False),
    ],
)
def test_patterns_mean_what_they_mean_to_git(tmp_path: Path, pattern: str, path: str, covered: bool) -> None:
    workspace = Workspace(tmp_path, protected_patterns=[pattern])
    for access in Access:
        found = workspace.sensitivity(workspace.resolve(path), access)
        assert (found is not None) is covered
        assert found is None or found.decision == "ask"


def test_a_later_pattern_can_make_an_exception(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, protected_patterns=["*.private", "!open.private"])
    assert workspace.sensitivity(workspace.resolve("open.private"), Access.READ) is None


@pytest.fixture
def settings(tmp_path: Path) -> Options:
    (tmp_path / "config.toml").write_text('[tools]\nprotected = ["*.private"]\n')
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / "a.private").write_text("needle\n")
    (tmp_path / "ws" / "b.txt").write_text("needle\n")
    return Options(workspace=tmp_path / "ws", config_file=tmp_path / "config.toml")


@pytest.mark.parametrize(
    ("tool", "arguments", "decision"),
    [
        ("read_file", {"path": "a.private"}, "ask"),
        ("write_file", {"path": "new.private", "content": ""}, "ask"),
        ("shell", {"command": "cat a.private"}, "ask"),
        ("shell", {"command": "grep -r needle ."}, "ask"),
        ("read_file", {"path": "b.txt"}, "allow"),
        ("shell", {"command": "cat b.txt"}, "allow"),
    ],
)
async def test_every_door_asks(settings: Options, tool: str, arguments: dict[str, str], decision: str) -> None:
    async with open_core(configure(settings), Attendance.NOBODY) as core:
        assert (await core.executor.explain(tool, arguments)).decision == decision  # type: ignore[arg-type]  # plain JSON


async def test_searches_leave_them_out_and_say_so(settings: Options) -> None:
    async with open_core(configure(settings), Attendance.NOBODY) as core:
        for tool, arguments in (("grep", {"pattern": "needle"}), ("glob", {"pattern": "*"})):
            result = await core.executor.execute(tool, arguments)  # type: ignore[arg-type]  # plain JSON
            shown = json.dumps(result.on_stdout())
            assert "b.txt" in shown and "a.private" not in shown
            assert "left out" in result.notes[0]
