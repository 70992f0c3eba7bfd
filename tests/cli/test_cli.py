"""The command line as scripts see it: exit codes, stdout, stderr (contract section 0)."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ollm_tui import __version__
from tests import program


def ollm(*arguments: str, cwd: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    done = program.run(*arguments, cwd=cwd, stdin=stdin.encode())
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("arguments", [("tool", "list"), ("run", "hello", "--provider", "offline"), ("doctor",)])
def test_too_little_memory_is_a_sentence_and_no_traceback(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    script = f'ulimit -v 51200; exec "{sys.executable}" -m ollm_tui "$@"'
    done = subprocess.run(
        ["bash", "-c", script, "bash", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert "there is not enough memory" in done.stderr


@pytest.mark.parametrize(("arguments", "code"), [(("tool", "call", "ls", "{}"), 2), (("doctor",), 2)])
def test_a_configuration_that_cannot_be_looked_at_is_named_and_denies(
    tmp_path: Path, arguments: tuple[str, ...], code: int
) -> None:
    nowhere = f"/{'x' * 300}"  # a name that is too long cannot be looked up, by root neither
    done = subprocess.run(
        [sys.executable, "-m", "ollm_tui", *arguments],
        cwd=tmp_path, capture_output=True, text=True, check=False, env={**os.environ, "XDG_CONFIG_HOME": nowhere},
    )  # fmt: skip
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
    assert "File name too long" in done.stdout + done.stderr


def test_a_workspace_brings_no_modules_of_its_own(tmp_path: Path) -> None:
    for name in ("httpx", "tomlkit", "tree_sitter_bash", "readability"):
        (tmp_path / f"{name}.py").write_text("open('ran', 'w').close()\n")
    done = subprocess.run(
        [sys.executable, "-m", "ollm_tui", "tool", "call", "shell", '{"command": "echo hi"}', "--yes"],
        cwd=tmp_path, capture_output=True, text=True, check=False, env={**os.environ, "OLLM_PROBE": "0"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "ran").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows the variables of a process as files")
def test_a_command_cannot_read_the_variables_of_the_program_that_started_it(tmp_path: Path) -> None:
    """Root reads everything: there both give up what lets them."""
    as_others = ["setpriv", "--bounding-set=-all", "--"] if os.geteuid() == 0 else []
    if as_others and shutil.which("setpriv") is None:
        pytest.skip("root can read everything, and there is no setpriv to be less")
    plain = subprocess.Popen([*as_others, "sleep", "60"], env={**os.environ, "CANARY": "seen"})
    program = subprocess.Popen(
        [*as_others, sys.executable, "-m", "ollm_tui", "tool", "call", "--batch", "-", "--yes", "-C", str(tmp_path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "CANARY": "seen"},
    )  # fmt: skip
    try:
        rows = [
            {"name": "shell", "arguments": {"command": f"grep -c CANARY /proc/{pid}/environ"}}
            for pid in (program.pid, plain.pid)
        ]
        printed, _ = program.communicate("".join(json.dumps(row) + "\n" for row in rows), timeout=60)
        hidden, control = (str(row["llmContent"]) for row in lines(printed))
    finally:
        for process in (plain, program):
            process.kill()
            process.wait()
    assert "Exit code: 0" in control
    assert "Permission denied" in hidden


def test_the_version_comes_without_anything_heavy(tmp_path: Path) -> None:
    code = "import sys; from ollm_tui.cli import main; main(['--version']); print(sorted({'textual', 'httpx', 'pydantic', 'rich'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"ollm-tui {__version__}", "[]"]


def test_without_a_terminal_the_dashboard_names_the_other_way(tmp_path: Path) -> None:
    done = ollm(cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "ollm-tui run" in done.stderr


@pytest.mark.parametrize("arguments", [
    ["tool", "call"], ["tool", "call", "ls"], ["tool", "call", "ls", "{"], ["policy", "check", "ls"], ["run"], ["run", ""],
    ["tool", "list", "-C", "/nowhere/at/all"], ["run", "x", "--provider", "scripted", "--script", "/nowhere.json"],
    ["tool", "list", "--policy", "/nowhere.toml"], ["--nonsense", "run", "x"], ["run", "x", "--provider", "openai"],
])  # fmt: skip
def test_usage_errors_exit_2_with_an_empty_stdout(tmp_path: Path, arguments: list[str]) -> None:
    done = ollm(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.strip()


def test_tools_are_listed_by_name(tmp_path: Path) -> None:
    names = ollm("tool", "list", cwd=tmp_path).stdout.split()
    assert names == sorted(names) and {"read_file", "shell", "write_todos"} <= set(names)
    rows = lines(ollm("tool", "list", "--json", cwd=tmp_path).stdout)
    assert [row["name"] for row in rows] == names
    assert {row["name"]: row["aliases"] for row in rows}["shell"] == ["exec"]
    assert rows[0].keys() == {"name", "displayName", "group", "description", "aliases", "risk"}


@pytest.mark.parametrize(
    ("form", "key"), [("ollm", "parameters"), ("openai", "function"), ("anthropic", "input_schema")]
)
def test_schemas_come_in_three_forms(tmp_path: Path, form: str, key: str) -> None:
    rows = lines(ollm("tool", "schema", "--format", form, cwd=tmp_path).stdout)
    assert rows and all(key in row for row in rows)


def test_denied_tools_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text('[tools]\ndeny = ["exec"]\n')
    names = ollm("tool", "list", "--policy", "p.toml", cwd=tmp_path).stdout.split()
    assert "ls" in names and "shell" not in names


def test_a_call_prints_its_result(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello\n")
    done = ollm("tool", "call", "read_file", '{"path": "a.txt"}', cwd=tmp_path)
    result = json.loads(done.stdout)
    assert done.returncode == 0
    assert (result["ok"], result["data"]["content"]) == (True, "hello\n")
    assert "error" not in result


@pytest.mark.parametrize(("name", "arguments", "exit_code", "kind"), [
    ("read_file", {"path": "missing"}, 1, "FileNotFoundError"),
    ("nope", {}, 1, "ToolNotFoundError"),
    ("read_file", [], 1, "ValidationError"),
    ("read_file", {"path": "../../x"}, 1, "InvalidPathError"),
    ("delete_file", {"path": "a.txt"}, 3, "PolicyDeniedError"),
    ("shell", {"command": "touch b.txt"}, 3, "PolicyDeniedError"),
])  # fmt: skip
def test_failures_have_their_exit_code(tmp_path: Path, name: str, arguments: object, exit_code: int, kind: str) -> None:
    (tmp_path / "a.txt").write_text("x")
    done = ollm("tool", "call", name, json.dumps(arguments), cwd=tmp_path)
    result = json.loads(done.stdout)
    assert (done.returncode, result["error"]["type"]) == (exit_code, kind)
    if exit_code == 3:
        assert result["error"]["details"]["decision"] == "ask"
        assert result["error"]["message"] == "needs confirmation and nobody is there to answer; --yes approves"
        assert (tmp_path / "a.txt").exists() and not (tmp_path / "b.txt").exists()


def test_yes_approves_what_asks(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    assert ollm("tool", "call", "delete_file", '{"path": "a.txt"}', "--yes", cwd=tmp_path).returncode == 0
    assert not (tmp_path / "a.txt").exists()
    [row] = lines(ollm("trash", "list", "--json", cwd=tmp_path).stdout)
    assert row.keys() == {"id", "path", "deletedAt", "size"}
    restored = ollm("trash", "restore", str(row["id"]), cwd=tmp_path)
    assert restored.returncode == 0
    assert restored.stderr == f"restored: {row['path']}\n"
    assert (tmp_path / "a.txt").read_text() == "x"


def test_a_batch_answers_row_by_row_in_one_process(tmp_path: Path) -> None:
    rows = [
        {"name": "write_todos", "arguments": {"action": "add", "task": "one"}, "id": 7},
        [],
        {"arguments": {}},
        {"name": "shell", "arguments": {"command": "sleep 30", "background": True}, "id": "job"},
        {"name": "shell_kill", "arguments": {"id": "j1"}},
        {"name": "exec", "arguments": {"command": "echo hi"}},
    ]
    text = "\n\n".join(json.dumps(row) for row in rows) + "\nnot json\n"
    done = ollm("tool", "call", "--batch", "-", "--yes", cwd=tmp_path, stdin=text)
    results = lines(done.stdout)
    assert done.returncode == 0 and len(results) == 7
    assert [result.get("id") for result in results] == [7, None, None, "job", None, None, None]
    assert [result["ok"] for result in results] == [True, False, False, True, True, True, False]
    assert {result["error"]["type"] for result in results if not result["ok"]} == {"ValidationError"}
    assert results[3]["data"]["id"] == "j1"


def test_shared_options_may_stand_anywhere(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.txt").write_text("x")
    for arguments in (
        ["-C", "sub", "tool", "call", "ls", "{}"],
        ["tool", "-C", "sub", "call", "ls", "{}"],
        ["tool", "call", "ls", "{}", "-C", "sub"],
    ):
        done = ollm(*arguments, cwd=tmp_path)
        assert json.loads(done.stdout)["llmContent"] == "- a.txt", arguments


def test_policy_check_judges_and_runs_nothing(tmp_path: Path) -> None:
    done = ollm("policy", "check", "shell", '{"command": "rm -rf x && ls"}', cwd=tmp_path)
    judged = json.loads(done.stdout)
    assert done.returncode == 0
    assert (judged["decision"], judged["risk"]) == ("ask", "high")
    assert {line["layer"] for line in judged["trace"]} == {"exec"} and judged["reason"]


DEFAULT_POLICY: list[tuple[str, dict[str, object], str]] = [
    ("read_file", {"path": "a"}, "allow"), ("read_file", {"path": ".env"}, "ask"), ("edit_file", {"path": "a", "edits": [{"target": "x", "replacement": "y"}]}, "ask"),
    ("write_file", {"path": "new", "content": ""}, "allow"), ("write_file", {"path": "old", "content": "", "overwrite": True}, "ask"),
    ("delete_file", {"path": "old"}, "ask"), ("shell", {"command": "git status"}, "allow"), ("shell", {"command": "ls -la | head"}, "allow"),
    ("shell", {"command": "cat .env"}, "ask"), ("shell", {"command": "cat ../x"}, "ask"), ("shell", {"command": "ls > out"}, "ask"), ("shell", {"command": "echo $(rm x)"}, "ask"),
    ("nope", {}, "deny"), ("read_file", {}, "deny"), ("read_file", {"path": "/etc/passwd"}, "deny"), ("write_file", {"path": ".ollm/x", "content": ""}, "deny"),
]  # fmt: skip


def test_the_default_policy(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("x")
    rows = [json.dumps({"name": tool, "arguments": arguments}) for tool, arguments, _ in DEFAULT_POLICY]
    done = ollm("policy", "check", "--batch", "-", cwd=tmp_path, stdin="\n".join(rows))
    judged = [row["decision"] for row in lines(done.stdout)]
    assert [(*row[:2], decision) for row, decision in zip(DEFAULT_POLICY, judged, strict=True)] == DEFAULT_POLICY
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("tool", "decision"), [("read_file", "deny"), ("nope", "deny"), ("git_status", "allow")])
def test_a_single_check_exits_0_whatever_it_decides(tmp_path: Path, tool: str, decision: str) -> None:
    done = ollm("policy", "check", tool, "{}", cwd=tmp_path)
    assert (done.returncode, json.loads(done.stdout)["decision"]) == (0, decision), done.stdout


def test_policy_check_takes_a_batch_in_either_wording(tmp_path: Path) -> None:
    rows = [{"tool": "ls", "params": {}, "id": 1}, {"name": "ls", "arguments": {}}, "nonsense"]
    done = ollm("policy", "check", "--batch", "-", cwd=tmp_path, stdin="\n".join(map(json.dumps, rows)))
    judged = lines(done.stdout)
    assert [row["decision"] for row in judged] == ["allow", "allow", "deny"] and judged[0]["id"] == 1


def test_a_faulty_policy_stops_every_command(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text('[[rules]]\ntool = "ls"\naction = "alow"\n')
    for arguments in (
        ["tool", "list"],
        ["tool", "call", "ls", "{}", "--yes"],
        ["policy", "check", "ls", "{}"],
        ["run", "x"],
    ):
        done = ollm(*arguments, "--policy", "p.toml", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, ""), arguments
        assert "p.toml:1, rule 1" in done.stderr


def test_a_faulty_config_stops_commands_and_is_named_by_the_doctor(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('model = "m"\n[ui]\nthem = "x"\n')
    done = ollm("tool", "list", "--config", "c.toml", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "") and "c.toml:3" in done.stderr and "ui.them" in done.stderr
    doctor = ollm("doctor", "--config", "c.toml", cwd=tmp_path)
    assert doctor.returncode != 0 and "c.toml:3" in doctor.stdout
    doctor = ollm("doctor", cwd=tmp_path)
    assert doctor.returncode == 0 and re.search(r"ok +log: /.*/ollm-tui\.log", doctor.stdout)
    assert (tmp_path / "c.toml").read_text() == 'model = "m"\n[ui]\nthem = "x"\n'


def test_config_show_names_sources_and_masks_secrets(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('model = "from-file"\napi_key = "sk-very-secret"\n')
    done = subprocess.run(
        [sys.executable, "-m", "ollm_tui", "config", "show", "--config", "c.toml"],
        cwd=tmp_path, capture_output=True, text=True, check=True, env={**os.environ, "OLLM_UI__THEME": "nord"},
    )  # fmt: skip
    assert 'model = "from-file"  # c.toml' in done.stdout
    assert 'theme = "nord"  # OLLM_UI__THEME' in done.stdout
    assert "sk-very-secret" not in done.stdout


def test_trust_is_for_the_file_as_it_is(tmp_path: Path) -> None:
    assert ollm("trust", cwd=tmp_path).returncode == 1
    (tmp_path / ".ollm").mkdir()
    (tmp_path / ".ollm" / "config.toml").write_text('[[policy.rules]]\ntool = "ls"\naction = "deny"\n')
    assert ollm("tool", "call", "ls", "{}", cwd=tmp_path).returncode == 0
    assert ollm("trust", cwd=tmp_path).returncode == 0
    assert ollm("tool", "call", "ls", "{}", cwd=tmp_path).returncode == 3


# -- run ------------------------------------------------------------------------------------------------------------

SCRIPT = [
    {"text": "I'll look.", "toolCalls": [{"name": "ls", "arguments": {}}, {"name": "delete_file", "arguments": {"path": "a.txt"}}]},
    {"text": "Done."},
]  # fmt: skip


def scripted(tmp_path: Path, *arguments: str, script: object = SCRIPT) -> subprocess.CompletedProcess[str]:
    (tmp_path / "ws").mkdir(exist_ok=True)
    (tmp_path / "ws" / "a.txt").write_text("x")
    (tmp_path / "script.json").write_text(json.dumps(script))
    return ollm("run", "go", "--provider", "scripted", "--script", "../script.json", *arguments, cwd=tmp_path / "ws")


def test_jsonl_is_events_from_the_first_to_turn_finished(tmp_path: Path) -> None:
    from ollm_tui.agent.events import read_event

    done = scripted(tmp_path, "--output", "jsonl")
    events = [read_event(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0
    assert (events[0].type, events[-1].type) == ("session_started", "turn_finished")
    assert [event.id for event in events] == list(range(1, len(events) + 1))
    assert "confirmation_settled" in {event.type for event in events}


def test_json_is_one_object(tmp_path: Path) -> None:
    done = scripted(tmp_path, "--output", "json")
    summary = json.loads(done.stdout)
    assert (done.returncode, summary["status"], summary["text"]) == (0, "completed", "I'll look.\n\nDone.")
    assert [call["name"] for call in summary["toolCalls"]] == ["ls", "delete_file"]
    assert summary["toolCalls"][1]["result"]["error"]["code"] == "POLICY_DENIED"


def test_text_is_the_answer_alone(tmp_path: Path) -> None:
    done = scripted(tmp_path)
    assert done.stdout == "I'll look.\nDone.\n"
    assert "delete_file" in done.stderr


def test_a_failed_turn_exits_1_and_says_why(tmp_path: Path) -> None:
    done = scripted(tmp_path, "--output", "json", script=[{"expect": {"toolNames": ["nope"]}}])
    assert done.returncode == 1 and json.loads(done.stdout)["error"]["message"]


def test_a_model_server_that_is_down_is_named(tmp_path: Path) -> None:
    done = ollm(
        "run", "hi", "--provider", "openai", "--base-url", "http://127.0.0.1:9/v1", "--model", "m", cwd=tmp_path
    )
    assert done.returncode == 1 and "127.0.0.1:9" in done.stderr


def test_the_prompt_may_come_from_stdin_and_be_a_command_word(tmp_path: Path) -> None:
    done = ollm("run", "-", "--provider", "offline", cwd=tmp_path, stdin="ls\n")
    assert done.returncode == 0 and done.stdout.strip()


def test_ctrl_c_ends_a_run_with_130_and_its_last_event(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{"text": "word " * 500, "pieceDelayMs": 50}]))
    process = subprocess.Popen(
        [sys.executable, "-m", "ollm_tui", "run", "go", "--provider", "scripted", "--script", str(script), "--output", "jsonl"],
        cwd=tmp_path, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    while "text_delta" not in process.stdout.readline():
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    rest = process.communicate(timeout=20)[0]
    last = json.loads(rest.splitlines()[-1])
    assert (process.returncode, last["type"], last["status"]) == (130, "turn_finished", "interrupted")


def test_the_memory_is_listed_a_line_each_and_only_for_a_folder_that_is_there(tmp_path: Path) -> None:
    rows = [
        {"name": "memory", "arguments": {"action": "set", "key": "two\nlines", "value": "v\n\u0000w"}},
        {"name": "memory", "arguments": {"action": "set", "key": "editor", "value": "tabs", "scope": "user"}},
    ]
    assert ollm("tool", "call", "--batch", "-", cwd=tmp_path, stdin="\n".join(map(json.dumps, rows))).returncode == 0
    listed = lines(ollm("memory", "list", cwd=tmp_path).stdout)
    assert [(row["key"], row["value"], row["scope"]) for row in listed] == [
        ("two\nlines", "v\n\0w", "workspace"), ("editor", "tabs", "user"),
    ]  # fmt: skip
    assert all(str(row["changedAt"]).endswith("Z") for row in listed)
    done = ollm("memory", "list", "-C", "/nowhere/at/all", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "") and "/nowhere/at/all" in done.stderr
