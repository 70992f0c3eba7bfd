"""Sentences of contract section 0 that only a process can break: signals, standard input, streams of rows, doctor."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import IO

import pytest
from ptyprocess import PtyProcess

from tests import DATA_DIR, program

BATCH = DATA_DIR / "contract" / "batch.jsonl"


def start(*arguments: str, cwd: Path, **environment: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "ollm_tui", *arguments],
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "OLLM_PROBE": "0", **environment},
    )


def ollm(*arguments: str, cwd: Path, stdin: bytes = b"", **environment: str) -> tuple[int, str, str]:
    done = program.run(*arguments, cwd=cwd, stdin=stdin, environment=environment)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def rows(out: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.splitlines()]


def send(stdin: IO[bytes] | None, **row: object) -> None:
    assert stdin is not None
    stdin.write(json.dumps(row).encode() + b"\n")
    stdin.flush()


def unread(pipe: IO[bytes]) -> int:
    """How many bytes in a pipe nobody has read yet."""
    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0]


def test_a_waiting_batch_ends_at_ctrl_c_and_ends_its_jobs(tmp_path: Path) -> None:
    batch = start("tool", "call", "--batch", "-", "--yes", cwd=tmp_path)
    send(batch.stdin, name="shell", arguments={"command": "sleep 300", "background": True}, id=1)
    assert batch.stdout is not None
    pid = json.loads(batch.stdout.readline())["data"]["pid"]
    batch.send_signal(signal.SIGINT)
    assert batch.wait(10) == 130  # its standard input is still open
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_row_is_answered_under_its_id(tmp_path: Path, number: signal.Signals) -> None:
    batch = start("tool", "call", "--batch", "-", "--yes", cwd=tmp_path)
    send(batch.stdin, name="ls", arguments={}, id="first")
    assert batch.stdout is not None and json.loads(batch.stdout.readline())["id"] == "first"
    send(batch.stdin, name="shell", arguments={"command": "touch started; sleep 300"}, id="cut")
    send(batch.stdin, name="write_file", arguments={"path": "never", "content": ""}, id="never")
    while not (tmp_path / "started").exists():
        time.sleep(0.02)
    batch.send_signal(number)
    out, _ = batch.communicate(timeout=10)
    [cut] = rows(out.decode())
    assert (batch.returncode, cut["id"], cut["ok"]) == (130, "cut", False)
    assert cut["error"]["code"] == "CANCELLED"  # type: ignore[index]  # an object of JSON
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize("arguments", [["policy", "check", "--batch", "-"], ["tool", "call", "ls", "-"]])
def test_waiting_for_standard_input_can_be_interrupted(tmp_path: Path, arguments: list[str]) -> None:
    process = start(*arguments, cwd=tmp_path)
    assert process.stdin is not None
    process.stdin.write(b"\n")
    process.stdin.flush()
    deadline = time.monotonic() + 60
    while unread(process.stdin):  # once it has the blank line it waits for more
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 130


def test_what_our_parent_ignored_is_not_ignored_by_commands(tmp_path: Path) -> None:
    call = json.dumps({"command": "grep -E 'Sig(Blk|Ign)' /proc/self/status; exit 3"})
    program = "trap '' HUP INT QUIT TERM TSTP CHLD; exec \"$@\""
    arguments = ["tool", "call", "shell", call, "--yes"]
    process = subprocess.run(
        ["sh", "-c", program, "sh", sys.executable, "-m", "ollm_tui", *arguments],
        check=False, cwd=tmp_path, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    result = json.loads(process.stdout)
    assert result["data"]["exitCode"] == 3, result
    masks = {line.split()[0]: int(line.split()[1], 16) for line in result["data"]["output"].splitlines()}
    named = (1 << 31) - 1  # those that the C library keeps for itself lie above
    assert {name: mask & named for name, mask in masks.items()} == {"SigBlk:": 0, "SigIgn:": 0}


def test_rows_are_utf_8_with_or_without_a_mark_whatever_the_locale(tmp_path: Path) -> None:
    row = json.dumps({"name": "write_file", "arguments": {"path": "é.txt", "content": "x"}}, ensure_ascii=False)
    text = b"\xef\xbb\xbf" + row.encode() + b"\r\n\xff\xfe\n" + b'{"name": "ls"}'
    code, out, _ = ollm("tool", "call", "--batch", "-", cwd=tmp_path, stdin=text, PYTHONIOENCODING="latin-1:strict")
    assert code == 0
    assert [row["ok"] for row in rows(out)] == [True, False, True]
    assert (tmp_path / "é.txt").read_text() == "x"


def test_a_long_batch_of_mixed_rows_answers_each(tmp_path: Path) -> None:
    """Every row says what it must end in: `expect` is `ok` or an error's type."""
    expected = rows(BATCH.read_text())
    calls = "".join(json.dumps({key: row[key] for key in row if key != "expect"}) + "\n" for row in expected)
    code, out, _ = ollm("tool", "call", "--batch", "-", "--yes", cwd=tmp_path, stdin=calls.encode())
    answers = rows(out)
    assert code == 0 and [row.get("id") for row in answers] == [row.get("id") for row in expected]
    for row, answer in zip(expected, answers, strict=True):
        error = answer.get("error")
        kind = error["type"] if isinstance(error, dict) else "ok"
        assert kind == row["expect"], (row, answer)


def test_the_full_text_of_a_cut_result_can_be_read_by_a_later_call(tmp_path: Path) -> None:
    code, out, _ = ollm("tool", "call", "shell", '{"command": "seq 5000"}', "--yes", cwd=tmp_path)
    result = json.loads(out)
    path = result["llmContent"].rsplit(" Full text: ", 1)[1]
    assert code == 0 and result["truncated"]
    calls = [
        {"name": "read_file", "arguments": {"path": path, "startLine": 2500, "endLine": 2500}},
        {"name": "grep", "arguments": {"pattern": "^2600$", "directory": path}},
        {"name": "write_file", "arguments": {"path": path, "content": "", "overwrite": True}},
    ]
    _, out, _ = ollm(
        "tool", "call", "--batch", "-", "--yes", cwd=tmp_path, stdin="\n".join(map(json.dumps, calls)).encode()
    )
    read, found, written = rows(out)
    assert read["llmContent"] == "2500" and str(found["llmContent"]).endswith(":2600: 2600")
    assert written["error"]["type"] == "InvalidPathError"  # type: ignore[index]  # an object of JSON


def test_the_doctor_is_content_unless_the_configuration_is_faulty(tmp_path: Path, own_folders: Path) -> None:
    (own_folders / "no folder").write_text("")
    code, out, _ = ollm("doctor", cwd=tmp_path, XDG_DATA_HOME=str(own_folders / "no folder"))
    assert code == 0 and "error  store" in out and "nothing was probed" in out
    (tmp_path / "c.toml").write_text('base_url = "http://someone:very-secret@127.0.0.1:9/v1"\n')
    code, out, _ = ollm("doctor", "--config", "c.toml", cwd=tmp_path, OLLM_PROBE="1")
    assert code == 0 and "nothing was probed" in out and "very-secret" not in out
    code, out, _ = ollm("config", "show", "--config", "c.toml", cwd=tmp_path)
    assert code == 0 and "127.0.0.1:9" in out and "very-secret" not in out


def test_judging_a_call_leaves_the_disk_as_it_is(tmp_path: Path, own_folders: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    calls = [
        {"name": "read_file", "arguments": {"path": "a.txt"}},
        {"name": "write_file", "arguments": {"path": "new/b.txt", "content": ""}},
        {"name": "shell", "arguments": {"command": "touch c; x=$(rm a.txt)"}},
        {"name": "memory", "arguments": {"action": "set", "key": "k", "value": "v"}},
        {"name": "write_todos", "arguments": {"action": "complete", "id": "t1"}},
        {"name": "shell_output", "arguments": {"id": "j1"}},
        {"name": "edit_file", "arguments": {"path": "none", "edits": [{"target": "a", "replacement": "b"}]}},
        {"name": "delete_file", "arguments": {"path": "a.txt"}},
        {"name": "nope"},
        "no row",
    ]
    code, out, err = ollm(
        "policy", "check", "--batch", "-", cwd=tmp_path, stdin="\n".join(map(json.dumps, calls)).encode()
    )
    decisions = [row["decision"] for row in rows(out)]
    assert (code, err) == (0, "")
    assert decisions == ["allow", "allow", "ask", "allow", "allow", "allow", "ask", "ask", "deny", "deny"]
    code, out, _ = ollm("tool", "list", cwd=tmp_path)
    assert code == 0 and "ls" in out.split()
    assert os.listdir(tmp_path) == ["a.txt"] and not list(own_folders.rglob("*"))


@pytest.mark.parametrize("named", ["127.0.0.1:9", "http://127.0.0.1:9", ":9"])
def test_ollama_host_is_where_provider_ollama_looks(tmp_path: Path, named: str) -> None:
    code, _, err = ollm("run", "hi", "--provider", "ollama", "--model", "m", cwd=tmp_path, OLLAMA_HOST=named)
    assert code == 1 and "http://127.0.0.1:9/" in err
    given = "http://127.0.0.1:19/"
    code, _, err = ollm("run", "hi", "--provider", "ollama", "--base-url", given, cwd=tmp_path, OLLAMA_HOST=named)
    assert code == 1 and given in err


@pytest.mark.parametrize(
    "arguments", ["tool call ls -", "run -", "tool call --batch -", "policy check --batch -", "tool list", ""]
)
def test_closed_standard_streams_are_empty_ones(tmp_path: Path, arguments: str) -> None:
    program = f'"$0" -m ollm_tui {arguments} {{}} 2>messages'
    for closed in ("<&-", ">&-", "<&- >&-"):
        done = subprocess.run(
            ["sh", "-c", program.format(closed), sys.executable],
            check=False, cwd=tmp_path, capture_output=True, stdin=subprocess.DEVNULL, timeout=60,
        )  # fmt: skip
        assert done.returncode in (0, 2)
        assert "Traceback" not in (tmp_path / "messages").read_text()


@pytest.mark.parametrize("redirected", ["</dev/null", "| cat", "2>&1 >/dev/null | cat", "2>messages; cat messages"])
def test_the_dashboard_wants_a_terminal_and_names_the_way_without_one(tmp_path: Path, redirected: str) -> None:
    program = f'"$0" -m ollm_tui {redirected}; echo over'
    terminal = PtyProcess.spawn(["sh", "-c", program, sys.executable], cwd=str(tmp_path), dimensions=(24, 200))
    said = b""
    try:
        while b"over" not in said:
            said += terminal.read(4096)
    finally:
        terminal.close(force=True)
    assert b"ollm-tui run PROMPT" in said
    assert b"\x1b" not in said
