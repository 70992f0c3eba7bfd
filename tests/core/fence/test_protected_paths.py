"""A person's own list of protected files, from the settings to every tool that could reach them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ollm_tui.core import MessageBus, Workspace
from ollm_tui.core.fence.workspace import Access
from ollm_tui.core.tools.context import ToolContext
from ollm_tui.core.tools.move_file import MOST_COMPARED, MOVE_FILE
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


def asks(workspace: Workspace, **arguments: str) -> str:
    """Return why `balanced` asks before a move; empty where it does not."""
    call = MOVE_FILE.create_invocation(arguments, ToolContext(bus=MessageBus(), workspace=workspace))
    touched = [workspace.resolve(each.path, each.access, follow=each.follow) for each in call.touched_paths()]
    found = next(filter(None, (workspace.sensitivity(each, Access.WRITE) for each in touched)), None)
    return found.reason if found else call.facts().question or ""


@pytest.mark.parametrize("folder", [".docker", ".gem", ".terraform.d", ".cargo", ".config", "sub/.docker"])
def test_a_directory_that_makes_a_name_in_it_a_credential_is_not_renamed_unasked(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "plain").mkdir()
    assert asks(Workspace(tmp_path), **{"from": folder, "to": "other"})
    assert asks(Workspace(tmp_path), **{"from": "plain", "to": f"new/{folder}"})
    assert not asks(Workspace(tmp_path), **{"from": "plain", "to": "other"})


def test_a_directory_in_which_the_person_protects_a_path_is_not_moved_unasked(tmp_path: Path) -> None:
    for name in ("conf/deep/prod.yml", "other/deep/prod.yml", "src/a.private"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x\n")
    (tmp_path / "link").symlink_to("conf")
    workspace = Workspace(tmp_path, protected_patterns=["/conf/deep/prod.yml", "/data/prod.yml", "*.private"])
    assert "prod.yml" in asks(workspace, **{"from": "conf", "to": "elsewhere"})
    assert "prod.yml" in asks(workspace, **{"from": "conf/deep", "to": "deep"})
    assert "prod.yml" in asks(workspace, **{"from": "other/deep", "to": "data"}), "protected from then on"
    assert not asks(workspace, **{"from": "link", "to": "led"}), "the link alone is moved"
    assert not asks(workspace, **{"from": "src", "to": "lib"}), "protected wherever it lies"
    assert not asks(Workspace(tmp_path), **{"from": "conf", "to": "elsewhere"})
    for number in range(MOST_COMPARED + 1):
        (tmp_path / "src" / str(number)).touch()
    assert "too much" in asks(workspace, **{"from": "src", "to": "lib"})
