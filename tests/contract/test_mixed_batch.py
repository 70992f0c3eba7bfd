"""Several hundred mixed calls in one batch: each tool with each other tool's arguments, through the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from ollm_tui.core.base.errors import ERROR_TABLE
from ollm_tui.core.tools.builtin import BUILTIN_TOOLS

ARGUMENTS: dict[str, dict[str, object]] = {
    "delete_file": {"path": "a.txt"},
    "edit_file": {"path": "a.txt", "edits": [{"target": "one", "replacement": "two"}]},
    "git_add": {"paths": ["m.txt"]},
    "git_branch": {"action": "list"},
    "git_checkout": {"revision": "nope", "paths": ["a.txt"]},
    "git_commit": {"message": "one", "amend": True},
    "git_push": {"branch": "none"},
    "git_blame": {"path": "a.txt", "startLine": 1},
    "git_diff": {"staged": True, "contextLines": 0},
    "git_log": {"grep": "one"},
    "git_show": {"path": "a.txt"},
    "git_status": {"path": "."},
    "install_package": {"manager": "pip", "packages": ["./x"]},
    "format_code": {"paths": ["a.txt"], "check": True},
    "glob": {"pattern": "**/*.txt", "maxResults": 3},
    "grep": {"pattern": "one|two", "caseSensitive": True},
    "http_fetch": {"url": "http://127.0.0.1:9/x", "method": "PUT", "body": "b"},
    "ls": {"recursive": True},
    "memory": {"action": "set", "key": "k", "value": "v"},
    "memory_get": {"key": "k"},
    "memory_search": {"query": "v"},
    "move_file": {"from": "m.txt", "to": "n.txt"},
    "read_file": {"path": "a.txt", "startLine": 1, "endLine": 1},
    "read_many_files": {"paths": ["a.txt", "missing"]},
    "run_code": {"language": "bash", "code": "echo one"},
    "run_tests": {"names": ["one"]},
    "search_code": {"query": "one", "paths": ["a.txt"]},
    "shell": {"command": "echo one", "timeout": 5000},
    "shell_kill": {"id": "j9"},
    "shell_output": {"id": "j9", "wait": 1},
    "web_fetch": {"url": "http://127.0.0.1:9/x", "timeout": 1},
    "web_search": {"query": "one"},
    "browser": {"action": "open", "url": "http://127.0.0.1:9/x"},
    "write_file": {"path": "new/a.txt", "content": "one\n"},
    "write_todos": {"action": "add", "task": "one"},
    "task": {"description": "one", "prompt": "one"},
    "propose_plan": {"steps": [{"task": "one", "commands": ["echo *"]}]},
}
ALIASES = ("exec", "file_read", "file_write", "file_search", "list_directory")


def test_every_tool_answers_every_other_tools_arguments_with_a_typed_result(tmp_path: Path) -> None:
    assert ARGUMENTS.keys() == {tool.name for tool in BUILTIN_TOOLS}
    for name in ("a.txt", "m.txt"):
        (tmp_path / name).write_text("one\n")
    rows = [
        {"id": f"{name}<-{source}", "name": name, "arguments": arguments}
        for name in (*ARGUMENTS, *ALIASES)
        for source, arguments in ARGUMENTS.items()
    ]
    assert len(rows) > 400
    done = subprocess.run(
        [sys.executable, "-m", "ollm_tui", "tool", "call", "--batch", "-"],
        cwd=tmp_path,
        input="\n".join(map(json.dumps, rows)),
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
        env={**os.environ, "OLLM_PROBE": "0"},
    )
    assert done.returncode == 0, done.stderr
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert [result["id"] for result in results] == [row["id"] for row in rows]
    for result in results:
        assert result["llmContent"]
        if result["ok"]:
            assert "error" not in result
        else:
            error = result["error"]
            assert error["type"] in ERROR_TABLE and error["message"], result
            assert error["type"] != "InternalError", result
    assert (tmp_path / "a.txt").read_text() == "one\n", "nothing that asks ran: nobody was there"
