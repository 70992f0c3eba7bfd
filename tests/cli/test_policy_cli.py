"""`ollm-tui policy`: what programs and CI read, and the exit codes."""

from __future__ import annotations

import json
import sqlite3
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any  # what json.loads returns

import pytest

from ollm_tui.cli import main
from ollm_tui.core.base.app_dirs import data_dir
from ollm_tui.core.policy.policy_file import PRESETS, preset_text
from ollm_tui.core.policy.repository_trust import TrustStore

Run = Callable[..., int]


@pytest.fixture
def policy(tmp_path: Path) -> Run:
    (tmp_path / "ws").mkdir()

    def run(*arguments: str, text: str | None = None) -> int:
        shared = ["-C", str(tmp_path / "ws")]
        if text is not None:
            (tmp_path / "p.toml").write_text(text)
            shared += ["--policy", str(tmp_path / "p.toml")]
        return main(["policy", *arguments, *shared])

    return run


def rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("name", PRESETS)
def test_each_preset_is_shown_as_it_is(policy: Run, capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert policy("show", name) == 0
    assert capsys.readouterr().out == preset_text(name)


def test_the_policy_in_force_is_shown_as_toml_with_its_sources(
    policy: Run, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = (
        'preset = "strict"\n[tools]\ndeny = ["browser"]\n[exec]\napprovals = [{ pattern = "make *" }]\n'
        '[[rules]]\ntool = "ls"\naction = "deny"\nmessage = "say \\"no\\""\n'
        'conditions = [{ param = "path", operator = "equals", value = ["a", "b"] }]\n'
    )
    assert policy("show", text=text) == 0
    out = capsys.readouterr().out
    shown = tomllib.loads(out)
    assert (shown["preset"], shown["default_action"], shown["tools"]["deny"]) == ("strict", "ask", ["browser"])
    assert shown["exec"]["approvals"] == [{"pattern": "make *", "added_by": "user"}]
    assert shown["exec"]["read_only_commands"] is False
    assert shown["rules"][0] == tomllib.loads(text)["rules"][0]
    assert shown["rules"][1:] == tomllib.loads(preset_text("strict"))["rules"]
    assert f"{tmp_path / 'p.toml'}:6" in out and "preset strict" in out


def test_a_trusted_repositorys_rules_are_shown_beside_the_others(
    policy: Run, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    own = tmp_path / "ws" / ".ollm" / "config.toml"
    own.parent.mkdir()
    own.write_text('[[policy.rules]]\ntool = "ls"\naction = "deny"\n')
    policy("show")
    assert "repository" not in capsys.readouterr().out
    TrustStore.of_user().trust((tmp_path / "ws").resolve())
    policy("show")
    out = capsys.readouterr().out
    assert "only their asks and denies count" in out and '# tool = "ls"' in out
    tomllib.loads(out)


def test_lint_exits_one_with_findings_and_none_without(policy: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert policy("lint") == 0
    assert capsys.readouterr().out == ""
    assert policy("lint", text='[[rules]]\ntool = "shel"\naction = "ask"\n') == 1
    (finding,) = rows(capsys.readouterr().out)
    assert finding["kind"] == "unknown-tool" and finding["line"] == 1 and "shell" in finding["message"]


@pytest.mark.parametrize("action", [["lint"], ["show"], ["test", "t.toml"], ["check", "ls", "{}"]])
def test_a_faulty_or_open_policy_is_exit_two_with_nothing_on_stdout(
    policy: Run, capsys: pytest.CaptureFixture[str], tmp_path: Path, action: list[str]
) -> None:
    assert policy(*action, text='[[rules]]\ntool = "ls"\naction = "alow"\n') == 2
    told = capsys.readouterr()
    assert told.out == "" and "p.toml:1" in told.err and "rule 1" in told.err
    (tmp_path / "p.toml").chmod(0o666)
    assert main(["policy", *action, "--policy", str(tmp_path / "p.toml"), "-C", str(tmp_path)]) == 2
    told = capsys.readouterr()
    assert told.out == "" and "chmod" in told.err


TABLE = """
[[case]]
tool = "shell"
arguments = { command = "git status" }
expect = "allow"

[[case]]
tool = "exec"
arguments = { command = "rm -rf /" }
expect = "ask"
risk = "high"

[[case]]
tool = "write_file"
arguments = { path = "new.txt", content = "x" }
expect = "allow"

[[case]]
tool = "write_file"
arguments = { path = "new.txt", content = "x" }
mode = "plan"
expect = "deny"
reason = "plan mode"

[[case]]
tool = "read_file"
arguments = { path = "../outside" }
expect = "deny"
"""


def test_a_table_that_comes_out_as_expected_exits_zero(
    policy: Run, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "t.toml").write_text(TABLE)
    assert policy("test", str(tmp_path / "t.toml")) == 0
    told = capsys.readouterr()
    assert told.out == "" and "5 of 5" in told.err


def test_rows_that_differ_are_printed_and_exit_one(
    policy: Run, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    table = tmp_path / "t.jsonl"
    table.write_text('{"tool":"ls","arguments":{},"expect":"deny","id":"x"}\n{"tool":"nope","expect":"deny"}\n')
    assert policy("test", str(table)) == 1
    (difference,) = rows(capsys.readouterr().out)
    assert (difference["row"], difference["id"]) == (1, "x")
    assert difference["expected"] == {"decision": "deny"} and difference["found"]["decision"] == "allow"


@pytest.mark.parametrize("text", ["", "[[case]]\ntool = 'ls'\nexpect = 'perhaps'\n", "\udcff"])
def test_a_table_that_cannot_be_read_is_exit_two(
    policy: Run, capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str
) -> None:
    (tmp_path / "t.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert policy("test", str(tmp_path / "t.toml")) == 2
    assert capsys.readouterr().out == ""
    assert policy("test", str(tmp_path / "missing.toml")) == 2


def test_the_log_tells_what_was_decided_and_that_it_is_whole(
    policy: Run, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    workspace = str(tmp_path / "ws")
    assert policy("log", "--json") == 0 and capsys.readouterr().out == ""
    assert main(["tool", "call", "ls", "{}", "-C", workspace]) == 0
    assert main(["tool", "call", "edit_file", '{"path": "a", "edits": []}', "-C", workspace]) != 0
    capsys.readouterr()
    assert policy("log", "--json") == 0
    lines = rows(capsys.readouterr().out)
    assert [line["number"] for line in lines] == list(range(1, len(lines) + 1))
    assert [line["entry"]["event"] for line in lines[:2]] == ["decided", "finished"]
    assert lines[0]["entry"]["decision"] == "allow" and lines[0]["entry"]["file"] == "preset balanced"
    assert policy("log", "--last", "1") == 0
    assert "edit_file" in capsys.readouterr().out
    assert policy("log", "--verify") == 0
    assert rows(capsys.readouterr().out) == [{"ok": True}]


def test_a_log_that_was_tampered_with_is_exit_one(
    policy: Run, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["tool", "call", "ls", "{}", "-C", str(tmp_path / "ws")]) == 0
    capsys.readouterr()
    with sqlite3.connect(data_dir() / "ollm.db") as db:
        db.execute("DROP TRIGGER audit_stays")
        db.execute("""UPDATE audit SET entry = replace(entry, '"allow"', '"deny"') WHERE number = 1""")
    assert policy("log", "--verify") == 1
    told = capsys.readouterr()
    assert rows(told.out)[0]["line"] == 1 and "Line 1" in told.err
