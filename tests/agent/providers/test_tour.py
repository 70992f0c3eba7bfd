"""The tour is an ordinary script and nothing else: it works in an empty folder, with files it writes itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ollm_tui.agent.providers.scripted import tour_script

TOOLS = {"read_file", "write_file", "edit_file", "delete_file", "ls", "shell", "write_todos"}


def calls() -> list[tuple[str, dict[str, object]]]:
    return [(call.name, call.arguments) for reply in tour_script() for call in reply.tool_calls]


def workspace(root: Path) -> Path:
    """The files as the first reply writes them."""
    for name, content in new_files().items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(content)
    return root


def new_files() -> dict[str, str]:
    return {
        str(arguments["path"]): str(arguments["content"])
        for name, arguments in calls()
        if name == "write_file" and not arguments.get("overwrite")
    }


def unit_tests(root: Path) -> int:
    command = next(str(arguments["command"]) for name, arguments in calls() if name == "shell")
    words = [sys.executable, *command.split()[1:]]
    return subprocess.run(words, cwd=root, capture_output=True, check=False).returncode


def test_it_uses_the_tools_that_there_are_and_every_reply_says_something():
    replies = tour_script()
    assert {name for name, _ in calls()} == TOOLS
    assert 4 <= len(replies) <= 6
    assert all(reply.text.strip() for reply in replies)
    assert replies[-1].tool_calls == []


def test_three_changes_wait_at_once():
    asking = {"edit_file", "write_file", "delete_file"}
    assert any(asking == {call.name for call in reply.tool_calls} for reply in tour_script())


def test_every_file_it_reads_changes_or_deletes_is_one_it_wrote():
    for name, arguments in calls():
        if name in ("read_file", "edit_file", "delete_file") or arguments.get("overwrite"):
            assert arguments["path"] in new_files()


def test_its_edits_make_the_failing_test_pass(tmp_path: Path):
    root = workspace(tmp_path)
    assert unit_tests(root) != 0
    for name, arguments in calls():
        if name == "edit_file":
            path = root / str(arguments["path"])
            text = path.read_text()
            for edit in arguments["edits"]:  # type: ignore[attr-defined]  # a list in the script
                assert text.count(edit["target"]) == 1
                text = text.replace(edit["target"], edit["replacement"])
            path.write_text(text)
        if name == "delete_file":
            (root / str(arguments["path"])).unlink()
    assert unit_tests(root) == 0


def test_its_plan_is_worked_off_item_by_item():
    state: dict[str, str] = {}
    for name, arguments in calls():
        if name != "write_todos":
            continue
        for item in arguments.get("todos", []):  # type: ignore[attr-defined]  # a list in the script
            state[item["task"]] = item.get("status", "pending")
        if "action" in arguments:
            assert arguments["id"] in state
            state[str(arguments["id"])] = str(arguments["action"])
    assert 3 <= len(state) <= 4
    assert set(state.values()) == {"complete"}
