"""`ollm-tui undo list | show | apply` (contract sections 0 and 9)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ollm_tui.cli import main
from ollm_tui.core.base.app_dirs import state_dir
from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.files.journal import EntryState, change_between, with_state
from ollm_tui.core.files.journal_states import Place, look_at
from ollm_tui.core.files.journal_undo import open_undo


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace in which one call has changed `a.txt`."""
    undo = open_undo(state_dir(), tmp_path)
    place = Place(str(tmp_path), "a.txt")
    (tmp_path / "a.txt").write_text("one\n")
    before = look_at(place)
    entry = undo.journal.begin("call-1", "edit_file", "Edit a.txt", [b"one\n"])
    (tmp_path / "a.txt").write_text("two\n")
    change = change_between(place, before, look_at(place))
    assert change is not None
    undo.journal.save(with_state(entry, EntryState.DONE, [change]), [b"two\n"])
    undo.journal.store.close()
    return tmp_path


def rows(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> list[JsonObject]:
    assert main(["undo", *arguments, "--json"]) == code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_call_is_listed_shown_and_undone(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [entry] = rows(capsys, "list", "-C", str(workspace))
    assert entry == {
        "id": "u1",
        "at": entry["at"],
        "call": "call-1",
        "turn": "",
        "tool": "edit_file",
        "title": "Edit a.txt",
        "status": "",
        "note": "",
        "changes": [{"path": "a.txt", "change": "changed", "undone": False}],
    }
    step: JsonObject = {"entry": "u1", "path": "a.txt", "change": "changed", "outcome": "undo"}
    [shown] = rows(capsys, "show", "u1", "-C", str(workspace))
    assert shown == {**step, "diff": "@@ -1,1 +1,1 @@\n-one\n+two"}
    [planned] = rows(capsys, "apply", "call-1", "--dry-run", "-C", str(workspace))
    assert planned == {"id": None, "dryRun": True, "steps": [step]}
    assert (workspace / "a.txt").read_text() == "two\n"
    [done] = rows(capsys, "apply", "a.txt", "-C", str(workspace))
    assert done == {"id": "u2", "dryRun": False, "steps": [step]}
    assert (workspace / "a.txt").read_text() == "one\n"
    assert [row["status"] for row in rows(capsys, "list", "-C", str(workspace))] == ["undone", ""]


def test_what_changed_since_stays_and_is_exit_1(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (workspace / "a.txt").write_text("mine\n")
    [done] = rows(capsys, "apply", "u1", "-C", str(workspace), code=1)
    assert done["id"] is None
    assert main(["undo", "show", "u1", "-C", str(workspace)]) == 0
    printed = capsys.readouterr().out
    assert "changed since" in printed and "-one\n+two" in printed and "-two\n+mine" in printed
    assert (workspace / "a.txt").read_text() == "mine\n"


def test_an_unknown_name_is_a_usage_error(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["undo", "apply", "u9", "-C", str(workspace)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "u1" in printed.err
