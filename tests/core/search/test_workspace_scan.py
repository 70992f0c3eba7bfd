"""What two looks at a workspace tell (contract section 9)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ollm_tui.core.base.app_dirs import state_dir
from ollm_tui.core.search import workspace_scan
from ollm_tui.core.search.workspace_scan import not_kept, scan_workspace


def test_what_was_written_replaced_renamed_or_removed_is_told_from_the_rest(tmp_path: Path) -> None:
    for name in ("same", "written", "replaced", "renamed", "removed"):
        (tmp_path / name).write_text("1234")
    before = scan_workspace(str(tmp_path))
    times = (tmp_path / "written").stat()
    (tmp_path / "written").write_text("4321")
    os.utime(tmp_path / "written", ns=(times.st_atime_ns, times.st_mtime_ns))
    (tmp_path / "new").write_text("1234")
    (tmp_path / "new").replace(tmp_path / "replaced")
    (tmp_path / "renamed").rename(tmp_path / "other")
    (tmp_path / "removed").unlink()
    changed = before.changed(scan_workspace(str(tmp_path)))
    assert changed == [b"other", b"removed", b"renamed", b"replaced", b"written"]


def test_what_rules_leave_out_is_seen_from_outside_only(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("build/\n*.o\n")
    (tmp_path / "build").mkdir()
    (tmp_path / "build/a").write_text("")
    (tmp_path / "b.o").write_text("")
    scan = scan_workspace(str(tmp_path))
    assert (set(scan.files), set(scan.ignored)) == ({b".gitignore"}, {b"build", b"b.o"})


def test_our_own_files_are_not_looked_at_where_home_is_the_workspace(own_folders: Path) -> None:
    (state_dir() / "undo").mkdir(parents=True)
    (state_dir() / "undo/undo.db").write_text("")
    (own_folders / "mine").write_text("")
    assert set(scan_workspace(str(own_folders)).files) == {b"mine"}


def test_a_huge_workspace_is_looked_at_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace_scan, "MOST_SCANNED", 5)
    for directory in range(4):
        (tmp_path / f"d{directory}").mkdir()
        for number in range(3):
            (tmp_path / f"d{directory}/{number}").write_text("")
    scan = scan_workspace(str(tmp_path))
    assert scan.cut
    assert len(scan.files) == 6


def test_files_that_undo_could_not_bring_back_are_counted(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.o\n")
    sizes = {"a": 1, "b.o": 1, "big": 2_000_000, ".env": 1}
    for name in sizes:
        (tmp_path / name).write_text("")
    files = [(os.fsencode(tmp_path / name), size) for name, size in sizes.items()]
    assert not_kept([str(tmp_path)], files) == 3
